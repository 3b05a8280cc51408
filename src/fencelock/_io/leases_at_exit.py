"""What is done when a process ends: idle leases are released, others logged, the history sent."""

from __future__ import annotations

import atexit
from typing import Protocol, TypeVar
from weakref import WeakSet

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._runtime.clock import now
from fencelock._runtime.log import listed, log
from fencelock._runtime.mutex import mutex


class HoldsLeases(Protocol):
    """A port, as far as it matters here."""

    renewals: RenewalSchedule
    label: str
    closing: bool
    is_node: bool

    def leave(self) -> None:
        """Release the leases that are kept while they are idle; send the rest of the history."""


T = TypeVar("T", bound=HoldsLeases)
_holders: WeakSet[HoldsLeases] = WeakSet()


def watch(each: HoldsLeases) -> None:
    """Name the leases that this port still holds when the process ends."""
    _holders.add(each)


def watched(kind: type[T]) -> list[T]:
    """Return the ports of a kind that were not closed, without those of a quorum's nodes."""
    ports = [each for each in list(_holders) if isinstance(each, kind)]
    return [each for each in ports if not (each.closing or each.is_node)]


def everywhere() -> list[HoldsLeases]:
    """Return all ports of this process, also those that were closed."""
    return list(_holders)


def held_by(*ports: HoldsLeases) -> list[Hold]:
    """Return the leases that ports hold now, as far as this process can prove."""
    with mutex():
        holds = [hold for each in ports for hold in each.renewals.tracked()]
    return [
        hold
        for hold in holds
        if hold.open and not hold.notified and _ours(hold) and now() < hold.deadline
    ]


def _ours(hold: Hold) -> bool:
    return not hold.partial and not hold.forked


def _leave() -> None:
    """Log the names of the leases that are still held, before the interpreter is torn down."""
    for each in list(_holders):
        each.leave()
    names = [hold.name for hold in held_by(*list(_holders))]
    if names:
        log.warning(
            "the process ends while it holds %d lease(s), which end by their ttl: %s",
            len(names),
            listed(names),
        )


atexit.register(_leave)
