"""What takes the place of every server while ``fencelock.testing.inactive()`` lasts.

A connection is made to it instead of the server, also by clients that were made before. A client of
several servers that is made meanwhile has one such server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencelock._io.sources.kinds import Bridged, Direct, One

# Makes a client of redis-py for a server by its name, for threads (False) or asyncio (True).
make: Callable[[str, bool], Any] | None = None


def instead_of(source: One, *, asynchronous: bool) -> One:
    """Return what is connected to instead of one server."""
    if make is None:
        return source
    return Bridged(make(source.label, asynchronous), source.label)


def of_many(source: Any) -> Any:
    """Return one server instead of those of a Cluster, a quorum or of Sentinels."""
    if make is None or isinstance(source, One):
        return source
    return Direct(_nowhere, source.label)


def _nowhere(_until: float) -> Any:
    raise RuntimeError("a client that was made inside inactive() has no server outside of it")
