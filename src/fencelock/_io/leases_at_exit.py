"""The log record about leases that a process still holds when it ends."""

from __future__ import annotations

import atexit
from typing import Protocol
from weakref import WeakSet

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._runtime.clock import now
from fencelock._runtime.log import listed, log
from fencelock._runtime.mutex import mutex


class HoldsLeases(Protocol):
    """A port, as far as it matters here."""

    book: RenewalSchedule


_holders: WeakSet[HoldsLeases] = WeakSet()


def watch(each: HoldsLeases) -> None:
    """Name the leases that this port still holds when the process ends."""
    _holders.add(each)


def _ours(hold: Hold) -> bool:
    return not hold.partial and not hold.forked


def _leave() -> None:
    """Log the names of the leases that are still held, before the interpreter is torn down."""
    with mutex():
        holds = [hold for each in list(_holders) for hold in each.book.tracked()]
    names = [
        hold.name
        for hold in holds
        if hold.open and not hold.notified and _ours(hold) and now() < hold.deadline
    ]
    if names:
        log.warning(
            "the process ends while it holds %d lease(s), which end by their ttl: %s",
            len(names),
            listed(names),
        )


atexit.register(_leave)
