"""Open a blocking connection to one server."""

from __future__ import annotations

from fencelock._io import connect_blocking
from fencelock._io.connect_blocking import Make, Pushed
from fencelock._io.connection_blocking import Connection
from fencelock._io.sources import stand_in
from fencelock._io.sources.kinds import Bridged, Direct, One


def open_one(source: One, until: float, pushed: Pushed, make: Make = Connection) -> Connection:
    """Open a connection to one server; ends like an ``Opener``."""
    source = stand_in.instead_of(source, asynchronous=False)
    if isinstance(source, Direct):
        return connect_blocking.connect(source.locate(until), until, pushed, make)
    if isinstance(source, Bridged):
        from fencelock._io.sources import bridge  # noqa: PLC0415 - seldom needed

        return bridge.connect(source, until, pushed, make)
    from fencelock._io.sources import client  # noqa: PLC0415 - needs redis-py's exceptions

    return client.connect(source, until, pushed, make)
