"""When which lease is due next. Pure: ``now`` comes in as an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice, takewhile
from math import inf
from operator import attrgetter

from fencelock._core.lock.hold import Hold
from fencelock._runtime.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from fencelock._core.lock.tenure import Tenure
    from fencelock._core.lock.waiting import Known

# How many stale entries in the heap are tolerated.
_SPARE = 20
UNPLACED = None  # the bucket of a new hold


class RenewalBatch(list[Hold]):
    """Leases that one command renews.

    One that renewed them all alike is kept, and they are due together again: the batch is whole.
    It is no more when a lease leaves the schedule or goes to another place in it, as each does that
    changes otherwise than by a renewal of the batch, nor when one is lost, dropped or observed.
    So a renewal looks at no lease of a whole batch: with very many, that is most of what it costs.
    """

    __slots__ = ("request", "ttl")

    def __init__(self, holds: Iterable[Hold]) -> None:
        super().__init__(holds)
        self.request: bytes = b""  # in wire form, once it was packed: all for the same ttl
        self.ttl: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Return True if nothing has happened to its leases since they were renewed together.

        So none was released since, and all end at one instant.
        """
        bucket = self[0].bucket
        return bucket is not None and bucket.batch is self

    @property
    def buckets(self) -> Iterable[Bucket]:
        """Return the places of its leases in the schedule; one may come several times."""
        holds = self[:1] if self.is_whole else self
        return [hold.bucket for hold in holds if hold.bucket is not None]

    @property
    def shortest(self) -> Hold:
        """Return the lease that ends first."""
        return self[0] if self.is_whole else min(self, key=attrgetter("deadline"))


class Bucket(dict[Hold, float]):
    """Holds that are due within one grain of time, each with its instant.

    ``first`` and ``end`` are never later than the earliest instant and the earliest deadline.
    """

    __slots__ = ("batch", "end", "first", "number", "stale", "take")

    def __init__(self, number: int | None) -> None:
        super().__init__()
        self.number: int | None = number  # of the grain; None while they are under way
        self.first: float = inf
        self.end: float = inf
        self.stale: bool = False  # something was taken out: both may be too early
        self.take: int = 0  # as which of all it was taken out last
        self.batch: RenewalBatch | None = None  # all of them, while that is whole

    def exact(self) -> Bucket:
        """Find the earliest anew if it may be gone."""
        if self.stale:
            self.first = min(self.values(), default=inf)
            self.end = min([hold.deadline for hold in self], default=inf)
            self.stale = False
        return self


class RenewalSchedule:
    """Holds by the instant at which they are due. Call everything under the port's mutex.

    They are kept in buckets of 20 ms, so that adding and removing cost the same with 10 or 100,000
    leases, and removing leaves nothing behind; a whole batch has a bucket of its own. A new one is
    ``unplaced`` until a caller asks what is due: most leases end before. A bucket that was taken
    out as due is under way until its holds are added again or discarded: their renewal may fail,
    and they must not be lost.
    """

    GRAIN = 0.02

    __slots__ = (
        "_buckets",
        "_filling",
        "_holders",
        "_order",
        "_under_way",
        "_watches",
        "takes",
        "unplaced",
        "watched",
    )

    def __init__(self, holders: dict[bytes, Known] | None = None) -> None:
        self.unplaced: dict[Hold, float] = {}  # those that are new, each with its instant
        # A heap of those whose lease may be idle.
        self.watched: list[tuple[float, int, Tenure]] = []
        self._watches = 0
        # By the grain of their instants, and there by identity: a Cluster may have hundreds in one.
        self._buckets: dict[int, dict[int, Bucket]] = {}
        self._order: list[int] = []  # a heap of these numbers, and of some that are gone
        # Those under way, by identity: in a Cluster there may be thousands, and one is forgotten.
        self._under_way: dict[int, Bucket] = {}
        self.takes: int = 0  # how many were taken out
        self._filling: Bucket | None = None  # while holds are put there
        self._holders = {} if holders is None else holders  # those in buckets; see ``Lines``

    @property
    def taken(self) -> list[Bucket]:
        """Return the buckets that were taken out and are under way, in that order."""
        return list(self._under_way.values())

    @property
    def holds(self) -> int:
        """Return how many holds there are; counted, so that no interrupt can make it wrong."""
        new = sum(hold.bucket is UNPLACED for hold in list(self.unplaced))
        return new + sum(map(len, self._all()))

    @property
    def size(self) -> int:
        """Return how many holder ids there are in buckets, which looks through nothing."""
        return len(self._holders)

    @property
    def busy(self) -> bool:
        """Return True if any lease is tracked, or kept; asked outside the mutex, too.

        So it looks through nothing. What an interrupt left behind may make it True for a moment.
        """
        return bool(self.unplaced or self.watched or self._buckets or self._under_way)

    @property
    def under_way(self) -> list[Hold]:
        """Return the holds that were taken out, and are neither added again nor discarded."""
        return [hold for bucket in self.taken for hold in bucket]

    @staticmethod
    def is_under_way(hold: Hold) -> bool:
        """Return True if a hold is one of these."""
        return hold.bucket is not None and hold.bucket.number is None

    def _all(self) -> Iterator[Bucket]:
        return chain.from_iterable(each.values() for each in self._buckets.values())

    def watch(self, kept: Tenure, when: float) -> None:
        """Look at a lease that is kept while it is idle (tenure.py) at an instant."""
        self._watches += 1
        heappush(self.watched, (when, self._watches, kept))

    def overdue(self, now: float) -> list[Tenure]:
        """Take out what is to be looked at now."""
        due = []
        while self.watched and self.watched[0][0] <= now:
            due.append(heappop(self.watched)[2])
        return due

    def _place_new(self) -> None:
        """Put those that are new into their buckets."""
        if self.unplaced:
            together: dict[float, list[Hold]] = {}
            for hold, when in self.unplaced.items():
                together.setdefault(when, []).append(hold)
            for when, holds in together.items():  # an interrupt leaves them in both
                self.add_all(holds, when)
            self.unplaced.clear()

    def held_as(self, holder: bytes) -> Sequence[Hold]:
        """Return every hold with a holder id: one, or those of an explicit owner."""
        self._place_new()
        found = self._holders.get(holder, ())
        if isinstance(found, dict):
            return tuple(found)
        hold = getattr(found, "front", found)  # of a lease that may be kept, if it is in use
        if isinstance(hold, Hold) and hold.held and hold.holder_id == holder:
            return (hold,)
        return ()

    def _know(self, hold: Hold) -> None:
        """Find a hold by its holder id from now on."""
        found = self._holders.setdefault(hold.holder_id, hold)
        if isinstance(found, dict):
            found[hold] = None
        elif isinstance(found, Hold) and found is not hold:
            self._holders[hold.holder_id] = {found: None, hold: None}

    def _forget_holder(self, hold: Hold) -> None:
        found = self._holders.get(hold.holder_id)
        if isinstance(found, dict):
            found.pop(hold, None)
        if found is hold or found == {}:
            del self._holders[hold.holder_id]

    def _at(self, number: int) -> dict[int, Bucket]:
        """Return the buckets of a grain of time."""
        buckets = self._buckets.get(number)
        if buckets is None:
            heappush(self._order, number)
            buckets = self._buckets[number] = {}
        return buckets

    def add_all(self, holds: Sequence[Hold], when: float) -> None:
        """Schedule several holds for ``when``."""
        if not holds:
            return
        number = int(when / self.GRAIN)
        buckets = self._at(number)
        bucket = next((each for each in buckets.values() if each.batch is None), None)
        if bucket is None:
            bucket = Bucket(number)
            buckets[id(bucket)] = bucket
        self._fill(bucket, holds, when)

    def add_batch(self, batch: RenewalBatch, when: float) -> None:
        """Schedule leases that one command has renewed alike, to be renewed so again."""
        bucket = self.add_apart(batch, when)
        if bucket.batch is None:
            bucket.batch = batch
            if not all(hold.steady for hold in batch):  # one was dropped just before
                bucket.batch = None

    def add_apart(self, batch: RenewalBatch, when: float) -> Bucket:
        """Schedule a batch for ``when`` in a bucket of its own; one that is whole stays so."""
        number, bucket = int(when / self.GRAIN), batch[0].bucket
        if bucket is not None and bucket.batch is batch:
            self._at(number)[id(bucket)] = bucket
            bucket.number, bucket.first, bucket.end = number, when, batch[0].deadline
            bucket.update(dict.fromkeys(bucket, when))
            self._under_way.pop(id(bucket), None)
            return bucket
        bucket = Bucket(number)
        self._at(number)[id(bucket)] = bucket
        self._fill(bucket, batch, when)
        return bucket

    def hasten(self, bucket: Bucket, when: float) -> None:
        """Have all in a bucket be due at an instant, if they wait for a later one."""
        before, number = bucket.number, int(when / self.GRAIN)
        if bucket and before is not None and when < bucket.first:
            self._at(number)[id(bucket)] = bucket  # first: an error leaves it in both
            bucket.number, bucket.first = number, when
            bucket.update(dict.fromkeys(bucket, when))
            if before != number:
                self._take_out(bucket, before)

    def _fill(self, bucket: Bucket, holds: Sequence[Hold], when: float) -> None:
        self._filling = bucket
        bucket.first = min(bucket.first, when)
        bucket.end = min(bucket.end, *[hold.deadline for hold in holds])
        for hold in holds:
            before = hold.bucket
            bucket[hold] = when  # first: an error leaves it in both, and ``settle`` takes it out
            if before is bucket:
                bucket.stale = True
            elif before is not None:
                self._drop(before, hold)
            else:
                self._know(hold)
            hold.bucket = bucket
        self._filling = None

    def discard(self, hold: Hold) -> None:
        """Forget a hold; harmless when it is not scheduled."""
        self.unplaced.pop(hold, None)
        if self._filling is not None and hold in self._filling:
            self._drop(self._filling, hold)  # an interrupt left it in both
            self._forget_holder(hold)
        if hold.bucket is not None:
            self._drop(hold.bucket, hold)
            self._forget_holder(hold)
            hold.bucket = UNPLACED  # last: after an interrupt it is found again

    def reschedule(self, hold: Hold, when: float) -> None:
        """Schedule a hold for ``when``, also one that is under way."""
        self.discard(hold)
        self.unplaced[hold] = when

    def _drop(self, bucket: Bucket, hold: Hold) -> None:
        """Take a hold out of its bucket: what is left is no whole batch."""
        bucket.batch, bucket.stale = None, True
        bucket.pop(hold, None)
        if not bucket:
            self._forget(bucket)

    def _forget(self, bucket: Bucket) -> None:
        """Take a bucket out, of those under way too."""
        number = bucket.number
        if number is None:
            self._under_way.pop(id(bucket), None)
            return
        self._take_out(bucket, number)

    def _take_out(self, bucket: Bucket, number: int) -> None:
        buckets = self._buckets.get(number, {})
        buckets.pop(id(bucket), None)
        if buckets:
            return
        self._buckets.pop(number, None)
        if len(self._order) > 2 * len(self._buckets) + _SPARE:
            self._order = list(self._buckets)
            heapify(self._order)

    def settle(self, buckets: Iterable[Bucket]) -> None:
        """Forget what is over in buckets that a caller took out; of others their callers do.

        One whose handle was dropped stays until its deadline.
        """
        for bucket in buckets:
            if bucket.number is None and bucket.batch is None:  # of a whole one none is over
                for hold in list(bucket):
                    self._settle(bucket, hold)
            if bucket.number is not None or not bucket:
                self._under_way.pop(id(bucket), None)

    def _settle(self, bucket: Bucket, hold: Hold) -> None:
        if not hold.open or hold.notified:
            due = self.unplaced.get(hold, hold.deadline)  # a message may have made it due meanwhile
            self.discard(hold)
            if hold.dropped and not hold.notified:
                self.unplaced[hold] = min(due, hold.deadline)
        if hold.bucket is not bucket:  # an interrupt left it in both
            bucket.pop(hold, None)

    def taken_since(self, takes: int) -> list[Bucket]:
        """Return the buckets under way that were taken out after so many others."""
        latest = reversed(self._under_way.values())
        return [*takewhile(lambda bucket: bucket.take > takes, latest)][::-1]

    def move(self, holds: Iterable[Hold], when: float) -> None:
        """Schedule those that still wait for ``when`` instead."""
        self._place_new()
        waiting = [
            hold for hold in holds if hold.bucket is not None and not self.is_under_way(hold)
        ]
        for hold in waiting:
            self.discard(hold)
        self.add_all(waiting, when)

    def clear(self) -> list[Hold]:
        """Forget all holds, and return them."""
        holds = self.tracked()
        self._buckets, self._order, self._under_way = {}, [], {}
        self.watched, self.unplaced = [], {}
        for hold in holds:
            self._forget_holder(hold)
            hold.bucket = UNPLACED
        return holds

    def next_at(self) -> float | None:
        """Return when the next hold is due, or the next lease that may be idle."""
        self._place_new()
        watch = self.watched[0][0] if self.watched else None
        while self._order:
            buckets = self._buckets.get(self._order[0], {}).values()
            due = min([bucket.exact().first for bucket in buckets if bucket], default=None)
            if due is not None:
                return due if watch is None else min(due, watch)
            self._buckets.pop(self._order[0], None)  # left empty by an interrupt
            heappop(self._order)
        return watch

    def whole_batches(self, now: float) -> list[RenewalBatch]:
        """Take out the whole batches that are due now, and have not ended."""
        due: list[RenewalBatch] = []
        for bucket in self._until(int(now / self.GRAIN)):
            if bucket.batch is not None and bucket.first <= now < bucket.end:
                due.append(bucket.batch)
                self._take(bucket)
        return due

    def due(self, now: float) -> list[Hold]:
        """Take out every hold that is due now, the earliest buckets first."""
        due: list[Hold] = []
        last = int(now / self.GRAIN)
        for bucket in self._until(last):
            if bucket.number != last or max(bucket.values(), default=now) <= now:
                due += bucket
                self._take(bucket)
            else:
                some = [hold for hold, when in bucket.items() if when <= now]
                if some:
                    due += some
                    part = Bucket(None)
                    self._note_taken(part)
                    self._fill(part, some, now)
        return due

    def _note_taken(self, bucket: Bucket) -> None:
        self.takes += 1
        bucket.take = self.takes
        self._under_way[id(bucket)] = bucket

    def _take(self, bucket: Bucket) -> None:
        self._note_taken(bucket)
        self._forget(bucket)
        bucket.number = None

    def first_end(self, horizon: float) -> float:
        """Return the earliest deadline, at least if it comes before ``horizon``.

        A lease ends after it is due, so only buckets up to the horizon matter.
        """
        ends = inf
        for bucket in self._until(int(horizon / self.GRAIN)):
            if bucket.end < horizon:
                ends = min(ends, bucket.exact().end)
        return ends

    def _until(self, last: int) -> list[Bucket]:
        """Return the buckets up to a grain of time, in order."""
        self._place_new()
        placed = self._buckets
        first = self._order[0] if self._order else last + 1
        if last - first < len(placed):
            numbers = [number for number in range(first, last + 1) if number in placed]
        else:
            numbers = sorted(number for number in placed if number <= last)
        return [bucket for number in numbers for bucket in placed[number].values()]

    def lasts(self, when: float) -> bool:
        """Return True if a lease is not due before an instant, or within a grain of it."""
        self._place_new()
        last = int(when / self.GRAIN)
        return any(number > last and any(each.values()) for number, each in self._buckets.items())

    def later_than(self, when: float) -> list[Hold]:
        """Return the holds that are not due before an instant."""
        self._place_new()
        return [hold for bucket in self._all() for hold, at in bucket.items() if at > when]

    def all_holds(self) -> list[Hold]:
        """Return every hold that waits for its instant."""
        self._place_new()
        return [hold for bucket in self._all() for hold in bucket]

    def some(self, most: int) -> Iterator[Hold]:
        """Yield so many holds at most."""
        self._place_new()
        return islice(chain(*self.taken, chain.from_iterable(self._all())), most)

    def tracked(self) -> list[Hold]:
        """Return every hold, also those that are under way."""
        return self.under_way + self.all_holds()
