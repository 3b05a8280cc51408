"""Acquire a lock: at once, in line, or by polling.

Rules of this file:

- ``now`` is read before asking; the lease counts from there (I2).
- Whatever ends an acquire without a lease (timeout, error, cancellation, Ctrl-C) also gives up its
  place in line and its grant (I9): before it returns for a timeout, otherwise after the request.
- A grant that arrives already expired is no grant.
- A request on a connection that turned silent may still run. So it is undone on that connection at
  once, and repeated elsewhere with a new id: the undo cannot release what the new id is granted. A
  waiter in line keeps its id and its place; a stray grant is undone there when the hold has ended.
- A waiter in line that has time left retries while the server is unreachable.
- If replicas must acknowledge a grant, it is reported only afterwards (see acknowledge.py). An
  answer with fence 0 is no grant (see once.py): it counts whatever the replicas have.
- A try waits for a moment where the holder's client may keep an idle lease: see kept.py. It ends
  when that client answers that the lease is in use.
- Waiting is bounded by ``give_up_at``, by the holder's lease and by the heartbeat (I6, I13).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fencelock._core import events
from fencelock._core.deadlines import validity
from fencelock._core.deadlock.chase import error_of, look
from fencelock._core.deadlock.unit_waits import entered, left
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.hold import Grant, Hold, HoldRegistry, first_due
from fencelock._core.lock.release import release_call, retire, undo_strays
from fencelock._core.lock.renew import lose
from fencelock._core.lock.request import TRIES, AcquireRequest, Stray, too_late
from fencelock._core.lock.waiter import Waiter
from fencelock._core.lock.waiting import Line
from fencelock._core.port import Port
from fencelock._core.retry import again, answer_by, give_up, passes
from fencelock._core.types import NoReply, Reply, closed
from fencelock._runtime.log import log
from fencelock.errors import FencelockError, OutcomeUnknown, ServerError, ServerUnreachable

# A timed-out acquire may take this much longer to leave the line by itself: I13 allows 100 ms.
LEAVING_SECONDS = 0.06
FOR_EVER = float("inf")
# How long a try waits for the answer to a recall: a busy client answers within milliseconds.
RECALL_SECONDS = 0.25
# It may wait so much longer than its timeout: I13 allows 100 ms, and leaving takes its part.
RECALL_GRACE_SECONDS = 0.03
RECALLABLE = 2  # of acquire.lua
# A lease may lose this much on the wire, which carries whole milliseconds.
ROUNDING_SECONDS = 0.001
NO_GRANT = b"0"  # of once_start.lua: it is done
# After this many grants that arrive already expired, raise: the ttl is shorter than the round trip.
LATE_GRANTS_MAX = 3

# Leaves a waiter's place in line to another waiter; False when there is none.
LeaveTo = Callable[[Waiter], bool]


def nobody(_waiter: Waiter) -> bool:
    """Return False: no other waiter takes the place."""
    return False


async def attempt(port: Port, request: AcquireRequest, give_up_at: float) -> Grant | None:
    """Ask once, without a place in line; None when the lock is held or others come first."""
    waiter, began = Waiter(request), port.now()
    try:
        grant = await line_up(port, waiter, give_up_at, listen=False)
        if grant is not None and grant.deadline <= port.now():
            raise too_late(request)
    except BaseException:
        _undo(port, waiter)
        raise
    finally:
        port.close(waiter)
    if grant is not None or not waiter.recalls:
        return grant
    return await _recalled(port, request, give_up_at, port.now() - began)


async def _recalled(
    port: Port, request: AcquireRequest, give_up_at: float, trip: float
) -> Grant | None:
    """Wait a moment in line for a lease that was recalled; None when it is in use.

    The request has another id, by which the holder's client knows that it is to answer. Without an
    answer of the server, what it said before counts: the lock is held.
    """
    undo_strays(port, request.rename(TRIES + request.waiter))
    request.strays = ()
    waiter = Waiter(request)
    until = min(give_up_at + RECALL_GRACE_SECONDS, port.now() + RECALL_SECONDS + 4 * trip)
    waiter.latest = until if give_up_at < FOR_EVER else FOR_EVER
    try:
        return await queue(port, request, until, waiter, outlasts=False)
    except (OutcomeUnknown, ServerUnreachable):
        return None  # ``queue`` has undone it


async def queue(
    port: Port,
    request: AcquireRequest,
    give_up_at: float,
    waiter: Waiter | None = None,
    leave_to: LeaveTo = nobody,
    *,
    outlasts: bool = True,
) -> Grant | None:
    """Stand in line until granted; None at ``give_up_at``.

    Asks, waits, and asks again whenever the place may be gone. A ``waiter`` that another request
    put in line begins with waiting. With ``outlasts``, a waiter in line retries until
    ``give_up_at`` while the server is unreachable, not only for ``server_timeout``. A waiter that
    gives up may ``leave_to`` another one its place and what it asked for: then nothing is undone.
    """
    waiter = waiter or Waiter(request)
    waiter.outlasts = outlasts
    left = False
    try:
        grant = await _granted(port, waiter, give_up_at)
        if grant is None:
            left = leave_to(waiter)
            if not left:
                leave_to = nobody  # what was undone is no other waiter's
                await _leave(port, waiter)
                undo_strays(port, request)
    except BaseException:
        left = left or leave_to(waiter)
        if not left:
            undo(port, waiter)
        raise
    else:
        return grant
    finally:
        if not left:
            try:
                depart(port, waiter)
            except BaseException:  # Ctrl-C, perhaps before its first instruction
                depart(port, waiter)
                raise


async def _granted(port: Port, waiter: Waiter, give_up_at: float) -> Grant | None:
    """Ask, wait, and ask again, until granted; None at ``give_up_at``."""
    late, request = 0, waiter.request
    while True:
        placed = waiter.placed
        grant = None if placed else await port.flows.line_up(port, waiter, give_up_at)
        if grant is None:
            if request.acquisition is not None:
                request.acquisition.must_wait(waiter.ahead)
            grant = await _wait(port, waiter, give_up_at)
            if grant is not None:
                grant = await _counted(port, waiter, grant, give_up_at)
        if grant is not None and min(grant.deadline, request.template.ends) > port.now():
            return grant
        late += grant is not None
        if waiter.refused or port.now() >= give_up_at:
            return None
        if late == LATE_GRANTS_MAX:
            raise too_late(request)
        waiter.forget()


def undo(port: Port, waiter: Waiter) -> None:
    """Undo all requests of a waiter that gives up."""
    _undo(port, waiter)
    undo_strays(port, waiter.request)


def depart(port: Port, waiter: Waiter) -> None:
    """Remove a waiter from its line, and take its connection back.

    After an interrupt, even at the first instruction, call it again: a waiter that stays in a line
    would keep the client's thread alive for ever (I10).
    """
    if waiter.stood:
        with port.mutex():
            port.lines.leave(waiter, port.now())
    port.close(waiter)


def _undo(port: Port, waiter: Waiter) -> None:
    """Undo a request that may have run, after it on the same connection."""
    if not waiter.began:
        return
    request = waiter.request
    with port.mutex():
        port.lines.give_up(request)
    port.run_in_background(*request.abandon(waiter.channel), waiter.path)


def start_over(port: Port, waiter: Waiter) -> None:
    """Undo a request that a silent connection may still deliver; continue with another id."""
    request = waiter.request
    waiter.request = request.rename()
    _undo(port, waiter)
    port.close(waiter)
    waiter.request, waiter.began, waiter.undo_connection = request, False, None


def late_grant(port: Port, who: bytes) -> None:
    """Release a grant that was pushed to a waiter that has given up."""
    with port.mutex():
        request = port.lines.gave_up(who)
    if request is not None:
        port.run_in_background(*request.abandon(b""))


async def line_up(
    port: Port, waiter: Waiter, give_up_at: float, *, listen: bool = True
) -> Grant | None:
    """Ask for the lock, and with ``listen`` for a place in line; None when it was not granted."""
    request = waiter.request
    asked_at = port.now()
    patient = give_up_at == FOR_EVER
    until = asked_at + port.server_timeout if patient else answer_by(port, asked_at, give_up_at)
    until = min(until, waiter.latest)
    if waiter.tries:
        waiter.start()
    while True:
        try:
            if not port.open_now(waiter, listen=listen):
                await port.open(waiter, until, listen=listen)
                asked_at = port.now()
            waiter.began, waiter.undo_connection = True, None  # as ``begin``
            waiter.asking = True
            lasting = request.lasting(asked_at)
            if waiter.waits_since:
                reply = waiter.judged(await _ask_for_next(port, waiter, asked_at, until))
            else:
                reply = await port.run(
                    request.acquire(waiter.channel), request.keys.lock, until, waiter
                )
            waiter.asking = False
            ends = asked_at + validity(lasting)
            if port.flows.confirms and counts(reply):
                await port.flows.confirm(port, waiter, ends, give_up_at)
        except (NoReply, ServerError) as trouble:
            waiter.asking = isinstance(trouble, NoReply) and trouble.sent  # it may arrive later
            until = await _once_more(port, waiter, trouble, until, give_up_at)
            asked_at = port.now()
            continue
        if isinstance(reply, bytes):
            return Grant(int(reply), ends, lasting)
        waiter.recalls = reply[3] == RECALLABLE
        if listen:
            _lined_up(port, waiter, reply, asked_at)
        return None


def counts(reply: Reply) -> bool:
    """Return True if an answer is a grant, which counts once replicas have acknowledged it."""
    return isinstance(reply, bytes) and reply != NO_GRANT


async def _ask_for_next(port: Port, waiter: Waiter, now: float, until: float) -> Reply:
    """Ask for a waiter that waited for others of its client; see turns.py."""
    request = waiter.request
    packed = request.acquire_next(waiter.channel, waiter.releases, now - waiter.waits_since)
    return await port.run(packed, request.keys.lock, until, waiter)


async def _once_more(
    port: Port, waiter: Waiter, trouble: NoReply | ServerError, until: float, give_up_at: float
) -> float:
    """Return until when to ask again, once it is time for that; raise when time is up."""
    stays = waiter.stood and waiter.outlasts
    await again(port, trouble, max(until, give_up_at) if stays else until, waiter)
    stray = Stray(waiter.undo_connection, waiter.channel)
    if waiter.undo_connection is not None and not waiter.stood:
        start_over(port, waiter)
    elif waiter.sent and stray not in waiter.request.strays:
        waiter.request.strays += (stray,)
    now = port.now()
    if now < until:
        return until
    log.info(
        "%r: still waiting, although the server does not answer: %s",
        waiter.request.keys.name,
        trouble,
    )
    return answer_by(port, now, give_up_at)


def _lined_up(port: Port, waiter: Waiter, reply: Reply, asked_at: float) -> None:
    now_us, pttl_ms, position, foreign = reply
    waiter.ahead = position
    waiter.answered(asked_at, now_us, port.now())
    with port.mutex():
        line = port.lines.join(waiter)
        if len(line.waiters) == 1:
            jitter = port.jitter()
            line.postpone(asked_at, pttl_ms, position, foreign=foreign == 1, jitter=jitter)
            if waiter.recalls:  # the message may be lost: a heartbeat repeats it
                line.heartbeat_at = min(line.heartbeat_at, asked_at + RECALL_SECONDS)


async def _wait(port: Port, waiter: Waiter, give_up_at: float) -> Grant | None:
    """Wait in line; None when the place must be asked for again, or time is up."""
    with port.mutex():
        line = port.lines.join(waiter)
    wait = entered(port, waiter, give_up_at)
    while True:
        await port.wait(waiter, min(line.bound(waiter), give_up_at, wait.due))
        now = port.now()
        if wait.cycle is not None and waiter.granted(now) is None:
            raise error_of(port, wait)
        if waiter.news:
            return waiter.granted(now)
        if now >= give_up_at:
            return None
        if now >= wait.due:
            look(port, wait, now)
        if now >= line.bound(waiter) and not await _looked(port, waiter, line, give_up_at):
            return None


async def _counted(port: Port, waiter: Waiter, grant: Grant, give_up_at: float) -> Grant | None:
    """Have replicas acknowledge a handed-over grant; None when it must be requested again."""
    if not grant.fence or grant.deadline <= port.now():
        return grant
    try:
        await port.flows.confirm(port, waiter, grant.deadline, give_up_at)
    except NoReply as broken:
        waiter.note(broken)
        if port.now() >= give_up_at:
            give_up(broken, waiter)
        return None
    return grant


async def _looked(port: Port, waiter: Waiter, line: Line, give_up_at: float) -> bool:
    """Send the heartbeat; False when there was no answer, and the request must be repeated."""
    try:
        await port.flows.heartbeat(port, min(give_up_at, port.now() + port.server_timeout), waiter)
    except NoReply as broken:
        waiter.note(broken)
    except ServerError as refused:
        if not passes(refused):
            raise
    else:
        return True
    line.heartbeat_at = 0.0
    return False


async def _leave(port: Port, waiter: Waiter) -> None:
    """Leave the line, and release what was granted at the last moment.

    The silence of a near server is not "held by others" (I12): OutcomeUnknown, and the caller
    undoes the request.
    """
    request = waiter.request
    undo = request.abandon(waiter.channel)
    until = port.now() + LEAVING_SECONDS
    try:
        await port.call(*undo, until, waiter)
    except NoReply as broken:
        if waiter.trip > LEAVING_SECONDS / 2:  # far away: the answer may be on its way
            port.run_in_background(*undo, broken.undo_connection)
            return
        raise OutcomeUnknown(
            f"{request.keys.name!r} was not granted in time, and the server does not answer:"
            f" {broken}"
        ) from broken.__cause__


async def acquire(
    port: Port,
    request: AcquireRequest,
    timeout: float | None,
    registry: HoldRegistry,
    unit: object = None,
    *,
    take: Callable[..., Awaitable[Any]] | None = None,
) -> Hold | None:
    """Acquire a lock, register its hold and track its lease; None when it was not granted in time.

    A timeout of 0 or less is one try, None waits for ever. A try without a timeout (below 0) gives
    a slow server time to answer; a timeout of 0 does not. ``unit`` is the calling thread or task.
    ``take`` is what asks for the lock, instead of the port's own.
    """
    at_once = timeout is not None and timeout <= 0
    give_up_at = FOR_EVER if timeout is None or timeout < 0 else port.now() + timeout
    # What ends at an instant is not granted after it.
    give_up_at = min(give_up_at, request.template.ends)
    if events.hooks and request.acquisition is None:
        events.requested(port, request, unit, waits=not at_once)
    if request.options.deadlock_after is not None:
        request.unit = unit
    try:
        hold: Hold | None = await (take or port.flows.take)(
            port, request, give_up_at, registry, unit, at_once
        )
        if request.acquisition is not None:
            tell(port, request, hold, give_up_at, at_once=at_once)
        return hold
    except FencelockError as error:
        describe_error(port, error, request.keys.name)
        events.failed(request, error)
        raise
    except BaseException as error:
        # A signal handler may raise anywhere, also after the grant, before a hold has it.
        if request.known:
            port.run_in_background(*release_call(request))
        events.failed(request, error)
        raise
    finally:
        if request.unit_wait is not None:
            left(port, request)


def tell(
    port: Port, request: AcquireRequest, hold: Hold | None, give_up_at: float, *, at_once: bool
) -> None:
    """Report how a request has ended, which raised nothing."""
    if hold is not None:
        request.acquisition.granted(hold)
    elif at_once or port.now() < give_up_at:
        request.acquisition.end(events.REFUSED)
    else:
        request.acquisition.end(events.TIMED_OUT)


def is_short(request: AcquireRequest, grant: Grant) -> bool:
    """Return True if a lease was handed over, and is to grow to the length that was asked for."""
    return grant.lease < request.ttl - ROUNDING_SECONDS


def begin(
    port: Port, request: AcquireRequest, grant: Grant, registry: HoldRegistry, unit: object
) -> Hold:
    """Make a grant a registered hold, and track its lease."""
    hold = registry.hold_type(
        port, request, grant.fence, min(grant.deadline, request.template.ends), unit
    )
    hold.short = is_short(request, grant)
    try:
        registry.add(hold)
        port.track(hold, first_due(hold, grant.lease, port.jitter(), hold.granted_at))
        if port.lines.closed:  # while it was granted: nothing would give it back
            raise closed()
    except BaseException:
        registry.remove(hold)
        retire(port, hold)
        port.run_in_background(*release_call(request, grant.fence))
        raise
    if port.lines.revoked:
        _revoked_before(port, hold)
    return hold


def _revoked_before(port: Port, hold: Hold) -> None:
    """Notify the holder of a revocation that came before its hold could be found."""
    with port.mutex():
        reason = port.lines.revoked.pop(hold.request.holder, None)
    if reason is not None:
        lose(port, hold, "revoked", port.now(), reason)
