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
    """A kind of servers to run the conformance tests on; ``name`` is for test ids.

    ``objects``: only the tests of these files; all without.
    """

    name: str
    start: Callable[[], Any]
    objects: frozenset[str] = frozenset()
    quorum: bool = False  # independent servers: the tests marked no_quorum are not for it

    def has(self, module: str) -> bool:
        """Return True if the tests of a module run here."""
        return not self.objects or module.rpartition(".test_")[2] in self.objects

    def __str__(self) -> str:
        return self.name


def _sentinel() -> Any:
    from tests.topologies.sentinel import started  # noqa: PLC0415 - only who starts it needs it

    return started()


def _cluster() -> Any:
    from tests.topologies.cluster import started  # noqa: PLC0415 - only where it is run

    return started()


def _acknowledged() -> Any:
    from tests.topologies.acknowledged import Acknowledged  # noqa: PLC0415 - as the others

    return Acknowledged()


def _quorum() -> Any:
    from tests.topologies.quorum import Patient  # noqa: PLC0415 - as the others

    return Patient().start()


def _counted() -> Any:
    from tests.topologies.cluster import Counted  # noqa: PLC0415 - as the others

    return Counted()


# What is held, and so acknowledged; nothing else differs from the one server.
HELD = frozenset(
    {
        *("exclusive", "fences", "line", "reentrant", "renewal", "foreign", "locked"),
        *("semaphore", "rwlock", "share_leases", "multi", "once", "election"),
    }
)
# Each is run with the newest server at hand, in threads and in asyncio.
TOPOLOGIES: list[Topology] = [
    Topology("sentinel", _sentinel),
    Topology("cluster", _cluster),
    Topology("acknowledged", _acknowledged, HELD),
    Topology("counted", _counted, HELD),
    Topology("quorum", _quorum, quorum=True),
]


@functools.cache
def shared(topology: Topology) -> Any:
    """Return the running servers of a kind, which most tests share."""
    return topology.start()
