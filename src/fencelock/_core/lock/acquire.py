"""Acquire a lock: at once, in line, or by polling.

Rules of this file:

- ``now`` is read before asking; the lease counts from there (I2).
- Whatever ends an acquire without a lease (timeout, error, cancellation, Ctrl-C) also gives up its
  place in line and its grant (I9): before it returns for a timeout, otherwise after the request.
- One ladder undoes, ``Attempt.undo``, in the outermost frame: the flows below raise, and leave it
  to that.
- A grant that arrives already expired is no grant.
- A request on a connection that turned silent may still run. So it is undone on that connection at
  once, and repeated elsewhere with a new id: the undo cannot release what the new id is granted. A
  waiter in line keeps its id and its place; a stray grant is undone there when the hold has ended.
- A waiter in line that has time left retries while the server is unreachable.
- If replicas must acknowledge a grant, it is reported only afterwards (see acknowledge.py). An
  answer with fence 0 is no grant (see once.py): it counts whatever the replicas have.
- A try waits for a moment where the holder's client may keep an idle lease: see tenure.py. It ends
  when that client answers that the lease is in use.
- Waiting is bounded by ``give_up_at``, by the holder's lease and by the heartbeat (I6, I13).
- One waiter sends the heartbeat for all of its client, with one command, in a Cluster one for each
  slot of its node; ``Lines.due`` decides which lines it asks about (I7).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from fencelock._core import events
from fencelock._core.deadlines import BATCHES
from fencelock._core.deadlock.unit_waits import entered, error_of, left, look
from fencelock._core.description import HeldBy
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.acknowledge import confirm
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold, first_due, lose_revoked
from fencelock._core.lock.long_waits import first_line_at
from fencelock._core.lock.long_waits import tell as tell_of_wait
from fencelock._core.lock.tenure import Spare, in_time, is_alone, join
from fencelock._core.lock.terms import TRIES, too_late
from fencelock._core.lock.waiting import ALONE, Due, Line
from fencelock._core.retry import again, answer_by, give_up, passes
from fencelock._core.seat import Stray
from fencelock._core.types import Call, Demoted, NoReply, Reply, closed
from fencelock._runtime.log import log
from fencelock._runtime.mutex import catch_up, put_off_work, undo
from fencelock._runtime.typed import TYPE_CHECKING, Any
from fencelock.errors import FencelockError, OutcomeUnknown, ServerError, ServerUnreachable
from fencelock.scripts import HEARTBEAT

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

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


async def try_once(port: Engine, attempt: Attempt) -> Grant | None:
    """Ask once, without a place in line; None when the lock is held or others come first."""
    began = port.now()
    attempt.asks = attempt
    grant = await line_up(port, attempt, attempt.give_up_at, listen=False)
    if grant is not None and grant.deadline <= port.now():
        raise too_late(attempt.ttl)
    attempt.saw(attempt.seen)
    if grant is not None or not attempt.recalls:
        return grant
    return await _recalled(port, attempt, port.now() - began)


async def _recalled(port: Engine, attempt: Attempt, trip: float) -> Grant | None:
    """Wait a moment in line for a lease that was recalled; None when it is in use.

    The attempt has another id, by which the holder's client knows that it is to answer. Without an
    answer of the server, what it said before counts: the lock is held.
    """
    attempt.undo_owed(port)
    attempt.rename(TRIES + attempt.id)
    attempt.sent = attempt.outlasts = False
    until = port.now() + RECALL_SECONDS + 4 * trip
    if attempt.give_up_at < FOR_EVER:
        until = attempt.latest = min(attempt.give_up_at + RECALL_GRACE_SECONDS, until)
    attempt.give_up_at = until
    try:
        return await queue(port, attempt)
    except (OutcomeUnknown, ServerUnreachable):
        attempt.undo(port)
        return None


async def queue(port: Engine, attempt: Attempt, grant: Grant | None = None) -> Grant | None:
    """Stand in line until granted; None when the attempt gives up.

    Asks, waits, and asks again whenever the place may be gone. What it asks is the attempt's own
    question, or one that another attempt left to it: if that has a place in line, it begins with
    waiting. ``grant`` is what its first question was answered with, if it was asked. Whatever it
    raises, ``Attempt.undo`` undoes.
    """
    asks = attempt.asks = attempt.asks or attempt
    give_up_at, late = attempt.give_up_at, 0
    while True:
        if grant is None and not asks.placed:
            grant = await line_up(port, asks, give_up_at)
        if grant is None:
            grant = await _wait(port, attempt, asks)
            attempt.saw(asks.seen)
            if grant is not None and port.replicas is not None:
                grant = await _counted(port, asks, grant, give_up_at)
        now = port.now()
        if grant is not None and min(grant.deadline, asks.terms.ends) > now:
            if asks.stood:
                asks.depart(port)
            return grant
        late += grant is not None
        if asks.refused or now >= give_up_at:
            break
        if late == LATE_GRANTS_MAX:
            raise too_late(asks.ttl)
        asks.forget()
        grant = None
    if not attempt.leaves(port, asks):
        await _leave(port, asks)
        attempt.saw(asks.seen)
        asks.depart(port)
    attempt.asks = None
    return None


async def line_up(
    port: Engine, asks: Attempt, give_up_at: float, *, listen: bool = True
) -> Grant | None:
    """Ask for the lock, and with ``listen`` for a place in line; None when it was not granted.

    Only one that may be in line keeps its connection.
    """
    began = now = port.now() if asks.answer is None else asks.arrived_at  # then it was asked
    patient = give_up_at == FOR_EVER
    until = now + port.server_timeout if patient else answer_by(port, now, give_up_at)
    until = asks.latest if asks.latest < until else until  # noqa: FURB136 - min() takes ten times as long
    if asks.tries:
        asks.start()
    while True:
        try:
            reply = asks.answer
            if reply is None:
                reply = await port.ask_for(asks, now, until, listen=listen)
            else:
                asks.answer = None
                if isinstance(reply, Exception):
                    try:
                        raise reply
                    finally:
                        del reply
            asks.asking = False
            if asks.waits_since:
                reply = asks.judged(reply)
            if port.replicas is not None and counts(reply):
                await confirm(port, asks, asks.sent_at + asks.terms.valid, give_up_at)
        except (NoReply, ServerError) as trouble:
            asks.asking = isinstance(trouble, NoReply) and trouble.sent  # it may arrive later
            until = max(until, min(began + port.server_timeout, give_up_at, asks.latest))
            until = await _once_more(port, asks, trouble, until, give_up_at)
            now = port.now()
            continue
        granted = isinstance(reply, bytes)
        if (asks.waits_since or port.replicas is not None) and (granted or not listen):
            port.close(asks)
        if granted:
            return asks.grant_of(reply)
        asks.recalls = reply[3] == RECALLABLE
        asks.seen = HeldBy.of(reply[0], reply[4])
        return await _lined_up(port, asks, reply, give_up_at) if listen else None


def counts(reply: Reply) -> bool:
    """Return True if an answer is a grant, which counts once replicas have acknowledged it."""
    return isinstance(reply, bytes) and reply != NO_GRANT


async def _once_more(
    port: Engine, asks: Attempt, trouble: NoReply | ServerError, until: float, give_up_at: float
) -> float:
    """Return until when to ask again, once it is time for that; raise when time is up."""
    stays = asks.stood and asks.outlasts
    await again(port, trouble, max(until, give_up_at) if stays else until, asks)
    stray = Stray(asks.undo_connection, asks.channel)
    if asks.undo_connection is not None and not asks.stood:
        asks.start_over(port)
    elif asks.sent and stray not in asks.owed:
        asks.owed += (stray,)
    now = port.now()
    if now < until:
        return until
    text = "%r: still waiting, although the server does not answer: %s"
    log.info(text, asks.keys.name, trouble)
    return answer_by(port, now, give_up_at)


async def _lined_up(port: Engine, asks: Attempt, reply: Reply, give_up_at: float) -> Grant | None:
    """Note the place in line; an attempt that asked without a channel got none, and asks again."""
    if not asks.channel:
        asks.eager = True
        return await line_up(port, asks, give_up_at)
    now_us, pttl_ms, position, foreign, _ = reply
    asked_at, asks.ahead = asks.sent_at, position
    if asks.outlasts:
        asks.latest = FOR_EVER  # a later answer has its own time
    asks.answered(asked_at, now_us, port.now())
    with port.mutex:
        line = port.lines.join(asks)
        if len(line.waiters) == 1:
            jitter = port.jitter()
            line.postpone(asked_at, pttl_ms, position, foreign=foreign == 1, jitter=jitter)
            if asks.recalls:  # the message may be lost: a heartbeat repeats it
                line.heartbeat_at = min(line.heartbeat_at, asked_at + RECALL_SECONDS)
    return None


async def _wait(port: Engine, attempt: Attempt, asks: Attempt) -> Grant | None:
    """Wait in line; None when the place must be asked for again, or time is up."""
    attempt.saw(asks.seen)
    if attempt.event is not None:
        attempt.event.must_wait(attempt.held_by, asks.ahead)
    with port.mutex:
        line = port.lines.join(asks)
    wait, give_up_at = entered(port, attempt, asks), attempt.give_up_at
    tells_at = first_line_at(port, attempt)
    while True:
        await port.wait(asks, min(line.bound(asks), give_up_at, wait.due, tells_at))
        now = port.now()
        if wait.cycle is not None and asks.granted(now) is None:
            raise error_of(port, wait)
        if asks.news:
            return asks.granted(now)
        if now >= give_up_at:
            return None
        if now >= wait.due:
            look(port, wait, now)
        if now >= tells_at:
            tells_at = tell_of_wait(port, attempt, now, attempt)
        if now >= line.bound(asks) and not await _looked(port, asks, line, give_up_at):
            return None


async def _counted(port: Engine, asks: Attempt, grant: Grant, give_up_at: float) -> Grant | None:
    """Have replicas acknowledge a handed-over grant; None when it must be requested again."""
    if not grant.fence or grant.deadline <= port.now():
        return grant
    try:
        await confirm(port, asks, grant.deadline, give_up_at)
    except NoReply as broken:
        asks.note(broken)
        if port.now() >= give_up_at:
            give_up(broken, asks)
        return None
    return grant


async def _looked(port: Engine, asks: Attempt, line: Line, give_up_at: float) -> bool:
    """Send the heartbeat; False when there was no answer, and the request must be repeated."""
    try:
        await heartbeat(port, min(give_up_at, port.now() + port.server_timeout), asks)
    except NoReply as broken:
        asks.note(broken)
    except ServerError as refused:
        if not passes(refused):
            raise
    else:
        return True
    line.heartbeat_at = 0.0
    return False


async def heartbeat(port: Engine, until: float, waiter: Attempt) -> None:
    """Send the heartbeat of this client's lines at the waiter's node, one script for each slot.

    Raises the error of the waiter's own line; the waiters of other lines ask later by themselves.
    """
    here = port.node_of(waiter.key)
    with port.mutex:
        alive = waiter.terms.alive
        due = port.lines.due(port.now(), alive, waiter, lambda key: port.node_of(key) == here)
    (own,) = port.by_slot([waiter.key], bytes)
    slots = port.by_slot(due, lambda each: each[1][0].key)
    if not slots:
        return
    asked_at = port.now()
    requests = [_request(port, dues) for dues in slots.values()]
    answers = await port.run_together(requests, until, waiter)
    for dues, answer in zip(slots.values(), answers, strict=True):
        if not isinstance(answer, Exception):
            for (line, waiters), row in zip(dues, answer[1:], strict=True):
                _learn(port, line, waiters, row, asked_at)
                seen = HeldBy.of(answer[0], row[1])
                for each in waiters:
                    each.seen = seen or each.seen
        elif isinstance(answer, ServerError) and not passes(answer):
            for line, _ in dues:
                line.heartbeat_at, line.pause = asked_at, ALONE
    trouble = dict(zip(slots, answers, strict=True)).get(own)
    try:
        if isinstance(trouble, ServerError) and not passes(trouble) and len(slots[own]) > 1:
            await heartbeat(port, until, waiter)
        elif isinstance(trouble, Exception):
            raise trouble
    finally:
        del answer, answers, trouble


def _request(port: Engine, due: Sequence[Due]) -> Call:
    """Return the request that is these waiters' heartbeat, and asks for their places."""
    keys: list[bytes] = []
    args: list[bytes | int] = [port.client_channel]
    for _, waiters in due:
        keys += waiters[0].keys.grant
        args.append(len(waiters))
        args += [each.terms.entry(each, each.channel) for each in waiters]
        if waiters[0].terms.alive is HEARTBEAT:  # else no place is that of several
            said = [count for each in waiters if (count := each.count_waiting())]
            args += [len(said), *said]
    return due[0][1][0].terms.alive, keys, args


def _learn(port: Engine, line: Line, waiters: list[Attempt], row: Reply, asked_at: float) -> None:
    """Make waiters ask again that are not in line, or were granted without being notified.

    Asking again brings the full lease; of the lease that was found, little may be left.
    """
    holder, _, pttl_ms, foreign, positions = row
    front = min((place for place in positions if place >= 0), default=0)
    jitter, crowd = port.jitter(), port.lines.foreign
    line.postpone(asked_at, pttl_ms, front, foreign=bool(foreign), jitter=jitter, crowd=crowd)
    for waiter, position in zip(waiters, positions, strict=True):
        if not waiter.news and (position < 0 or holder == waiter.holder_id):
            waiter.lose_place()
            port.wake(waiter)


async def _leave(port: Engine, asks: Attempt) -> None:
    """Leave the line, release what was granted at the last moment, and undo what is owed.

    The silence of a near server is not "held by others" (I12): OutcomeUnknown, and the caller
    undoes the request.
    """
    asks.abandoned = True
    undo = asks.terms.abandon(asks, asks.channel)
    until = port.now() + LEAVING_SECONDS

    async def once() -> Reply:
        if asks.path is None:  # a grant that had expired took its connection
            await port.open(asks, until, listen=False)
        return await port.call(*undo, until, asks)

    try:
        try:
            reply = await once()
        except Demoted:  # the line is at another server
            port.close(asks)
            asks.undo_connection = None
            reply = await once()
        if not asks.terms.plain:
            asks.seen = HeldBy.of(*reply[2:]) or asks.seen
    except NoReply as broken:
        if asks.trip <= LEAVING_SECONDS / 2:
            raise OutcomeUnknown(
                f"{asks.keys.name!r} was not granted in time, and the server does not answer:"
                f" {broken}"
            ) from broken.__cause__
        # Far away: the answer may be on its way.
        port.run_in_background(*undo, broken.undo_connection)
    asks.undo_owed(port)


async def acquire(
    port: Engine,
    attempt: Hold,
    timeout: float | None,
    *,
    take: Callable[[Any, Hold], Awaitable[Any]] | None = None,
) -> Hold | None:
    """Acquire a lock, register its hold and track its lease; None when it was not granted in time.

    A timeout of 0 or less is one try, None waits for ever. A try without a timeout (below 0) gives
    a slow server time to answer; a timeout of 0 does not. ``take`` is what asks for the lock,
    instead of the port's own.
    """
    try:
        if not attempt.arrived_at:  # else a port has begun it: see ``enter``
            start(port, attempt, timeout)
        hold = await (port.take(attempt) if take is None else take(port, attempt))
        if attempt.event is not None:
            tell(port, attempt, granted=hold is not None)
        return hold
    except BaseException as error:
        failed(port, attempt, error)
        raise
    finally:
        if attempt.wait is not None:
            left(port, attempt)


def start(port: Engine, attempt: Hold, timeout: float | None) -> None:
    """Begin a call, which hooks are notified of; it waits until an instant."""
    attempt.arrived_at = now = port.now()
    if timeout is not None:
        attempt.at_once = timeout <= 0
        if timeout >= 0:
            attempt.give_up_at = min(now + timeout, attempt.terms.ends)
    if events.hooks and attempt.event is None:
        events.requested(port, attempt, attempt.unit, waits=not attempt.at_once)


def enter(port: Engine, attempt: Hold) -> None:
    """Find its place in the client's table: alone, about to ask the server, or in a tenure.

    Neither of one that does not wait, and of the plain form. It is the first half of the usual
    acquire; the other one is ``answered``, or ``has_turn``. Flows connect the two, and where
    nothing is in the way, ports.
    """
    terms = attempt.terms
    if terms.plain or attempt.at_once or attempt.under is not None:
        return
    if terms.cohort is None or (not terms.linger and is_alone(port, attempt)):
        attempt.asks = attempt
    else:
        if put_off_work:  # perhaps what stands there was not undone
            catch_up()
        join(port, attempt)


def answered(port: Engine, attempt: Hold, answer: Any) -> bool:
    """Begin the lease if its first question was granted; else keep the answer for the flow.

    The answer may be an error, or None: it was not asked yet.
    """
    if type(answer) is bytes:
        attempt.asking = False
        grant = attempt.grant_of(answer)
        if grant.deadline > port.now():
            begin(port, attempt, grant)
            if attempt.event is not None:
                attempt.event.granted(attempt)
            return True
    attempt.answer = answer
    return False


def has_turn(port: Engine, attempt: Hold) -> bool:
    """Begin the turn of a lease that its client kept; False if it is to wait, or to ask."""
    tenure = attempt.tenure
    if tenure is None or tenure.front is not attempt:
        return False
    spare = tenure.spare
    if spare is None or not in_time(spare.turn, port.now()):
        return False
    begin(port, attempt, spare.turn, spare)
    if attempt.event is not None:
        attempt.event.granted(attempt)
    return True


def failed(port: Engine, attempt: Hold, error: BaseException) -> None:
    """Undo an attempt that raised, and complete its error.

    A signal handler may raise anywhere, also after the grant.
    """
    undo(port, type(attempt).undo, attempt, port)
    if isinstance(error, FencelockError):
        describe_error(port, error, attempt.keys.name)
    events.failed(attempt, error)


def tell(port: Engine, attempt: Hold, *, granted: bool) -> None:
    """Report how an attempt has ended, which raised nothing."""
    event = attempt.event
    if event is None:
        return
    if granted:
        event.granted(attempt)
        return
    refused = attempt.at_once or port.now() < attempt.give_up_at
    event.end(events.REFUSED if refused else events.TIMED_OUT, held_by=attempt.held_by)


def begin(port: Engine, hold: Hold, grant: Grant, spare: Spare | None = None) -> Hold:
    """Make a grant a registered hold, and track its lease.

    ``spare``: the turn that it was given, if its own question was not granted. In one section of
    the mutex the hold is scheduled, marked if it was revoked, and stands in the client's table as
    one that is held. Whatever this raises, ``undo`` ends what was begun.

    Leases of one handle and length that are granted within a sixtieth of it are due together, as
    their renewals would be, and so are the turns of one lease: nearly always it is known when.
    One that ends sooner than the first of them is due by itself.
    """
    terms, lines = hold.terms, port.lines
    fence, deadline, lease = grant
    hold.grant, asks, fresh = grant, hold.asks, True
    if spare is not None or asks is not hold:  # first: these are the ids by which it is undone
        fresh = _take_over(hold, asks, fence, spare)
    hold.start_lease(port, fence, deadline)
    now = hold.granted_at
    if lease < hold.ttl - ROUNDING_SECONDS:
        hold.short = True  # it was handed over, and is to grow
    length, end, when, until = terms.due
    if now >= until or length != lease or hold.deadline < end:
        when = _newly_due(port, hold, lease)
    with port.mutex:
        port.renewals.young[hold] = when
        if lines.revoked and hold.holder_id in lines.revoked:
            hold.last = True
        if hold.tenure is not None:
            hold.tenure.begin(hold, grant, fresh=fresh)
    if hold.last:
        revoked_before(port, hold)
    if hold.registry is not None:
        hold.registry.add(hold)
    port.attend(hold, when)
    if terms.linger and fresh and not port.hears:
        port.hear_soon()
    if lines.closed:  # while it was granted: nothing would give it back
        raise closed()
    return hold


def _take_over(hold: Hold, asks: Attempt | None, fence: int, spare: Spare | None) -> bool:
    """Have what becomes a hold go on under the ids by which the server knows its lease.

    Return True if the server granted that just now.
    """
    if spare is not None:
        hold.continues(spare.source)
        hold.unchanged, hold.turn = spare.unchanged, 0 if spare.fresh else fence
        return spare.fresh
    if asks is not None:
        hold.continues(asks)
    return True


def _newly_due(port: Engine, hold: Hold, lease: float) -> float:
    """Return when a hold is due, and have those of its handle that follow it be due together."""
    now, deadline = hold.granted_at, hold.deadline
    when = first_due(port, hold, lease, port.jitter(), now)
    if hold.steady:
        hold.terms.due = lease, deadline, when, now + lease / BATCHES
    return when


def revoked_before(port: Engine, hold: Hold) -> None:
    """Notify the holder of a revocation that came before its hold could be found."""
    with port.mutex:
        if hold.holder_id not in port.lines.revoked:
            return
        reason = port.lines.revoked.pop(hold.holder_id)
    lose_revoked(port, hold, reason)
