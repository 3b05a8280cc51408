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
    quorum: bool = False  # independent servers: the tests marked no_quorum are not for it

    def __str__(self) -> str:
        return self.name


# Each is run with the newest server at hand, in threads and in asyncio.
TOPOLOGIES: list[Topology] = []


@functools.cache
def shared(topology: Topology) -> Any:
    """Return the running servers of a kind, which most tests share."""
    return topology.start()


from tests.topologies.quorum import QUORUM  # noqa: E402 - it needs Topology

TOPOLOGIES.append(QUORUM)
