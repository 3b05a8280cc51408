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

from fencelock._core.attempt_log import AttemptLog
from fencelock._core.deadlock.chase import error_of, look, own_cycle
from fencelock._core.deadlock.unit_waits import entered, is_certain, is_edge
from fencelock._core.lock import release as alone
from fencelock._core.lock.acquire import FOR_EVER, attempt, begin, depart, queue, undo
from fencelock._core.lock.hold import Grant, Hold, HoldRegistry
from fencelock._core.lock.inspect import holder_of
from fencelock._core.lock.poll import poll
from fencelock._core.lock.request import AcquireRequest
from fencelock._core.lock.tenure import LocalWaiter, Spare, Tenure, found, join, try_kept
from fencelock._core.lock.waiter import Waiter
from fencelock._core.port import Port
from fencelock._core.types import closed
from fencelock.errors import OutcomeUnknown, ServerError, ServerUnreachable
from fencelock.options import Cohort


async def take(  # noqa: PLR0917 - as ``Flows.take``
    port: Port,
    request: AcquireRequest,
    give_up_at: float,
    registry: HoldRegistry,
    unit: object,
    at_once: bool,  # noqa: FBT001 - as above
) -> Hold | None:
    """Acquire a lock of one server, in line unless it is one try or the plain form."""
    cohort = request.options.cohort
    if request.options.plain:
        grant = await poll(port, request, give_up_at, tries=1 if at_once else None)
    elif request.options.linger and at_once and cohort is not None:
        waiter = LocalWaiter(request, port.now(), port.now(), registry, unit)
        kept = await _taken(port, waiter, None)
        return kept or await _try(port, waiter, give_up_at, cohort)
    elif at_once or request.once:
        grant = await attempt(port, request, give_up_at)
    elif request.template.cohort is not None and cohort is not None:
        waiter = LocalWaiter(request, port.now(), give_up_at, registry, unit)
        return await _taken(port, waiter, cohort)
    else:
        grant = await queue(port, request, give_up_at)
    return None if grant is None else begin(port, request, grant, registry, unit)


async def _try(port: Port, waiter: LocalWaiter, give_up_at: float, cohort: Cohort) -> Hold | None:
    """Try once at the server; the lease of a try may be kept, too."""
    request = waiter.request
    request.known = True
    grant = await attempt(port, request, give_up_at)
    if grant is None:
        return None
    hold = begin(port, request, grant, waiter.registry, waiter.unit)
    found(port, hold, grant, cohort)
    return hold


async def _taken(port: Port, waiter: LocalWaiter, cohort: Cohort | None) -> Hold | None:
    """Acquire a lock as one of a cohort; without it, only a lease that this client keeps.

    Whatever interrupts it, what the waiter has is undone here, once.
    """
    waiter.request.known = False
    try:
        line = try_kept(port, waiter) if cohort is None else join(port, waiter, cohort)
        if line is None:
            return None
        if line.front is not waiter:
            if not await _become_front(port, line, waiter):
                return None
            if line.spare is None and line.asks is None and port.now() >= waiter.give_up_at:
                line.succeed(port, waiter)
                return None
        return await _begin_turn(port, line, waiter)
    except BaseException:
        _give_up(port, waiter)
        raise


async def _begin_turn(port: Port, line: Tenure, waiter: LocalWaiter) -> Hold | None:
    """Make the front's turn a hold, which is the front then; None when it was not granted."""
    spare = None if line.spare is None else _turn(port, line, waiter)
    grant = await _ask(port, line, waiter) if spare is None else spare.turn
    if grant is None:
        line.succeed(port, waiter)
        return None
    hold = begin(port, waiter.request, grant, waiter.registry, waiter.unit)
    hold.unchanged = spare is not None and spare.unchanged
    line.begin(port, hold, grant, fresh=spare is None or spare.fresh)
    return hold


async def _become_front(  # noqa: C901 - one turn of the wait looks at all that may end it
    port: Port, line: Tenure, waiter: LocalWaiter
) -> bool:
    """Wait for the cohort; False when the time is up."""
    give_up_at = waiter.give_up_at
    wait, asked = entered(port, waiter, give_up_at), None
    while line.front is not waiter:
        if port.lines.closed:
            raise closed()
        now, front = port.now(), line.front
        if now >= give_up_at:
            return not line.leave(port, waiter)
        if waiter.request.acquisition is not None:
            waiter.request.acquisition.must_wait(other=front.request.info if front else b"")
        if wait.cycle is not None:
            raise error_of(port, wait)
        until = min(give_up_at, wait.due)
        if isinstance(front, Hold):
            if now >= front.deadline:
                line.succeed(port, front)
                continue
            if give_up_at == FOR_EVER and front is not asked and _waits_for_itself(front, waiter):
                asked = front  # it may just have been revoked: the server knows
                if await _is_held(port, front):
                    raise own_cycle(port, wait, front)
                continue
            until = min(until, front.deadline)
        if now >= wait.due:
            look(port, wait, now)
            continue
        await port.wait(waiter, until)
    wait.cycle = None  # the hold that it waited for is gone
    return True


def _waits_for_itself(front: Hold, waiter: LocalWaiter) -> bool:
    """Return True if a thread or task waits for a hold that only it can release."""
    request = waiter.request
    return (
        request.unit is not None
        and front.unit is request.unit
        and is_certain(front, request.unit_wait.frames)
        and is_edge(front)
    )


async def _is_held(port: Port, front: Hold) -> bool:
    """Ask the server whether a hold is still there; False also when it cannot tell."""
    try:
        return await holder_of(port, front.request.keys) == front.request.holder
    except ServerError:
        return False


def _turn(port: Port, line: Tenure, waiter: LocalWaiter) -> Spare | None:
    """Return the lease that the front was given, unless it came too late."""
    request, spare = waiter.request, line.spare
    if spare is None:
        return None
    if in_time(spare.turn, port.now()):
        request.adopt(spare.request)
        request.turn = 0 if spare.fresh else spare.turn.fence
        return spare
    port.run_in_background(*spare.release)
    line.spare = line.asks = None  # as a grant that has expired
    return None


def in_time(turn: Grant, now: float) -> bool:
    """Return True if a turn can begin: its lease is not over."""
    return turn.deadline > now


async def _ask(port: Port, line: Tenure, waiter: LocalWaiter) -> Grant | None:
    """Ask the server for all of the front's cohort."""
    request, asks = waiter.request, line.asks
    if asks is not None and not asks.stood:
        _answered_by(port, asks, waiter.arrived_at + port.server_timeout)
    asks = waiter.takes_up(asks)
    request.known = True
    leave = partial(_leave_to_next, port, line, waiter)
    return await queue(port, request, waiter.give_up_at, asks, leave)


def _answered_by(port: Port, asks: Waiter, latest: float) -> None:
    """Wait for a first answer until then; raise when that is over, and the request is undone."""
    asks.latest = latest
    if asks.began and port.now() >= latest:
        raise ServerUnreachable("no answer to the waiter that asked for all of this client")


def _leave_to_next(port: Port, line: Tenure, waiter: LocalWaiter, asks: Waiter) -> bool:
    """Leave what asks the server to the next waiter; False when none waits."""
    request = waiter.request
    request.known = False  # its id is the next waiter's from here on
    left = line.succeed(port, waiter, asks, keeps=True)
    request.known = not left
    return left


def _give_up(port: Port, waiter: LocalWaiter) -> None:
    """Undo what a waiter that was interrupted has, and have the next one ask."""
    line = waiter.line
    if line is None:
        return
    hold = line.front
    if isinstance(hold, Hold) and hold.request is waiter.request:
        line.succeed(port, hold)
    elif not line.leave(port, waiter):  # it is the front: what the tenure has is its to undo
        if line.spare is not None:
            port.run_in_background(*line.spare.release)
        elif line.asks is not None and waiter.local:
            _hand_on(port, line, waiter, line.asks)
            return
        line.succeed(port, waiter)


def _hand_on(
    port: Port,
    line: Tenure,
    giver: LocalWaiter | Hold,
    asks: Waiter,
    spare: Spare | None = None,
) -> None:
    """Give the next waiter what asked the server, or its answer; undo it when none waits."""
    if not line.succeed(port, giver, asks, spare, keeps=True):
        undo(port, asks)
        depart(port, asks)
        line.succeed(port, giver)


async def give_back(port: Port, hold: Hold, asked: AttemptLog) -> int:
    """Release a hold of one server: to the next of its cohort, or to the line."""
    line: Tenure | None = hold.cohort
    if line is not None and not hold.forked:
        if line.pass_on(port, hold) or line.keep(port, hold):
            return 0
        asks = None if hold.lost else line.for_next(port, hold)
        if asks is not None:
            alone.retire(port, hold)
            return await _release_to_line(port, hold, line, asks, asked)
    return await alone.give_back(port, hold, asked)


async def _release_to_line(
    port: Port, hold: Hold, line: Tenure, asks: Waiter, asked: AttemptLog
) -> int:
    """Release, and have the same command ask for the next waiter of the cohort."""
    try:
        grant, spare = await port.flows.line_up(port, asks, FOR_EVER), None
        if grant is not None:  # by the command that released, unless that was repeated
            port.close(asks)
            spare = Spare(asks.request, grant, fresh=True, unchanged=asks.verdict == 1)
        _hand_on(port, line, hold, asks, spare)
    except BaseException as error:
        _hand_on(port, line, hold, asks)
        if asks.verdict is None:
            asked.sent = True  # it may have run
            if not isinstance(error, ServerError) or isinstance(
                error, (OutcomeUnknown, ServerUnreachable)
            ):
                raise
            return await alone.give_back(port, hold, asked)
        if not isinstance(error, ServerError):
            raise
    return alone.judge(port, hold, asks.verdict, repeated=asks.sent)


def release_in_background(port: Port, hold: Hold, undo_connection: object) -> None:
    """Release a hold in the background, unless its turn was passed on."""
    line: Tenure | None = hold.cohort
    if line is not None:
        passed = line.passed(hold)  # asked first: who interrupted it may have given nothing
        line.succeed(port, hold)
        if passed:
            return
    alone.release_one_in_background(port, hold, undo_connection)
