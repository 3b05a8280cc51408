"""Which locks ``top`` shows, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fencelock.status import HolderStatus, LockStatus, WaiterStatus


def longest_wait(lock: LockStatus) -> float:
    """Return how long the first of the listed waiters has waited, in seconds."""
    return max((each.waited for each in lock.waiters), default=0.0)


def held_for(lock: LockStatus) -> float:
    """Return how long the lock has been held by the holder that came first."""
    return max((each.held_for for each in lock.holders), default=0.0)


# By the name of an order: what people call it, and what a lock is sorted by.
ORDERS: Final[dict[str, tuple[str, Callable[[LockStatus], tuple[float, ...]]]]] = {
    "waiters": ("most waiters", lambda lock: (-lock.waiting, -longest_wait(lock))),
    "wait": ("longest wait", lambda lock: (-longest_wait(lock), -lock.waiting)),
    "held": ("held longest", lambda lock: (-held_for(lock),)),
    "name": ("name", lambda _: ()),
}


def chosen(locks: Iterable[LockStatus], order: str, text: str = "") -> list[LockStatus]:
    """Return the locks whose name, holder or waiter contains a text, in an order."""
    sought = text.casefold()
    found = [lock for lock in locks if any(sought in each for each in _texts(lock))]
    _, key = ORDERS[order]
    return sorted(found, key=lambda lock: (key(lock), lock.name))


def _texts(lock: LockStatus) -> list[str]:
    who: list[HolderStatus | WaiterStatus] = [*lock.holders, *lock.waiters]
    people = [f"{each.host}:{each.pid} {each.called}".casefold() for each in who]
    return [lock.name.casefold(), *people]
