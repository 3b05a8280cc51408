"""Acquire several locks, all or none, and release them.

A part of a multi may also be a side of a reader/writer lock or a permit of a semaphore.

Rules of this file:

- When all are plain locks, free and without waiters, one script acquires them all. Other parts are
  requested one by one, even for a single try.
- Otherwise the parts are waited for one by one, in the order of their keys. A multi that holds one
  part waits only for later ones, so two multis never wait for each other.
- A multi that ends without all parts releases those that it has (I9), within the timeout (I13).
- A multi that lost an earlier part's lease while it waited for a later part was never granted: it
  starts again, with new ids.
- In a Cluster the locks may lie in several slots; then each is requested separately. A proxy in
  front of a Cluster refuses a common request (CROSSSLOT).
- Parts are released in parallel: a silent node holds up only its own parts.
- Each call undoes in one place: ``acquire_all`` what was asked for or granted, ``release_all`` what
  is not released yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from fencelock._core import events
from fencelock._core.deadlines import validity
from fencelock._core.description import HeldBy
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.acknowledge import confirm
from fencelock._core.lock.acquire import acquire, begin, tell
from fencelock._core.lock.attempt import Grant
from fencelock._core.lock.hold import Hold, joined
from fencelock._core.lock.in_line import LEAVING_SECONDS
from fencelock._core.lock.release import lost_as, settled
from fencelock._core.lock.terms import LOCKS, milliseconds, too_late
from fencelock._core.objects.semaphore_rwlock import lost_nested
from fencelock._core.retry import Pipeline
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import FencelockError, OutcomeUnknown, ServerError
from fencelock.scripts import MULTI_ACQUIRE, MULTI_RELEASE

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# Makes fresh attempts, one for each lock, in the order of their keys.
Attempts = Callable[[], Sequence[Hold]]
APART = "CROSSSLOT"  # the server's answer when the locks lie in several slots
# A multi that timed out may take this long to leave a line and release its parts: I13 allows 0.1 s.
DROPPING_SECONDS = 0.09


async def acquire_all(port: Engine, attempts: Attempts, timeout: float | None) -> list[Hold] | None:
    """Acquire all locks and register their holds; None when not all were granted in time.

    ``timeout`` as in ``acquire``, for all of them together.
    """
    at_once = timeout is not None and timeout <= 0
    give_up_at = inf if timeout is None or timeout < 0 else port.now() + timeout
    while True:
        parts = Parts(port, attempts(), give_up_at)
        try:
            parts.begin(at_once=at_once)
            if events.hooks:
                group: int | None = None  # that of the first one
                for attempt in parts.all:
                    event = events.requested(port, attempt, waits=not at_once, group=group)
                    group = event.group
            granted = await parts.acquire(timeout if at_once else give_up_at, at_once=at_once)
            holds = parts.held()
            if not granted or not any(hold.lost for hold in holds):
                return holds if granted else None
            await parts.drop(give_up_at)
        except BaseException as error:
            parts.undo()
            if isinstance(error, FencelockError):
                describe_error(port, error, ", ".join(each.keys.name for each in parts.all))
            for attempt in parts.all:
                events.failed(attempt, error)
            raise
        finally:
            port.close(parts.seat)
        if at_once or port.now() >= give_up_at:
            return None


async def release_all(port: Engine, take: Callable[[list[Hold]], None]) -> None:
    """Release the holds that ``take`` moves into its list; one of a lease stands for all of it.

    Raises what ``take`` raises; LeaseLost when one of the leases had ended before, once the others
    are released; and as ``release`` when no answer came.
    """
    taken: list[Hold] = []
    parts = Parts(port, taken)
    try:
        take(taken)
        holds = [each for hold in taken for each in joined(hold)]
        lost = [hold for hold in holds if hold.lost]
        for hold in holds:
            hold.retire(port)
        until = port.now() + port.server_timeout
        ours = [hold for hold in holds if not (hold.closed or hold.forked)]
        if ours:
            await parts.give_back(ours, until)
    except BaseException as error:
        holds = [each for hold in taken for each in joined(hold)]
        for hold in holds:
            hold.retire(port)
        parts.post_rest([hold for hold in holds if not hold.forked], error)
        _end(holds, error)
        raise
    finally:
        for hold in taken:
            for each in joined(hold):
                each.undo_owed(port)
    try:
        errors = [hold.lost_error() for hold in lost]
        for hold in ours:
            verdict = parts.answers[hold]
            if verdict != 1 and hold not in parts.unsure and hold not in lost:
                errors.append(lost_as(port, hold, verdict))
        if errors:
            raise errors.pop(0)
    finally:
        _end(holds)


class Parts(Pipeline[Hold]):
    """The parts of a multi: what one call acquires or releases, and what came of their release."""

    def __init__(self, port: Engine, parts: Sequence[Hold], give_up_at: float = inf) -> None:
        super().__init__()
        self.port = port
        self.all: Sequence[Hold] = parts
        self.give_up_at = give_up_at
        # Of what is asked for all.
        self.seat = Seat.of(parts[0].keys, parts[0].id) if parts else Seat()

    def held(self) -> list[Hold]:
        """Return the holds of the parts that were granted and not given back."""
        return [part for part in self.all if part.held]

    def undo(self) -> None:
        """Undo what was asked for and granted, the last part first.

        Each step notes that it is done, so a second call finishes one that was interrupted. A part
        stays in its registry until it is released: there its handle finds it, too.
        """
        port, seat = self.port, self.seat
        if seat.began:
            port.run_in_background(*_release(self.all), seat.path)
            seat.began = False
        for part in reversed(self.all):
            if part.held:
                part.release_in_background(port)
                if part.registry is not None:
                    part.registry.remove(part)
                part.held = False

    # -- acquiring ----------------------------------------------------------------------------

    def begin(self, *, at_once: bool) -> None:
        """Have each be asked for until the time of all ends."""
        for part in self.all:
            part.at_once = at_once
            part.give_up_at = min(self.give_up_at, part.terms.ends)

    async def acquire(self, limit: float | None, *, at_once: bool) -> bool:
        """Acquire all by one script if they are free, else one after the other; report the end."""
        granted = None
        if self._by_one_script(self.all):
            granted = await self._all_at_once()
        if granted is None or not (granted or at_once):
            granted = await self._in_order(limit)
        self.begin(at_once=at_once)  # as all together are asked
        for part in self.all:
            if part.event is not None:
                tell(self.port, part, granted=part.held)
        return granted

    async def _all_at_once(self) -> bool | None:
        """Request all at once; None when each may still be free."""
        port, parts, seat = self.port, self.all, self.seat
        until, ttl = port.answer_by(port.now(), self.give_up_at), min(each.ttl for each in parts)

        async def once() -> tuple[float, Reply]:
            if seat.undo_connection is not None:
                # Undo what a silent connection may still deliver; have new ids, as acquire.py.
                self.undo()
                port.close(seat)
                for part in parts:
                    part.rename()
            await port.open(seat, until, listen=False)
            seat.begin()
            asked_at = port.now()
            reply = await port.call(*_request(parts), until, seat)
            if isinstance(reply[0], bytes):
                await confirm(port, seat, asked_at + validity(ttl), self.give_up_at)
            return asked_at, reply

        try:
            asked_at, reply = await port.persist(once, until, seat)
        except ServerError as error:
            if error.code != APART:
                raise
            asked_at, reply = 0.0, [-1]
        granted = isinstance(reply[0], bytes)
        if granted:
            if asked_at + validity(ttl) <= port.now():
                raise too_late(ttl)
            for part, fence in zip(parts, reply, strict=True):
                begin(port, part, Grant(int(fence), asked_at + validity(part.ttl), part.ttl))
        seat.began = False
        port.close(seat)
        return granted or self._refused(reply)

    def _refused(self, reply: Reply) -> bool | None:
        """Note which client holds the lock that is not free; None when each may still be free."""
        number, *whose = reply
        if not whose:
            return None
        self.all[number - 1].saw(HeldBy.of(*whose))
        return False

    async def _in_order(self, limit: float | None) -> bool:
        """Acquire one after the other, until the instant ``limit``; below 0: one try each."""
        for part in self.all:
            timeout = limit if limit is None or limit < 0 else max(0.0, limit - self.port.now())
            if await acquire(self.port, part, timeout) is None:
                await self.drop(limit if limit and limit > 0 else inf)
                if part.nested_in is not None:
                    raise lost_nested(self.port, part.nested_in)
                return False
        return True

    # -- releasing ----------------------------------------------------------------------------

    async def drop(self, give_up_at: float) -> None:
        """Release what was granted, as not all was; takes a short time, whatever happens."""
        port, holds, now = self.port, self.held(), self.port.now()
        for hold in holds:
            if hold.registry is not None:
                hold.registry.remove(hold)
            hold.retire(port)
        _end(holds)
        until = min(now + LEAVING_SECONDS, max(now, give_up_at + DROPPING_SECONDS))
        try:
            if holds:
                await self.give_back(holds, until)
        except (OutcomeUnknown, ServerError) as error:
            self.post_rest(holds, error)
        for hold in holds:
            hold.undo_owed(port)
            hold.held = False

    async def give_back(self, holds: Sequence[Hold], until: float) -> None:
        """Release holds; note the server's answer for each."""
        port = self.port
        if self._by_one_script(holds):
            log = Seat()
            try:
                reply = await port.ask(*_release(holds), until, asked=log)
            except ServerError as error:
                if error.code != APART:
                    raise
            else:
                self.answers.update(zip(holds, reply, strict=True))
                if log.sent:
                    self.unsure.update(holds)
                return

        async def send(left: Sequence[Hold]) -> Sequence[Reply | Exception]:
            calls = [hold.terms.release(hold) for hold in left]
            answers = await port.side_by_side(calls, until)
            return [one if one == 1 or isinstance(one, Exception) else one[1] for one in answers]

        await port.persist(lambda: self.ask(holds, send), until)
        self.check()

    def post_rest(self, holds: Sequence[Hold], error: BaseException) -> None:
        """Release in the background what has no answer, unless the server refused them all."""
        if not settled(error):
            for hold in reversed(self.left(holds)):
                self.port.run_in_background(*hold.terms.release(hold))

    def _by_one_script(self, holds: Sequence[Hold]) -> bool:
        """Return True if one script can acquire or release these, as far as is known."""
        plain = all(each.terms.batch == LOCKS for each in holds)
        return plain and len(self.port.by_slot(holds, lambda each: each.keys.lock)) == 1


def _request(parts: Sequence[Hold]) -> Call:
    keys, words = list[bytes](), list[bytes | int]()
    for one in parts:
        keys += one.keys.grant
        words += (one.holder_id, milliseconds(one.ttl), one.terms.words + one.info)
    return MULTI_ACQUIRE, keys, words


def _release(parts: Sequence[Hold]) -> Call:
    keys = [key for part in parts for key in part.terms.keys.all]
    words = (parts[0].terms.client_channel, *[part.holder_id for part in parts])
    return MULTI_RELEASE, keys, words


def _end(holds: Sequence[Hold], error: BaseException | None = None) -> None:
    """Report that the leases have ended."""
    for hold in holds:
        events.end_hold(hold, error)
