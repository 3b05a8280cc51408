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


def _sentinel() -> Any:
    from tests.topologies.sentinel import started  # noqa: PLC0415 - only who starts it needs it

    return started()


# Each is run with the newest server at hand, in threads and in asyncio.
TOPOLOGIES: list[Topology] = [Topology("sentinel", _sentinel)]


@functools.cache
def shared(topology: Topology) -> Any:
    """Return the running servers of a kind, which most tests share."""
    return topology.start()
