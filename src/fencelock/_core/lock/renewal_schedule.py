"""When which lease is due next. Pure: ``now`` comes in as an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from math import inf
from typing import Any

from fencelock._core.lock.hold import Hold

# How many empty buckets, and stale entries in the heap, are tolerated.
_SPARE = 20
UNPLACED = -1  # the bucket of a new hold


class _Bucket(dict[Hold, float]):
    """Holds that are due within one grain of time, each with its instant.

    ``first`` and ``end`` are never later than the earliest instant and the earliest deadline.
    """

    __slots__ = ("end", "first", "stale")

    def __init__(self) -> None:
        super().__init__()
        self.first = self.end = inf
        self.stale = False  # something was taken out: both may be too early

    def exact(self) -> _Bucket:
        """Find the earliest anew if it may be gone."""
        if self.stale:
            self.first = min(self.values(), default=inf)
            self.end = min([hold.deadline for hold in self], default=inf)
            self.stale = False
        return self


class RenewalSchedule:
    """Holds by the instant at which they are due. Call everything under the port's mutex.

    They are kept in buckets of 20 ms, so that adding and removing cost the same with 10 or 100,000
    leases, and removing leaves nothing behind. A new one is ``young`` until a caller asks what is
    due: most leases end before. A hold that was taken out as due is ``under_way`` until it is added
    again or discarded: its renewal may fail, and it must not be lost.
    """

    GRAIN = 0.02

    __slots__ = ("_buckets", "_order", "_watches", "under_way", "watched", "young")

    def __init__(self) -> None:
        self.young: dict[Hold, float] = {}  # those that are new, each with its instant
        self.watched: list[tuple[float, int, Any]] = []  # a heap of those whose lease may be idle
        self._watches = 0
        self._buckets: dict[int, _Bucket] = {}
        self._order: list[int] = []  # a heap of the buckets' numbers, and of some that are gone
        self.under_way: dict[Hold, None] = {}

    @property
    def holds(self) -> int:
        """Return how many holds there are; counted, so that no interrupt can make it wrong."""
        new = sum(hold.bucket == UNPLACED for hold in list(self.young))
        return new + sum(map(len, self._buckets.values()))

    @property
    def busy(self) -> bool:
        """Return True if any lease is tracked, or kept."""
        now = bool(self.young or self.under_way or self.watched)
        return now or any(self._buckets.values())

    def watch(self, kept: Any, when: float) -> None:
        """Look at a lease that is kept while it is idle (tenure.py) at an instant."""
        self._watches += 1
        heappush(self.watched, (when, self._watches, kept))

    def overdue(self, now: float) -> list[Any]:
        """Take out what is to be looked at now."""
        due = []
        while self.watched and self.watched[0][0] <= now:
            due.append(heappop(self.watched)[2])
        return due

    def _placed(self) -> dict[int, _Bucket]:
        """Return the buckets, once those that are new are in theirs."""
        if self.young:
            together: dict[float, list[Hold]] = {}
            for hold, when in self.young.items():
                together.setdefault(when, []).append(hold)
            for when, holds in together.items():  # an interrupt leaves them in both
                self.add_all(holds, when)
            self.young.clear()
        return self._buckets

    def add_all(self, holds: Sequence[Hold], when: float) -> None:
        """Schedule several holds for ``when``."""
        if not holds:
            return
        number = int(when / self.GRAIN)
        bucket = self._buckets.get(number)
        if bucket is None:
            heappush(self._order, number)
            bucket = self._buckets[number] = _Bucket()
        bucket.first = min(bucket.first, when)
        bucket.end = min(bucket.end, *[hold.deadline for hold in holds])
        under_way, last, before = self.under_way, number, None
        for hold in holds:
            if hold.bucket != number:
                if hold.bucket != last:  # nearly all come out of one bucket
                    last = hold.bucket
                    before = self._buckets.get(last)
                if before is not None:
                    before.stale = True
                    before.pop(hold, None)
                hold.bucket = number
            else:
                bucket.stale = True
            bucket[hold] = when
            if under_way:
                under_way.pop(hold, None)

    def discard(self, hold: Hold) -> None:
        """Forget a hold; harmless when it is not scheduled."""
        self.young.pop(hold, None)
        if self.under_way:
            self.under_way.pop(hold, None)
        bucket = self._buckets.get(hold.bucket)
        if bucket is not None:
            bucket.stale = True
            bucket.pop(hold, None)
            if not bucket and len(self._buckets) > _SPARE:  # few may stay: the next lease comes
                del self._buckets[hold.bucket]
                if len(self._order) > 2 * len(self._buckets) + _SPARE:
                    self._order = list(self._buckets)
                    heapify(self._order)

    def settle(self, holds: Iterable[Hold]) -> None:
        """Forget those that are over; one whose handle was dropped stays until its deadline."""
        for hold in holds:
            if not hold.open or hold.notified:
                self.discard(hold)
                if hold.dropped and not hold.notified:
                    self.young[hold] = hold.deadline

    def move(self, holds: Iterable[Hold], when: float) -> None:
        """Schedule those that still wait for ``when`` instead."""
        placed = self._placed()
        waiting = [hold for hold in holds if hold in placed.get(hold.bucket, ())]
        for hold in waiting:
            self.discard(hold)
        self.add_all(waiting, when)

    def clear(self) -> list[Hold]:
        """Forget all holds, and return them."""
        holds = self.tracked()
        self._buckets, self._order, self.under_way = {}, [], {}
        self.watched, self.young = [], {}
        return holds

    def next_at(self) -> float | None:
        """Return when the next hold is due, or the next lease that may be idle."""
        placed, watch = self._placed(), self.watched[0][0] if self.watched else None
        while self._order:
            bucket = placed.get(self._order[0])
            if bucket:
                due = bucket.exact().first
                return due if watch is None else min(due, watch)
            if bucket is not None:
                del placed[self._order[0]]  # left empty by an interrupt
            heappop(self._order)
        return watch

    def due(self, now: float) -> list[Hold]:
        """Take out every hold that is due now, the earliest buckets first."""
        due: list[Hold] = []
        last = int(now / self.GRAIN)
        for number in self._until(last):
            bucket = self._buckets[number]
            if number < last or max(bucket.values(), default=now) <= now:
                due += bucket
                self.under_way |= dict.fromkeys(bucket)
                del self._buckets[number]
            else:
                for hold in [hold for hold, when in bucket.items() if when <= now]:
                    due.append(hold)
                    self.discard(hold)
                    self.under_way[hold] = None
        return due

    def first_end(self, horizon: float) -> float:
        """Return the earliest deadline, at least if it comes before ``horizon``.

        A lease ends after it is due, so only buckets up to the horizon matter.
        """
        ends = inf
        for number in self._until(int(horizon / self.GRAIN)):
            bucket = self._buckets[number]
            if bucket.end < horizon:
                ends = min(ends, bucket.exact().end)
        return ends

    def _until(self, last: int) -> Iterable[int]:
        """Return the numbers of the buckets up to one, in order."""
        placed = self._placed()
        first = self._order[0] if self._order else last + 1
        if last - first < len(placed):
            return [number for number in range(first, last + 1) if number in placed]
        return sorted(number for number in placed if number <= last)

    def later_than(self, when: float) -> list[Hold]:
        """Return the holds that are not due before an instant."""
        return [h for bucket in self._placed().values() for h, at in bucket.items() if at > when]

    def all_holds(self) -> list[Hold]:
        """Return every hold that waits for its instant."""
        return [hold for bucket in self._placed().values() for hold in bucket]

    def some(self, most: int) -> Iterator[Hold]:
        """Yield so many holds at most."""
        each = (hold for bucket in self._placed().values() for hold in bucket)
        return islice(chain(self.under_way, each), most)

    def tracked(self) -> list[Hold]:
        """Return every hold, also those that are under way."""
        return list(self.under_way) + self.all_holds()
