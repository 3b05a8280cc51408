"""From a source to what opens blocking connections to it."""

from __future__ import annotations

from collections.abc import Callable

from fencelock._io import connect_blocking
from fencelock._io.connect_blocking import Make, Pushed
from fencelock._io.connection_blocking import Connection
from fencelock._io.inline import run
from fencelock._io.sources.kinds import Bridged, Direct, One, Source

Opener = Callable[[float, Pushed], Connection]


def opener(source: Source) -> Opener:
    """Return a function of an instant and of who hears pushes; it opens within that time.

    Raises Broken or a ServerError when there is no connection.
    """
    if isinstance(source, One):
        return lambda until, pushed: open_one(source, until, pushed)
    # Only for Sentinels:
    from fencelock._io.dial_blocking import BlockingDialer  # noqa: PLC0415 - as said above
    from fencelock._topology.master_monitor import MasterMonitor  # noqa: PLC0415 - as said above

    monitor = MasterMonitor(source, BlockingDialer())
    return lambda until, pushed: run(monitor.connect(until, pushed))


def open_one(source: One, until: float, pushed: Pushed, make: Make = Connection) -> Connection:
    """Open a connection to one server; ends like an ``Opener``."""
    if isinstance(source, Direct):
        return connect_blocking.connect(source.locate(until), until, pushed, make)
    if isinstance(source, Bridged):
        from fencelock._io.sources import bridge  # noqa: PLC0415 - seldom needed

        return bridge.connect(source, until, pushed, make)
    from fencelock._io.sources import client  # noqa: PLC0415 - needs redis-py's exceptions

    return client.connect(source, until, pushed, make)
