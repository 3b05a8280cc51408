"""Acquire and release a lock in turn with the other waiters of this client; see cohort.py.

Rules of this file (DESIGN §9):

- A waiter asks the server only as the front of its cohort. What it leaves behind, its place in line
  or a request under way, is the next waiter's: that one repeats the request with the same id.
- The id of a tenure is undone or released by its front alone, and never after it was passed on.
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
from fencelock._core.lock.cohort import (
    NOTHING,
    Given,
    LocalLine,
    LocalWaiter,
    found,
    join,
    try_kept,
)
from fencelock._core.lock.hold import Grant, Hold, HoldRegistry
from fencelock._core.lock.inspect import holder_of
from fencelock._core.lock.poll import poll
from fencelock._core.lock.request import AcquireRequest, Stray
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
    if request.options.plain:
        grant = await poll(port, request, give_up_at, tries=1 if at_once else None)
    elif request.options.linger and at_once and (cohort := request.options.cohort) is not None:
        return await _try_turn(port, request, give_up_at, registry, unit, cohort)
    elif at_once or request.once:
        grant = await attempt(port, request, give_up_at)
    elif request.template.cohort is not None and (cohort := request.options.cohort) is not None:
        return await _take_turn(port, request, give_up_at, registry, unit, cohort)
    else:
        grant = await queue(port, request, give_up_at)
    return None if grant is None else begin(port, request, grant, registry, unit)


async def _take_turn(  # noqa: PLR0917 - as ``take``
    port: Port,
    request: AcquireRequest,
    give_up_at: float,
    registry: HoldRegistry,
    unit: object,
    cohort: Cohort,
) -> Hold | None:
    """Acquire a lock as one of a cohort."""
    waiter = LocalWaiter(request, port.now())
    request.known = False
    try:
        line = join(port, waiter, cohort)
        if line.front is not waiter:
            if not await _become_front(port, line, waiter, give_up_at):
                return None
            if waiter.given is NOTHING and port.now() >= give_up_at:
                line.succeed(port, waiter)
                return None
        return await _begin_turn(port, line, waiter, give_up_at, registry, unit)
    except BaseException:
        _give_up(port, waiter, request)
        raise


async def _begin_turn(  # noqa: PLR0917 - as ``take``
    port: Port,
    line: LocalLine,
    waiter: LocalWaiter,
    give_up_at: float,
    registry: HoldRegistry,
    unit: object,
) -> Hold | None:
    """Make the front's turn a hold, which is the front then; None when it was not granted."""
    grant = None if waiter.given is NOTHING else _turn_of(port, waiter)
    grant = grant or await _ask(port, line, waiter, give_up_at)
    if grant is None:
        line.succeed(port, waiter)
        return None
    hold = begin(port, waiter.request, grant, registry, unit)
    given = waiter.given
    hold.unchanged = given.unchanged
    line.begin(port, hold, grant, fresh=given.turn is None or given.fresh)
    return hold


async def _try_turn(  # noqa: PLR0917 - as ``take``
    port: Port,
    request: AcquireRequest,
    give_up_at: float,
    registry: HoldRegistry,
    unit: object,
    cohort: Cohort,
) -> Hold | None:
    """Take a lease that this client keeps, else try once at the server."""
    waiter = LocalWaiter(request, port.now())
    request.known = False
    try:
        line = try_kept(port, waiter)
        if line is not None:
            kept = await _begin_turn(port, line, waiter, port.now(), registry, unit)
            if kept is not None:  # else it came too late
                return kept
    except BaseException:
        _give_up(port, waiter, request)
        raise
    request.known = True
    grant = await attempt(port, request, give_up_at)
    if grant is None:
        return None
    hold = begin(port, request, grant, registry, unit)
    found(port, hold, grant, cohort)
    return hold


async def _become_front(  # noqa: C901 - one turn of the wait looks at all that may end it
    port: Port, line: LocalLine, waiter: LocalWaiter, give_up_at: float
) -> bool:
    """Wait for the cohort; False when the time is up."""
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


def _turn_of(port: Port, waiter: LocalWaiter) -> Grant | None:
    """Return the turn that the front was given, if any, unless it came too late."""
    request, given = waiter.request, waiter.given
    turn, source = given.turn, given.source
    if turn is None or source is None:
        return None
    if in_time(turn, port.now()):
        request.adopt(source)
        request.turn = 0 if given.fresh else turn.fence
        return turn
    port.run_in_background(*alone.release_call(source, turn.fence))
    waiter.given = NOTHING  # as a grant that has expired
    return None


def in_time(turn: Grant, now: float) -> bool:
    """Return True if a turn can begin: its lease is not over."""
    return turn.deadline > now


async def _ask(port: Port, line: LocalLine, waiter: LocalWaiter, give_up_at: float) -> Grant | None:
    """Ask the server for all of the front's cohort."""
    request, given = waiter.request, waiter.given
    if given.place is not None and not given.place.stood:
        _answered_by(port, given.place, waiter.arrived_at + port.server_timeout)
    asks = waiter.takes_up()
    request.known = True
    leave = partial(_leave_to_next, port, line, waiter)
    return await queue(port, request, give_up_at, asks, leave)


def _answered_by(port: Port, asks: Waiter, latest: float) -> None:
    """Wait for a first answer until then; raise when that is over, and the request is undone."""
    asks.latest = latest
    if asks.began and port.now() >= latest:
        raise ServerUnreachable("no answer to the waiter that asked for all of this client")


def _leave_to_next(port: Port, line: LocalLine, waiter: LocalWaiter, asks: Waiter) -> bool:
    """Leave what asks the server to the next waiter; False when none waits."""
    request = waiter.request
    request.known = False  # its id is the next waiter's from here on
    left = line.succeed(port, waiter, _left(asks), keeps=True)
    request.known = not left
    return left


def _left(asks: Waiter) -> Given:
    """Return what is given with a place: a request that is under way may arrive at any time."""
    strays = (Stray(asks.path, asks.channel),) if asks.asking else ()
    return Given(place=asks, strays=strays)


def _give_up(port: Port, waiter: LocalWaiter, request: AcquireRequest) -> None:
    """Undo what a waiter that was interrupted has, and have the next one ask."""
    line = waiter.line
    if line is None:
        return
    hold = line.front
    if isinstance(hold, Hold) and hold.request is request:
        line.succeed(port, hold)
    elif not line.leave(port, waiter):
        given = waiter.given  # not before: another thread may have given it until now
        if given.turn is not None and given.source is not None:
            port.run_in_background(*alone.release_call(given.source, given.turn.fence))
        elif given.place is not None and waiter.local:
            _hand_on(port, line, waiter, given, given.place)
            return
        line.succeed(port, waiter)


def _hand_on(
    port: Port, line: LocalLine, giver: LocalWaiter | Hold, given: Given, asks: Waiter
) -> None:
    """Give the next waiter what asked the server, or its answer; undo it when none waits."""
    if not line.succeed(port, giver, given, keeps=True):
        undo(port, asks)
        depart(port, asks)
        line.succeed(port, giver)


async def give_back(port: Port, hold: Hold, asked: AttemptLog) -> int:
    """Release a hold of one server: to the next of its cohort, or to the line."""
    line: LocalLine | None = hold.cohort
    if line is not None and not hold.forked:
        if line.pass_on(port, hold) or line.keep(port, hold):
            return 0
        asks = None if hold.lost else line.for_next(port, hold)
        if asks is not None:
            alone.retire(port, hold)
            return await _release_to_line(port, hold, line, asks, asked)
    return await alone.give_back(port, hold, asked)


async def _release_to_line(
    port: Port, hold: Hold, line: LocalLine, asks: Waiter, asked: AttemptLog
) -> int:
    """Release, and have the same command ask for the next waiter of the cohort."""
    try:
        grant = await port.flows.line_up(port, asks, FOR_EVER)
        if grant is not None:
            port.close(asks)
        _deliver(port, hold, line, asks, grant)
    except BaseException as error:
        _hand_on(port, line, hold, _left(asks), asks)
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


def _deliver(port: Port, hold: Hold, line: LocalLine, asks: Waiter, grant: Grant | None) -> None:
    """Give the next waiter what the server answered."""
    given = Given(place=asks)
    if grant is not None:  # by the command that released, unless that was repeated
        given = Given(grant, asks.request, fresh=True, unchanged=asks.verdict == 1)
    _hand_on(port, line, hold, given, asks)


def release_in_background(port: Port, hold: Hold, undo_connection: object) -> None:
    """Release a hold in the background, unless its turn was passed on."""
    line: LocalLine | None = hold.cohort
    if line is not None:
        passed = line.passed(hold)  # asked first: who interrupted it may have given nothing
        line.succeed(port, hold)
        if passed:
            return
    alone.release_one_in_background(port, hold, undo_connection)
