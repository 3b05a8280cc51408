"""The ports of this process: what is theirs alone, and what is done when it forks or ends.

At its end idle leases are released, others logged, and the history is sent. After a fork the child
holds nothing: leases, connections and threads are the parent's.

Rules of this file:

- The child never speaks on a connection of the parent, and never shuts one down. It closes its
  copies (descriptors.py): they would hide the parent's death from the server.
- The child's view of every lease of the parent is: lost (``lease.py`` sees to that).
- The child has ids of its own, else it would repeat the parent's.
"""

from __future__ import annotations

import atexit
import os
from typing import Protocol, TypeVar
from weakref import WeakSet

from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.port import Port
from fencelock._runtime import descriptors, process
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.clock import now
from fencelock._runtime.log import listed, log

# Random bits come from the system in blocks: a call for each id would cost more than the id.
IDS_PER_BLOCK = 128
_BITS = 1 << 32


class ProcessPort(Protocol):
    """A port, as far as it matters here."""

    renewals: RenewalSchedule
    label: str
    closing: bool
    is_node: bool

    def leave(self) -> None:
        """Release the leases that are kept while they are idle; send the rest of the history."""

    def after_fork(self) -> None:
        """Drop all that belongs to the parent; runs in the child, before any other code."""


T = TypeVar("T", bound=ProcessPort)
_ports: WeakSet[ProcessPort] = WeakSet()
# The waits of the process, whose threads and tasks may each use several clients. By its generation:
# in a child of a fork no thread waits yet.
_waits: dict[int, UnitWaits] = {}


class RandomIds:
    """Ids and jitter of one port in one process."""

    __slots__ = ("_ids", "_jitter")

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._jitter = int.from_bytes(os.urandom(4), "big")

    def new_id(self) -> bytes:
        """Return 128 random bits in hexadecimal: no shell takes that for an option."""
        try:
            return self._ids.pop()  # one step, so threads need no lock
        except IndexError:
            block = os.urandom(16 * IDS_PER_BLOCK).hex().encode()
            fresh = [block[at : at + 32] for at in range(0, len(block), 32)]
            mine = fresh.pop()
            self._ids.extend(fresh)
            return mine

    def jitter(self) -> float:
        """Return a number in [0, 1) that differs from client to client; not for secrets."""
        self._jitter = state = (self._jitter * 1664525 + 1013904223) % _BITS  # Numerical Recipes
        return state / _BITS


def joined(port: Port) -> UnitWaits:
    """Return the waits of this process, and have them know a port."""
    with mutexes.mutex():  # another thread may be looking through the ports
        waits = _waits.setdefault(process.generation, UnitWaits())
        waits.ports[port] = None
    return waits


def watch(port: ProcessPort) -> None:
    """Have a port told when the process forks or ends, as long as the port lives."""
    _ports.add(port)


def watched(kind: type[T]) -> list[T]:
    """Return the ports of a kind that were not closed, without those of a quorum's nodes."""
    ports = [each for each in everywhere() if isinstance(each, kind)]
    return [each for each in ports if not (each.closing or each.is_node)]


def everywhere() -> list[ProcessPort]:
    """Return all ports of this process, also those that were closed."""
    return list(_ports)


def held_by(*ports: ProcessPort) -> list[Hold]:
    """Return the leases that ports hold now, as far as this process can prove."""
    with mutexes.mutex():
        holds = [hold for each in ports for hold in each.renewals.tracked()]
    ours = [hold for hold in holds if hold.open and not (hold.partial or hold.forked)]
    return [hold for hold in ours if not hold.notified and now() < hold.deadline]


def _leave() -> None:
    """Log the names of the leases that are still held, before the interpreter is torn down."""
    for each in everywhere():
        each.leave()
    names = [hold.name for hold in held_by(*everywhere())]
    if names:
        log.warning(
            "the process ends while it holds %d lease(s), which end by their ttl: %s",
            len(names),
            listed(names),
        )


def _in_child() -> None:
    mutexes.in_child()
    descriptors.in_child()
    for each in everywhere():
        each.after_fork()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
