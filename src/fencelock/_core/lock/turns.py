"""Acquire and release a lock in turn with the other waiters of this client; see tenure.py.

Rules of this file (DESIGN §9):

- A waiter asks the server only as the front of its tenure. What it leaves behind, its place in line
  or a request under way, is the next waiter's: that one repeats the request with the same id.
- The id of a lease is undone or released by the front alone, and never after it was passed on.
- A release beyond the cohort's bound asks for the next waiter's place with the same command. If
  that fails, the release is repeated alone, and the next waiter asks by itself.
- While the server does not answer, a waiter retries for ``server_timeout`` since it came.
"""

from __future__ import annotations

from functools import partial

from fencelock._core.deadlock.chase import error_of, look, own_cycle
from fencelock._core.deadlock.unit_waits import entered, is_certain, is_edge
from fencelock._core.lock import release as alone
from fencelock._core.lock.acquire import FOR_EVER, begin, depart, queue, try_once, undo
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.inspect import holder_of
from fencelock._core.lock.poll import poll
from fencelock._core.lock.tenure import Spare, Tenure, found, join, left_behind, try_kept
from fencelock._core.port import Port
from fencelock._core.seat import Seat
from fencelock._core.types import closed
from fencelock.errors import OutcomeUnknown, ServerError, ServerUnreachable
from fencelock.options import Cohort


async def take(port: Port, attempt: Attempt) -> Hold | None:
    """Acquire a lock of one server, in line unless it is one try or the plain form."""
    options, cohort = attempt.terms.options, attempt.terms.options.cohort
    if options.plain:
        grant = await poll(port, attempt, tries=1 if attempt.at_once else None)
    elif attempt.at_once and options.linger and cohort is not None:
        return await _taken(port, attempt, None) or await _try(port, attempt, cohort)
    elif attempt.at_once or attempt.under is not None:
        grant = await try_once(port, attempt)
    elif attempt.terms.cohort is not None and cohort is not None:
        return await _taken(port, attempt, cohort)
    else:
        grant = await queue(port, attempt, attempt, attempt.give_up_at)
    return None if grant is None else begin(port, attempt, grant)


async def _try(port: Port, attempt: Attempt, cohort: Cohort) -> Hold | None:
    """Try once at the server; the lease of a try may be kept, too."""
    attempt.tenure = None
    grant = await try_once(port, attempt)
    if grant is None:
        return None
    hold = begin(port, attempt, grant)
    found(port, hold, grant, cohort)
    return hold


async def _taken(port: Port, attempt: Attempt, cohort: Cohort | None) -> Hold | None:
    """Acquire a lock as one of a cohort; without it, only a lease that this client keeps."""
    try:
        tenure = try_kept(port, attempt) if cohort is None else join(port, attempt, cohort)
        if tenure is None:
            return None
        if tenure.front is not attempt:
            if not await _become_front(port, tenure, attempt):
                return None
            if tenure.spare is None and tenure.asks is None and port.now() >= attempt.give_up_at:
                tenure.succeed(port, attempt)
                return None
        return await _begin_turn(port, tenure, attempt)
    except BaseException:
        _give_up(port, attempt)
        raise


async def _begin_turn(port: Port, tenure: Tenure, attempt: Attempt) -> Hold | None:
    """Make the front's turn a hold, which is the front then; None when it was not granted."""
    spare = None if tenure.spare is None else _turn(port, tenure)
    if spare is not None:
        grant: Grant | None = spare.turn
    else:  # a try has a kept lease or none: see ``_try``
        grant = None if attempt.at_once else await _ask(port, tenure, attempt)
    if grant is None:
        tenure.succeed(port, attempt)
        return None
    if spare is None:
        hold = begin(port, attempt, grant, attempt.asks)
    else:
        hold = begin(port, attempt, grant, spare.source, 0 if spare.fresh else grant.fence)
        hold.unchanged = spare.unchanged
    tenure.begin(port, hold, grant, fresh=spare is None or spare.fresh)
    return hold


async def _become_front(  # noqa: C901 - one turn of the wait looks at all that may end it
    port: Port, tenure: Tenure, attempt: Attempt
) -> bool:
    """Wait for the cohort; False when the time is up."""
    give_up_at = attempt.give_up_at
    wait, asked = entered(port, attempt, attempt, give_up_at), None
    while tenure.front is not attempt:
        if port.lines.closed:
            raise closed()
        now, front = port.now(), tenure.front
        if now >= give_up_at:
            return not tenure.leave(port, attempt)
        if attempt.event is not None:
            attempt.event.must_wait(other=front.info if front else b"")
        if wait.cycle is not None:
            raise error_of(port, wait)
        until = min(give_up_at, wait.due)
        if isinstance(front, Hold):
            if now >= front.deadline:
                tenure.succeed(port, front)
                continue
            if give_up_at == FOR_EVER and front is not asked and _waits_for_itself(front, attempt):
                asked = front  # it may just have been revoked: the server knows
                if await _is_held(port, front):
                    raise own_cycle(port, wait, front)
                continue
            until = min(until, front.deadline)
        if now >= wait.due:
            look(port, wait, now)
            continue
        await port.wait(attempt, until)
    wait.cycle = None  # the hold that it waited for is gone
    return True


def _waits_for_itself(front: Hold, attempt: Attempt) -> bool:
    """Return True if a thread or task waits for a hold that only it can release."""
    return (
        attempt.unit is not None
        and front.unit is attempt.unit
        and is_certain(front, attempt.wait.frames)
        and is_edge(front)
    )


async def _is_held(port: Port, front: Hold) -> bool:
    """Ask the server whether a hold is still there; False also when it cannot tell."""
    try:
        return await holder_of(port, front.terms.keys) == front.holder_id
    except ServerError:
        return False


def _turn(port: Port, tenure: Tenure) -> Spare | None:
    """Return the lease that the front was given, unless it came too late."""
    spare = tenure.spare
    if spare is None or in_time(spare.turn, port.now()):
        return spare
    port.run_in_background(*spare.release)
    tenure.spare = tenure.asks = None  # as a grant that has expired
    return None


def in_time(turn: Grant, now: float) -> bool:
    """Return True if a turn can begin: its lease is not over."""
    return turn.deadline > now


async def _ask(port: Port, tenure: Tenure, attempt: Attempt) -> Grant | None:
    """Ask the server for all of the front's cohort: by the question that was left to it, if any."""
    asks = tenure.asks
    if asks is not None and not asks.stood:
        _answered_by(port, asks, attempt.arrived_at + port.server_timeout)
    attempt.local, attempt.news, attempt.connection = False, False, None
    if asks is None:
        asks = attempt
    else:
        asks.owed += left_behind(asks)
    leave = partial(_leave_to_next, port, tenure, attempt)
    return await queue(port, attempt, asks, attempt.give_up_at, leave)


def _answered_by(port: Port, asks: Attempt, latest: float) -> None:
    """Wait for a first answer until then; raise when that is over, and the request is undone."""
    asks.latest = latest
    if asks.began and port.now() >= latest:
        raise ServerUnreachable("no answer to the waiter that asked for all of this client")


def _leave_to_next(port: Port, tenure: Tenure, attempt: Attempt, asks: Attempt) -> bool:
    """Leave a question to the next attempt; False when none waits."""
    attempt.asks = None  # it is the next one's from here on
    left = tenure.succeed(port, attempt, asks, keeps=True)
    if not left:
        attempt.asks = asks
    return left


def _give_up(port: Port, attempt: Attempt) -> None:
    """Undo what an attempt that was interrupted has, and have the next one ask."""
    tenure = attempt.tenure
    if tenure is None:
        return
    hold = tenure.front
    if isinstance(hold, Hold) and hold is attempt.hold:
        tenure.succeed(port, hold)
    elif not tenure.leave(port, attempt):  # it is the front: what the tenure has is its to undo
        if tenure.spare is not None:
            port.run_in_background(*tenure.spare.release)
        elif tenure.asks is not None and attempt.local:
            _hand_on(port, tenure, attempt, tenure.asks)
            return
        tenure.succeed(port, attempt)


def _hand_on(
    port: Port,
    tenure: Tenure,
    giver: Attempt | Hold,
    asks: Attempt,
    spare: Spare | None = None,
) -> None:
    """Give the next attempt a question, or its answer; undo it when none waits."""
    if not tenure.succeed(port, giver, asks, spare, keeps=True):
        undo(port, asks)
        depart(port, asks)
        tenure.succeed(port, giver)


async def give_back(port: Port, hold: Hold, log: Seat) -> int:
    """Release a hold of one server: to the next of its cohort, or to the line."""
    tenure: Tenure | None = hold.cohort
    if tenure is not None and (tenure.waiting or tenure.linger) and not hold.forked:
        if tenure.waiting and tenure.pass_on(port, hold):
            return 0
        if tenure.linger and tenure.keep(port, hold):
            return 0
        asks = None if hold.lost else tenure.for_next(port, hold)
        if asks is not None:
            alone.retire(port, hold)
            return await _release_to_line(port, hold, tenure, asks, log)
    return await alone.give_back(port, hold, log)


async def _release_to_line(port: Port, hold: Hold, tenure: Tenure, asks: Attempt, log: Seat) -> int:
    """Release, and have the same command ask for the next attempt of the cohort."""
    try:
        grant, spare = await port.line_up(asks, FOR_EVER), None
        if grant is not None:  # by the command that released, unless that was repeated
            port.close(asks)
            spare = Spare(asks, grant, fresh=True, unchanged=asks.verdict == 1)
        _hand_on(port, tenure, hold, asks, spare)
    except BaseException as error:
        _hand_on(port, tenure, hold, asks)
        if asks.verdict is None:
            log.sent = True  # it may have run
            if not isinstance(error, ServerError) or isinstance(
                error, (OutcomeUnknown, ServerUnreachable)
            ):
                raise
            return await alone.give_back(port, hold, log)
        if not isinstance(error, ServerError):
            raise
    return alone.judge(port, hold, asks.verdict, repeated=asks.sent)


def release_in_background(port: Port, hold: Hold, undo_connection: object) -> None:
    """Release a hold in the background, unless its turn was passed on."""
    tenure: Tenure | None = hold.cohort
    if tenure is not None:
        passed = tenure.passed(hold)  # asked first: who interrupted it may have given nothing
        tenure.succeed(port, hold)
        if passed:
            return
    alone.release_one_in_background(port, hold, undo_connection)
