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
- Waiting is bounded by ``give_up_at``, by the holder's lease and by the heartbeat (I6, I13).
"""

from __future__ import annotations

from fencelock._core.deadlines import validity
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.hold import Grant, Hold, HoldRegistry, first_due
from fencelock._core.lock.poll import poll
from fencelock._core.lock.release import request, retire, undo_strays
from fencelock._core.lock.request import AcquireRequest, Stray, too_late
from fencelock._core.lock.waiter import Waiter
from fencelock._core.lock.waiting import Line
from fencelock._core.port import Port
from fencelock._core.retry import PASSING, again, answer_by, give_up
from fencelock._core.types import NoReply, Reply
from fencelock._runtime.log import log
from fencelock.errors import FencelockError, OutcomeUnknown, ServerError

# A timed-out acquire may take this much longer to leave the line by itself: I13 allows 100 ms.
LEAVING_SECONDS = 0.06
FOR_EVER = float("inf")
# A lease may lose this much on the wire, which carries whole milliseconds.
ROUNDING_SECONDS = 0.001
NO_GRANT = b"0"  # of once_start.lua: it is done
# After this many grants that arrive already expired, raise: the ttl is shorter than the round trip.
LATE_GRANTS_MAX = 3


async def attempt(port: Port, want: AcquireRequest, give_up_at: float) -> Grant | None:
    """Ask once, without a place in line; None when the lock is held or others come first."""
    waiter = Waiter(want)
    try:
        grant = await line_up(port, waiter, give_up_at, listen=False)
        if grant is None or grant.deadline > port.now():
            return grant
        raise too_late(want)
    except BaseException:
        _undo(port, waiter)
        raise
    finally:
        port.close(waiter)


async def queue(
    port: Port,
    want: AcquireRequest,
    give_up_at: float,
    waiter: Waiter | None = None,
    *,
    outlasts: bool = True,
) -> Grant | None:
    """Stand in line until granted; None at ``give_up_at``.

    Asks, waits, and asks again whenever the place may be gone. A ``waiter`` that another request
    put in line begins with waiting. With ``outlasts``, a waiter in line retries until
    ``give_up_at`` while the server is unreachable, not only for ``server_timeout``.
    """
    placed = waiter is not None and waiter.stood
    waiter = waiter or Waiter(want)
    waiter.outlasts = outlasts
    late = 0
    try:
        while True:
            grant = None if placed else await port.flows.line_up(port, waiter, give_up_at)
            placed = False
            if grant is None:
                grant = await _wait(port, waiter, give_up_at)
                if grant is not None:
                    grant = await _counted(port, waiter, grant, give_up_at)
            if grant is not None and min(grant.deadline, want.form.ends) > port.now():
                return grant
            late += grant is not None
            if port.now() >= give_up_at:
                await _leave(port, waiter)
                undo_strays(port, want)
                return None
            if late == LATE_GRANTS_MAX:
                raise too_late(want)
            waiter.forget()
    except BaseException:
        _undo(port, waiter)
        undo_strays(port, want)
        raise
    finally:
        try:
            depart(port, waiter)
        except BaseException:  # Ctrl-C, perhaps before its first instruction
            depart(port, waiter)
            raise


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
    want = waiter.want
    with port.mutex():
        port.lines.give_up(want)
    port.run_in_background(*want.abandon(waiter.channel), waiter.path)


def start_over(port: Port, waiter: Waiter) -> None:
    """Undo a request that a silent connection may still deliver; continue with another id."""
    want = waiter.want
    waiter.want = want.rename()
    _undo(port, waiter)
    port.close(waiter)
    waiter.want, waiter.began, waiter.undo_connection = want, False, None


def late_grant(port: Port, who: bytes) -> None:
    """Release a grant that was pushed to a waiter that has given up."""
    with port.mutex():
        want = port.lines.gave_up(who)
    if want is not None:
        port.run_in_background(*want.abandon(b""))


async def line_up(
    port: Port, waiter: Waiter, give_up_at: float, *, listen: bool = True
) -> Grant | None:
    """Ask for the lock, and with ``listen`` for a place in line; None when it was not granted."""
    want = waiter.want
    asked_at = port.now()
    patient = give_up_at == FOR_EVER
    until = asked_at + port.server_timeout if patient else answer_by(port, asked_at, give_up_at)
    if waiter.tries:
        waiter.start()
    while True:
        try:
            if not port.open_now(waiter, listen=listen):
                await port.open(waiter, until, listen=listen)
                asked_at = port.now()
            waiter.began, waiter.undo_connection = True, None  # as ``begin``
            lasting = want.lasting(asked_at)
            reply = await port.run(want.acquire(waiter.channel), want.keys.lock, until, waiter)
            ends = asked_at + validity(lasting)
            if port.flows.confirms and isinstance(reply, bytes) and reply != NO_GRANT:
                await port.flows.confirm(port, waiter, ends, give_up_at)
        except (NoReply, ServerError) as trouble:
            until = await _once_more(port, waiter, trouble, until, give_up_at)
            asked_at = port.now()
            continue
        if isinstance(reply, bytes):
            return Grant(int(reply), ends, lasting)
        if listen:
            _lined_up(port, waiter, reply, asked_at)
        return None


async def _once_more(
    port: Port, waiter: Waiter, trouble: NoReply | ServerError, until: float, give_up_at: float
) -> float:
    """Return until when to ask again, once it is time for that; raise when time is up."""
    stays = waiter.stood and waiter.outlasts
    await again(port, trouble, max(until, give_up_at) if stays else until, waiter)
    stray = Stray(waiter.undo_connection, waiter.channel)
    if waiter.undo_connection is not None and not waiter.stood:
        start_over(port, waiter)
    elif waiter.sent and stray not in waiter.want.strays:
        waiter.want.strays += (stray,)
    now = port.now()
    if now < until:
        return until
    log.info(
        "%r: still waiting, although the server does not answer: %s", waiter.want.keys.name, trouble
    )
    return answer_by(port, now, give_up_at)


def _lined_up(port: Port, waiter: Waiter, reply: Reply, asked_at: float) -> None:
    now_us, pttl_ms, position, foreign = reply
    waiter.answered(asked_at, now_us, port.now())
    with port.mutex():
        line = port.lines.join(waiter)
        if len(line.waiters) == 1:
            jitter = port.jitter()
            line.postpone(asked_at, pttl_ms, position, foreign=bool(foreign), jitter=jitter)


async def _wait(port: Port, waiter: Waiter, give_up_at: float) -> Grant | None:
    """Wait in line; None when the place must be asked for again, or time is up."""
    with port.mutex():
        line = port.lines.join(waiter)
    while True:
        await port.wait(waiter, min(line.bound(waiter), give_up_at))
        now = port.now()
        if waiter.news:
            return waiter.granted(now)
        if now >= give_up_at:
            return None
        if now >= waiter.renew_elsewhere_at:
            await waiter.renew_elsewhere()
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
        if refused.code not in PASSING:
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
    want = waiter.want
    undo = want.abandon(waiter.channel)
    until = port.now() + LEAVING_SECONDS
    try:
        await port.call(*undo, until, waiter)
    except NoReply as broken:
        if waiter.trip > LEAVING_SECONDS / 2:  # far away: the answer may be on its way
            port.run_in_background(*undo, broken.undo_connection)
            return
        raise OutcomeUnknown(
            f"{want.keys.name!r} was not granted in time, and the server does not answer: {broken}"
        ) from broken.__cause__


async def acquire(
    port: Port,
    want: AcquireRequest,
    timeout: float | None,
    taker: HoldRegistry,
    unit: object = None,
) -> Hold | None:
    """Acquire a lock for the taker and track its lease; None when it was not granted in time.

    A timeout of 0 or less is one try, None waits for ever. A try without a timeout (below 0) gives
    a slow server time to answer; a timeout of 0 does not. ``unit`` is the calling thread or task.
    """
    at_once = timeout is not None and timeout <= 0
    give_up_at = FOR_EVER if timeout is None or timeout < 0 else port.now() + timeout
    give_up_at = min(give_up_at, want.form.ends)  # what ends at an instant is not granted after it
    try:
        return await port.flows.take(port, want, give_up_at, taker, unit, at_once)
    except FencelockError as error:
        describe_error(port, error, want.keys.name)
        raise
    except BaseException:
        # A signal handler may raise anywhere, also after the grant, before a hold has it.
        port.run_in_background(*request(want))
        raise


async def take(  # noqa: PLR0917 - as ``Flows.take``
    port: Port,
    want: AcquireRequest,
    give_up_at: float,
    taker: HoldRegistry,
    unit: object,
    at_once: bool,  # noqa: FBT001 - as above
) -> Hold | None:
    """Acquire a lock of one server, in line unless it is one try or the plain form."""
    if want.terms.plain:
        grant = await poll(port, want, give_up_at, tries=1 if at_once else None)
    elif at_once or want.once:
        grant = await attempt(port, want, give_up_at)
    else:
        grant = await queue(port, want, give_up_at)
    return None if grant is None else begin(port, want, grant, taker, unit)


def begin(
    port: Port, want: AcquireRequest, grant: Grant, taker: HoldRegistry, unit: object
) -> Hold:
    """Make a grant the taker's hold, and track its lease."""
    hold = taker.hold_type(port, want, grant.fence, min(grant.deadline, want.form.ends), unit)
    hold.short = grant.lease < want.ttl - ROUNDING_SECONDS
    try:
        taker.add(hold)
        port.track(hold, first_due(hold, grant.lease, port.jitter(), hold.granted_at))
    except BaseException:
        taker.remove(hold)
        retire(port, hold)
        port.run_in_background(*request(want, grant.fence))
        raise
    return hold
