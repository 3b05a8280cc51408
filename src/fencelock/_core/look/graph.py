"""Which threads and tasks block which, as the server sees it at one moment, over all clients.

Pure: what is known of the locks comes in. The command line and the dashboard draw what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencelock._runtime.records import NamedTuple
from fencelock.status import HolderStatus, LockStatus, WaiterStatus

# At most so many cycles are shown: further ones would mostly share their edges.
CYCLES_MAX = 20


class Unit(NamedTuple):
    """A thread or task of some process, or a program that is not fencelock."""

    host: str
    pid: int
    unit: str
    unit_id: str = ""
    foreign: str = ""  # the name of the lock that such a program holds

    def __str__(self) -> str:
        if self.foreign:
            return "a program that is not fencelock"
        return f"{self.host}:{self.pid} {self.unit}".rstrip()


class Block(NamedTuple):
    """One waits for a lock that another one holds."""

    waiter: Unit
    name: str  # of the lock
    holder: Unit
    since: float  # when the wait began, by the server's clock
    waited: float  # seconds
    held_for: float  # seconds; 0 if that is unknown
    certain: bool  # it cannot be granted while this one holds; else another holder may make room
    others: int  # for so many more of its client it stands


def blocks(locks: Iterable[LockStatus]) -> list[Block]:
    """Return each wait for a holder, those that wait longest first.

    A lease that is kept idle is given up at once, so nothing waits for its holder.
    """
    found: list[Block] = []
    for lock in locks:
        holders = [(unit_of(who), who.held_for, lock.limit - who.permits) for who in lock.holders]
        if lock.foreign:
            holders.append((Unit("", 0, "", foreign=lock.name), 0.0, 0))
        needed = 1  # permits must be free: no request overtakes another one
        for who in () if lock.kept else lock.listed_waiters:
            needed = max(needed, who.permits)
            found += [  # beside what this holder has, so many permits are there
                Block(
                    waiter=unit_of(who),
                    name=lock.name,
                    holder=holder,
                    since=who.since,
                    waited=who.waited,
                    held_for=held,
                    certain=spare < needed,
                    others=who.others,
                )
                for holder, held, spare in holders
            ]
    return sorted(found, key=lambda block: -block.waited)


def unit_of(who: HolderStatus | WaiterStatus) -> Unit:
    """Return which thread or task a holder or waiter is."""
    return Unit(who.host, who.pid, who.unit, who.unit_id)


def in_cycles(found: Iterable[Block]) -> frozenset[Unit]:
    """Return the units that wait for one another, by removing the others step by step.

    A unit is in no cycle if it waits for no remaining one. A remaining one may still lie between
    two cycles, so each must reach itself.
    """
    ahead: dict[Unit, set[Unit]] = {}
    for block in found:
        if block.certain:
            ahead.setdefault(block.waiter, set()).add(block.holder)
    while ends := [unit for unit, others in ahead.items() if not others & ahead.keys()]:
        for unit in ends:
            del ahead[unit]
    return frozenset(unit for unit in ahead if _reaches_itself(unit, ahead))


def _reaches_itself(unit: Unit, ahead: dict[Unit, set[Unit]]) -> bool:
    seen: set[Unit] = set()
    left = [unit]
    while left:
        more = ahead.get(left.pop(), set()) - seen
        seen |= more
        left += more
    return unit in seen


def cycles(found: Sequence[Block]) -> list[list[Block]]:
    """Return the cycles of certain waits, each from its smallest unit on."""
    after: dict[Unit, list[Block]] = {}
    for block in found:
        if block.certain:
            after.setdefault(block.waiter, []).append(block)
    circles: list[list[Block]] = []
    for start in sorted(after):
        _walk([], start, after, circles, set())
    return circles


def _walk(
    path: list[Block],
    at: Unit,
    after: dict[Unit, list[Block]],
    circles: list[list[Block]],
    seen: set[Unit],
) -> None:
    """Follow waits from the end of a path, back to where it began."""
    begun_by = path[0].waiter if path else at
    seen.add(at)
    for block in after.get(at, ()):
        if len(circles) >= CYCLES_MAX:
            return
        if block.holder == begun_by:
            circles.append([*path, block])
        elif block.holder > begun_by and block.holder not in seen:
            _walk([*path, block], block.holder, after, circles, seen)


def around(found: Sequence[Block], name: str) -> list[Block]:
    """Return the waits for a lock, and all that are connected with them by their units."""
    units = {unit for block in found if block.name == name for unit in (block.waiter, block.holder)}
    while True:
        near = [block for block in found if units & {block.waiter, block.holder}]
        more = {unit for block in near for unit in (block.waiter, block.holder)}
        if more == units:
            return near
        units = more
