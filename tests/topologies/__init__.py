"""Several servers that look like one to a conformance test.

A topology has the ``url`` (or sources) that a client is given, ``command``, ``info``,
``commandstats``, ``binary`` and ``close``, as ``tests.servers.Server`` has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Topology:
    """A kind of servers to run the conformance tests on; ``name`` is for test ids."""

    name: str
    start: Callable[[], Any]

    def __str__(self) -> str:
        return self.name


def _cluster() -> Any:
    from tests.topologies.cluster import started  # noqa: PLC0415 - only where it is run

    return started()


# Each is run with the newest server at hand, in threads and in asyncio.
TOPOLOGIES: list[Topology] = [Topology("cluster", _cluster)]


@functools.cache
def shared(topology: Topology) -> Any:
    """Return the running servers of a kind, which most tests share."""
    return topology.start()
