"""One lock as the page shows it.

Rows have instants instead of spans, so that little changes from one look to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencelock.status import HolderStatus, LockStatus, SignalStatus, WaiterStatus

Row = dict[str, Any]
# A holder that is not a fencelock client.
FOREIGN: Row = {
    "host": "",
    "pid": 0,
    "unit": "",
    "label": "",
    "others": 0,
    "id": "",
    "foreign": True,
}


def instant(locks: Sequence[LockStatus], fallback: float) -> float:
    """Return the server's time at a look, as the holders and waiters tell it."""
    held = (each.since + each.held_for for lock in locks for each in lock.holders[:1])
    waited = (each.since + each.waited for lock in locks for each in lock.waiters[:1])
    return max((*held, *waited), default=fallback)


def row(lock: LockStatus, now: float, *, cycle: bool = False) -> Row:
    """Return what the table shows of a lock."""
    until = lock.remaining if lock.held or lock.kept else None
    return {
        "name": lock.name,
        "kind": lock.kind,
        "state": lock.doing,
        "tone": "kept" if lock.kept else "held" if lock.held else "free",
        "held": lock.held,
        "foreign": lock.foreign,
        "holder": holder(lock, lock.holder, now) if lock.holder else _foreign(lock),
        "more": max(0, lock.holding - 1),
        "until": None if until is None else round(now + until, 2),
        "waiting": lock.waiting_units,
        "waiting_more": lock.waiting_more,
        "oldest": min((each.since for each in lock.listed_waiters), default=None),
        "fence": lock.fence,
        "cycle": cycle,
    }


def details(lock: LockStatus, now: float, *, cycle: bool = False) -> Row:
    """Return what a lock's own page shows of it."""
    holders = [holder(lock, each, now) for each in lock.holders]
    return row(lock, now, cycle=cycle) | {
        "limit": lock.limit,
        "taken": lock.taken,
        "holding": lock.holding,
        "holders": holders or [each for each in (_foreign(lock),) if each],
        "waiters": [waiter(lock, each) for each in lock.waiters],
        "inside": [waiter(lock, each) for each in lock.local_waiters],
    }


def signal(one: SignalStatus, now: float) -> Row:
    """Return an event, latch or barrier."""
    return {
        "name": one.name,
        "kind": one.kind,
        "state": one.doing,
        "waiting": one.waiting,
        "until": round(now + one.remaining, 2),
    }


def person(who: HolderStatus | WaiterStatus) -> Row:
    """Return which client it is."""
    return {
        "host": who.host,
        "pid": who.pid,
        "unit": who.unit,
        "label": who.called,
        "others": who.others,
        "id": who.unit_id,  # tells threads and tasks of one name apart
        "foreign": False,
    }


def holder(lock: LockStatus, who: HolderStatus, now: float) -> Row:
    """Return one holder."""
    until = None if who.remaining is None else round(now + who.remaining, 2)
    return person(who) | _part(lock, who) | {"since": who.since, "fence": who.fence, "until": until}


def waiter(lock: LockStatus, who: WaiterStatus) -> Row:
    """Return one waiter."""
    return person(who) | _part(lock, who) | {"since": who.since, "place": who.place}


def _part(lock: LockStatus, who: HolderStatus | WaiterStatus) -> Row:
    if lock.kind == "rwlock":
        return {"side": "write" if who.permits >= lock.limit else "read"}
    return {"permits": who.permits} if lock.kind == "semaphore" else {}


def _foreign(lock: LockStatus) -> Row | None:
    """Return what stands for a holder that is not a fencelock client."""
    if not lock.foreign:
        return None
    return FOREIGN | {"since": None, "fence": lock.fence, "until": None}
