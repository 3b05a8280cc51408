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

from fencelock._core import events
from fencelock._core.deadlines import validity
from fencelock._core.description import HeldBy
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.acknowledge import confirm
from fencelock._core.lock.acquire import FOR_EVER, acquire, begin, tell
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold, joined
from fencelock._core.lock.in_line import LEAVING_SECONDS
from fencelock._core.lock.release import lost_as, settled
from fencelock._core.lock.terms import LOCKS, Terms, milliseconds, too_late
from fencelock._core.objects.semaphore_rwlock import lost_nested
from fencelock._core.retry import Together, answer_by, ask, persist
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
    give_up_at = FOR_EVER if timeout is None or timeout < 0 else port.now() + timeout
    while True:
        asked = attempts()
        seat = Seat.of(asked[0].keys, asked[0].id)
        for attempt in asked:
            attempt.at_once = at_once
            attempt.give_up_at = min(give_up_at, attempt.terms.ends)
        try:
            if events.hooks:
                group: int | None = None  # that of the first one
                for attempt in asked:
                    event = events.requested(
                        port, attempt, attempt.unit, waits=not at_once, group=group
                    )
                    group = event.group
            granted = await _acquire_once(port, asked, seat, timeout, give_up_at)
            holds = _held(asked)
            if not granted or not any(hold.lost for hold in holds):
                return holds if granted else None
            await _drop(port, asked, give_up_at)
        except BaseException as error:
            _undo(port, asked, seat)
            if isinstance(error, FencelockError):
                describe_error(port, error, ", ".join(each.keys.name for each in asked))
            for attempt in asked:
                events.failed(attempt, error)
            raise
        finally:
            port.close(seat)
        if at_once or port.now() >= give_up_at:
            return None


def _held(attempts: Sequence[Hold]) -> list[Hold]:
    """Return the holds of the parts that were granted and not given back."""
    return [attempt for attempt in attempts if attempt.held]


def _undo(port: Engine, attempts: Sequence[Hold], seat: Seat) -> None:
    """Undo what was asked for and granted, the last part first.

    Each step notes that it is done, so a second call finishes one that was interrupted. A part
    stays in its registry until it is released: there its handle finds it, too.
    """
    if seat.began:
        port.run_in_background(*_release(attempts), seat.path)
        seat.began = False
    for attempt in reversed(attempts):
        if attempt.held:
            attempt.release_in_background(port)
            if attempt.registry is not None:
                attempt.registry.remove(attempt)
            attempt.held = False


async def _acquire_once(
    port: Engine, attempts: Sequence[Hold], seat: Seat, timeout: float | None, give_up_at: float
) -> bool:
    """Acquire all by one script if they are free, else one after the other; report how it ends."""
    at_once, granted = attempts[0].at_once, None
    if _by_one_script(port, [attempt.terms for attempt in attempts]):
        granted = await _together(port, attempts, seat, give_up_at)
    if granted is None or not (granted or at_once):
        granted = await _in_order(port, attempts, timeout if at_once else give_up_at)
    for attempt in attempts:
        attempt.at_once = at_once  # as all together are asked
        attempt.give_up_at = min(give_up_at, attempt.terms.ends)
        if attempt.event is not None:
            tell(port, attempt, granted=attempt.held)
    return granted


async def _together(
    port: Engine, attempts: Sequence[Hold], seat: Seat, give_up_at: float
) -> bool | None:
    """Request all at once; None when each may still be free."""
    until, ttl = answer_by(port, port.now(), give_up_at), min(each.ttl for each in attempts)

    async def once() -> tuple[float, Reply]:
        if seat.undo_connection is not None:
            # Undo what a silent connection may still deliver; continue with new ids, as acquire.py.
            _undo(port, attempts, seat)
            port.close(seat)
            for attempt in attempts:
                attempt.rename()
        await port.open(seat, until, listen=False)
        seat.begin()
        asked_at = port.now()
        reply = await port.call(*_request(attempts), until, seat)
        if isinstance(reply[0], bytes):
            await confirm(port, seat, asked_at + validity(ttl), give_up_at)
        return asked_at, reply

    try:
        asked_at, reply = await persist(port, once, until, seat)
    except ServerError as error:
        if error.code != APART:
            raise
        asked_at, reply = 0.0, [-1]
    granted = isinstance(reply[0], bytes)
    if granted:
        if asked_at + validity(ttl) <= port.now():
            raise too_late(ttl)
        for attempt, fence in zip(attempts, reply, strict=True):
            begin(port, attempt, Grant(int(fence), asked_at + validity(attempt.ttl), attempt.ttl))
    seat.began = False
    port.close(seat)
    return granted or _refused(attempts, reply)


def _refused(attempts: Sequence[Hold], reply: Reply) -> bool | None:
    """Note which client holds the lock that is not free; None when each may still be free."""
    number, *whose = reply
    if not whose:
        return None
    attempts[number - 1].saw(HeldBy.of(*whose))
    return False


async def _in_order(port: Engine, attempts: Sequence[Hold], limit: float | None) -> bool:
    """Acquire one after the other, until the instant ``limit``; below 0: one try each."""
    for attempt in attempts:
        timeout = limit if limit is None or limit < 0 else max(0.0, limit - port.now())
        if await acquire(port, attempt, timeout) is None:
            await _drop(port, attempts, limit if limit and limit > 0 else FOR_EVER)
            if attempt.under is not None:
                raise lost_nested(port, attempt.under)
            return False
    return True


async def _drop(port: Engine, attempts: Sequence[Hold], give_up_at: float) -> None:
    """Release the parts of a multi that was not granted; takes a short time, whatever happens."""
    holds, given, now = _held(attempts), Together[Hold](), port.now()
    for hold in holds:
        if hold.registry is not None:
            hold.registry.remove(hold)
        hold.retire(port)
    _end(holds)
    until = min(now + LEAVING_SECONDS, max(now, give_up_at + DROPPING_SECONDS))
    try:
        if holds:
            await _give_back(port, holds, given, until)
    except (OutcomeUnknown, ServerError) as error:
        _post_rest(port, holds, given, error)
    for hold in holds:
        hold.undo_owed(port)
        hold.held = False


def _request(attempts: Sequence[Hold]) -> Call:
    keys, words = list[bytes](), list[bytes | int]()
    for one in attempts:
        keys += one.keys.grant
        words += (one.holder_id, milliseconds(one.ttl), one.terms.words + one.info)
    return MULTI_ACQUIRE, keys, words


def _release(parts: Sequence[Attempt]) -> Call:
    keys = [key for part in parts for key in part.terms.keys.all]
    words = (parts[0].terms.client_channel, *[part.holder_id for part in parts])
    return MULTI_RELEASE, keys, words


def _post_rest(
    port: Engine, holds: Sequence[Hold], given: Together[Hold], error: BaseException
) -> None:
    """Release the rest in the background, unless the server refused them all."""
    if not settled(error):
        for hold in reversed(given.left(holds)):
            port.run_in_background(*hold.terms.release(hold))


async def release_all(port: Engine, take: Callable[[list[Hold]], None]) -> None:
    """Release the holds that ``take`` moves into its list; one of a lease stands for all of it.

    Raises what ``take`` raises; LeaseLost when one of the leases had ended before, once the others
    are released; and as ``release`` when no answer came.
    """
    taken: list[Hold] = []
    given = Together[Hold]()
    try:
        take(taken)
        holds = [each for hold in taken for each in joined(hold)]
        lost = [hold for hold in holds if hold.lost]
        for hold in holds:
            hold.retire(port)
        until = port.now() + port.server_timeout
        ours = [hold for hold in holds if not (hold.closed or hold.forked)]
        if ours:
            await _give_back(port, ours, given, until)
    except BaseException as error:
        holds = [each for hold in taken for each in joined(hold)]
        for hold in holds:
            hold.retire(port)
        _post_rest(port, [hold for hold in holds if not hold.forked], given, error)
        _end(holds, error)
        raise
    finally:
        for hold in taken:
            for each in joined(hold):
                each.undo_owed(port)
    try:
        errors = [hold.lost_error() for hold in lost]
        for hold in ours:
            verdict = given.answers[hold]
            if verdict != 1 and hold not in given.unsure and hold not in lost:
                errors.append(lost_as(port, hold, verdict))
        if errors:
            raise errors.pop(0)
    finally:
        _end(holds)


def _end(holds: Sequence[Hold], error: BaseException | None = None) -> None:
    """Report that the leases have ended."""
    for hold in holds:
        events.end_hold(hold, error)


async def _give_back(
    port: Engine, holds: Sequence[Hold], given: Together[Hold], until: float
) -> None:
    """Release the parts; note in ``given`` the server's answer for each."""
    if _by_one_script(port, [hold.terms for hold in holds]):
        log = Seat()
        try:
            reply = await ask(port, *_release(holds), until, asked=log)
        except ServerError as error:
            if error.code != APART:
                raise
        else:
            given.answers.update(zip(holds, reply, strict=True))
            if log.sent:
                given.unsure.update(holds)
            return

    async def send(left: Sequence[Hold]) -> Sequence[Reply | Exception]:
        answers = await port.side_by_side([hold.terms.release(hold) for hold in left], until)
        return [each if each == 1 or isinstance(each, Exception) else each[1] for each in answers]

    await persist(port, lambda: given.ask(holds, send), until)
    given.check()


def _by_one_script(port: Engine, terms: Sequence[Terms]) -> bool:
    """Return True if one script can acquire or release all of these, as far as is known."""
    plain = all(each.batch == LOCKS for each in terms)
    return plain and len(port.by_slot(terms, lambda each: each.keys.lock)) == 1
