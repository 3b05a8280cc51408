"""Ask, and wait: for an answer, for a turn of this client, and in the server's line.

Rules of this file:

- A grant that arrives already expired is no grant.
- A request on a connection that turned silent may still run. So it is undone on that connection at
  once, and repeated elsewhere with a new id: the undo cannot release what the new id is granted. A
  waiter in line keeps its id and its place; a stray grant is undone there when the hold has ended.
- A waiter in line that has time left retries while the server is unreachable. One that continues
  the question of another retries for ``server_timeout`` since it came, or since that question
  began, if that was later.
- If replicas must acknowledge a grant, it is reported only afterwards (see acknowledge.py). An
  answer with fence 0 is no grant (see once.py): it counts whatever the replicas have.
- A try waits for a moment where the holder's client may keep an idle lease: see tenure.py. It ends
  when that client answers that the lease is in use.
- An attempt whose first question is granted makes nothing for a wait.
- Waiting is bounded by ``give_up_at``, by the holder's lease and by the heartbeat (I6, I13).
- One waiter sends the heartbeat for all of its client, with one command, in a Cluster one for each
  slot of its node; ``Lines.due`` decides which lines it asks about (I7).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fencelock._core.deadlock.unit_waits import entered, waits_for_itself
from fencelock._core.lock.acknowledge import confirm
from fencelock._core.lock.acquire import begin, stand
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.long_waits import first_line_at, tell
from fencelock._core.lock.tenure import Tenure, left_behind
from fencelock._core.lock.terms import TRIES, too_late
from fencelock._core.lock.waiting import ALONE, RECALL_SECONDS, Due, Line
from fencelock._core.retry import give_up, passes
from fencelock._core.seat import Stray
from fencelock._core.types import Demoted, NoReply, PackedCall, Reply, closed
from fencelock._runtime.log import log
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import OutcomeUnknown, ServerError, ServerUnreachable
from fencelock.scripts import HEARTBEAT, packed

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# A timed-out acquire may take this much longer to leave the line by itself: I13 allows 100 ms.
LEAVING_SECONDS = 0.06
# A recalled lease may be waited for so much longer than the timeout: leaving takes its part.
RECALL_GRACE_SECONDS = 0.03
NO_GRANT = b"0"  # of once_start.lua: it is done
# After this many grants that arrive already expired, raise: the ttl is shorter than the round trip.
LATE_GRANTS_MAX = 3


async def line_up(
    port: Engine, asks: Attempt, give_up_at: float, *, listen: bool = True
) -> Grant | None:
    """Ask for the lock, and with ``listen`` for a place in line; None when it was not granted.

    Only one that may be in line keeps its connection.
    """
    began = now = port.now() if asks.answer is None else asks.arrived_at  # then it was asked
    patient = give_up_at == inf
    until = now + port.server_timeout if patient else port.answer_by(now, give_up_at)
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
        asks.refused_by(reply)
        return await _lined_up(port, asks, reply, give_up_at) if listen else None


async def _lined_up(port: Engine, asks: Attempt, reply: Reply, give_up_at: float) -> Grant | None:
    """Note the place in line; an attempt that asked without a channel got none, and asks again."""
    if not asks.channel:
        asks.eager = True
        return await line_up(port, asks, give_up_at)
    stand(port, asks, reply)
    return None


def counts(reply: Reply) -> bool:
    """Return True if an answer is a grant, which counts once replicas have acknowledged it."""
    return isinstance(reply, bytes) and reply != NO_GRANT


async def _once_more(
    port: Engine, asks: Attempt, trouble: NoReply | ServerError, until: float, give_up_at: float
) -> float:
    """Return until when to ask again, once it is time for that; raise when time is up."""
    stays = asks.stood and asks.outlasts
    await port.again(trouble, max(until, give_up_at) if stays else until, asks)
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
    return port.answer_by(now, give_up_at)


async def try_once(port: Engine, attempt: Hold) -> Grant | None:
    """Ask once, without a place in line; None when the lock is held or others come first."""
    began = port.now()
    attempt.asks = attempt
    grant = await line_up(port, attempt, attempt.give_up_at, listen=False)
    if grant is not None and grant.deadline <= port.now():
        raise too_late(attempt.ttl)
    attempt.saw(attempt.seen)
    if grant is not None or not attempt.recalls:
        return grant
    return await InLine(port, attempt).recalled(port.now() - began)


async def queue(port: Engine, attempt: Hold) -> Grant | None:
    """Ask, unless a place in line was answered, and stand there; None when the attempt gives up."""
    attempt.asks, grant = attempt, None
    if not attempt.placed:
        grant = await line_up(port, attempt, attempt.give_up_at, listen=not attempt.terms.topic)
    if grant is None or grant.deadline <= port.now():
        grant = await InLine(port, attempt).queue(grant)
    return grant


class InLine:
    """An attempt that waits: for its turn among those of its client, or in the server's line.

    What it asks is its own question, or one that another attempt left to it: if that has a place in
    line, it begins with waiting. Whatever this raises, ``Attempt.undo`` undoes.
    """

    __slots__ = ("asks", "attempt", "port")

    def __init__(self, port: Engine, attempt: Hold) -> None:
        self.port: Engine = port
        self.attempt: Hold = attempt
        self.asks: Attempt = attempt.asks or attempt

    async def queue(self, grant: Grant | None = None) -> Grant | None:
        """Stand in line until granted; None when the attempt gives up.

        Asks, waits, and asks again whenever the place may be gone. ``grant`` is what its first
        question was answered with, if it was asked.
        """
        port, attempt, asks, late = self.port, self.attempt, self.asks, 0
        while True:
            if grant is None and not asks.placed:
                grant = await line_up(port, asks, attempt.give_up_at)
            if grant is None:
                grant = await self._wait()
                if attempt.event is not None:
                    attempt.saw(asks.seen)
                if grant is not None and port.replicas is not None:
                    grant = await self._counted(grant)
            now = port.now()
            if grant is not None and min(grant.deadline, asks.terms.ends) > now:
                asks.depart(port)
                return grant
            late += grant is not None
            if asks.refused or now >= attempt.give_up_at:
                break
            if late == LATE_GRANTS_MAX:
                raise too_late(asks.ttl)
            asks.forget()
            grant = None
        attempt.saw(asks.seen)
        if not attempt.leaves(asks):
            await self._leave()
            attempt.saw(asks.seen)
            asks.depart(port)
        attempt.asks = None
        return None

    async def recalled(self, trip: float) -> Grant | None:
        """Wait a moment in line for a lease that was recalled; None when it is in use.

        The attempt has another id, by which the holder's client knows that it is to answer. Without
        an answer of the server, what it said before counts: the lock is held.
        """
        port, attempt = self.port, self.attempt
        attempt.undo_owed(port)
        attempt.rename(TRIES + attempt.id)
        attempt.sent = attempt.outlasts = False
        until = port.now() + RECALL_SECONDS + 4 * trip
        if attempt.give_up_at < inf:
            until = attempt.latest = min(attempt.give_up_at + RECALL_GRACE_SECONDS, until)
        attempt.give_up_at = until
        try:
            return await self.queue()
        except (OutcomeUnknown, ServerUnreachable):
            attempt.undo(port)
            return None

    async def _wait(self) -> Grant | None:
        """Wait in line; None when the place must be asked for again, or time is up."""
        port, attempt, asks = self.port, self.attempt, self.asks
        if attempt.event is not None:
            attempt.saw(asks.seen)
            attempt.event.must_wait(attempt.held_by, asks.ahead)
        line = port.lines.by_key.get(asks.terms.keys.lock)
        if line is None or asks not in line.waiters:  # an interrupt kept it out
            with port.mutex:
                line = port.lines.join(asks)
        wait, give_up_at = entered(port, attempt, asks), attempt.give_up_at
        tells_at = first_line_at(port, attempt)
        while True:
            await port.wait(asks, min(line.bound(asks), give_up_at, wait.due, tells_at))
            now = port.now()
            if wait.cycle is not None and asks.granted(now) is None:
                raise wait.error()
            if asks.news:
                return asks.granted(now)
            if now >= give_up_at:
                return None
            if now >= wait.due:
                wait.look(now)
            if now >= tells_at:
                tells_at = tell(port, attempt, now, attempt)
            if now >= line.bound(asks) and not await self._looked(line):
                return None

    async def _counted(self, grant: Grant) -> Grant | None:
        """Have replicas acknowledge a handed-over grant; None when it must be requested again."""
        port, asks, give_up_at = self.port, self.asks, self.attempt.give_up_at
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

    async def _looked(self, line: Line[Attempt]) -> bool:
        """Send the heartbeat; False when there was no answer, and the request must be repeated."""
        try:
            await self._send_heartbeat()
        except NoReply as broken:
            self.asks.note(broken)
        except ServerError as refused:
            if not passes(refused):
                raise
        else:
            return True
        line.heartbeat_at = 0.0
        return False

    async def _send_heartbeat(self) -> None:
        """Send the heartbeat of this client's lines at this node, one script for each slot.

        Raises the error of its own line; the waiters of other lines ask later by themselves.
        """
        port, own, asked_at = self.port, self.asks, self.port.now()
        here = port.node_of(own.key)
        with port.mutex:
            alive = own.terms.alive
            due = port.lines.due(asked_at, alive, own, lambda key: port.node_of(key) == here)
        (own_slot,) = port.by_slot([own.key], bytes)
        slots = port.by_slot(due, lambda each: each[1][0].key)
        if not slots:
            return
        requests = [self._heartbeat_of(dues) for dues in slots.values()]
        until = min(self.attempt.give_up_at, asked_at + port.server_timeout)
        answers = await port.run_packed(requests, until, own)
        for dues, answer in zip(slots.values(), answers, strict=True):
            if not isinstance(answer, Exception):
                for (line, waiters), row in zip(dues, answer[1:], strict=True):
                    self._learn(line, waiters, row, asked_at)
                    for each in waiters:
                        each.hear_of((answer[0], row[1]))
            elif isinstance(answer, ServerError) and not passes(answer):
                for line, _ in dues:
                    line.heartbeat_at, line.pause = asked_at, ALONE
        trouble = dict(zip(slots, answers, strict=True)).get(own_slot)
        alone = len(slots.get(own_slot, ())) == 1
        try:
            if isinstance(trouble, ServerError) and not (passes(trouble) or alone):
                await self._send_heartbeat()
            elif isinstance(trouble, Exception):
                raise trouble
        finally:
            del answer, answers, trouble

    def _heartbeat_of(self, due: Sequence[Due]) -> PackedCall:
        """Return the request that is these waiters' heartbeat, and asks for their places."""
        keys: list[bytes] = []
        args: list[bytes | int] = [self.port.client_channel]
        for _, waiters in due:
            keys += waiters[0].keys.grant
            args.append(len(waiters))
            args += [each.terms.entry(each, each.channel) for each in waiters]
            if waiters[0].terms.alive is HEARTBEAT:  # else no place is that of several
                said = [count for each in waiters if (count := each.count_waiting())]
                args += [len(said), *said]
        return packed(due[0][1][0].terms.alive, keys, args), keys[0]

    def _learn(
        self, line: Line[Attempt], waiters: list[Attempt], row: Reply, asked_at: float
    ) -> None:
        """Make waiters ask again that are not in line, or were granted without being notified.

        Asking again brings the full lease; of the lease that was found, little may be left.
        """
        port = self.port
        holder, _, pttl_ms, foreign, positions = row
        front = min((place for place in positions if place >= 0), default=0)
        jitter, crowd = port.jitter(), port.lines.foreign
        line.postpone(asked_at, pttl_ms, front, foreign=bool(foreign), jitter=jitter, crowd=crowd)
        for waiter, position in zip(waiters, positions, strict=True):
            if not waiter.news and (position < 0 or holder == waiter.holder_id):
                port.rouse((waiter,))

    async def _leave(self) -> None:
        """Leave the line, release what was granted at the last moment, and undo what is owed.

        The silence of a near server is not "held by others" (I12): OutcomeUnknown, and the caller
        undoes the request.
        """
        port, asks = self.port, self.asks
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
                asks.hear_of(reply[2:])
        except NoReply as broken:
            if asks.trip <= LEAVING_SECONDS / 2:
                raise OutcomeUnknown(
                    f"{asks.keys.name!r} was not granted in time, and the server does not answer:"
                    f" {broken}"
                ) from broken.__cause__
            # Far away: the answer may be on its way.
            port.run_in_background(*undo, broken.undo_connection)
        asks.undo_owed(port)

    # -- its turn among those of its client -------------------------------------------------------

    async def begin_turn(self) -> Hold | None:
        """Wait for the attempt's turn and begin it; None when time is up or nothing is granted.

        A try has a kept lease or none: see ``_try``.
        """
        port, attempt = self.port, self.attempt
        tenure: Tenure = attempt.tenure  # type: ignore[assignment]  # it has joined one
        if tenure.front is not attempt:
            if not await self._become_front(tenure):
                return None
            if tenure.spare is None and tenure.asks is None and port.now() >= attempt.give_up_at:
                tenure.succeed(attempt)
                return None
        spare = tenure.spare
        if spare is not None and spare.turn.deadline <= port.now():
            port.run_in_background(*spare.release)
            tenure.spare = tenure.asks = spare = None  # as a grant that has expired
        if spare is not None:
            grant: Grant | None = spare.turn
        elif attempt.at_once:
            grant = None
        else:
            left = tenure.asks
            attempt.introduce(port)  # unless it was: a lease that was kept has ended just now
            attempt.began_at = port.now()
            attempt.asks = self.asks = attempt if left is None else self._continued(left)
            attempt.local, attempt.news, attempt.connection = False, False, None
            grant = await self.queue()
        if grant is None:
            tenure.succeed(attempt)
            return None
        return begin(port, attempt, grant, spare)

    def _continued(self, asks: Attempt) -> Attempt:
        """Return the question that was left to it, with the time that is left for its answer."""
        if not asks.stood:  # no answer came yet
            began = max(self.attempt.arrived_at, asks.arrived_at, asks.began_at)
            asks.latest = began + self.port.server_timeout
            if asks.began and self.port.now() >= asks.latest:
                text = "no answer to the waiter that asked for all of this client"
                raise ServerUnreachable(text)
        asks.owed += left_behind(asks)
        return asks

    async def _become_front(self, tenure: Tenure) -> bool:  # noqa: C901 - one turn of the wait looks at all that may end it
        """Wait for the cohort; False when the time is up."""
        port, attempt = self.port, self.attempt
        give_up_at = attempt.give_up_at
        wait, asked = entered(port, attempt, attempt), None
        tells_at = first_line_at(port, attempt)
        while tenure.front is not attempt:
            if port.lines.closed:
                raise closed()
            now, front = port.now(), tenure.front
            over = now >= give_up_at
            if front is not None and (over or attempt.event is not None):
                attempt.saw(front.has_it(now))
            if over:
                return not tenure.leave(attempt)
            if attempt.event is not None:
                attempt.event.must_wait(attempt.held_by)
            if wait.cycle is not None:
                raise wait.error()
            if now >= tells_at:
                tells_at = tell(port, attempt, now, front)
            until = min(give_up_at, wait.due, tells_at)
            if front is not None and front.held:
                if now >= front.deadline:
                    tenure.succeed(front)
                    continue
                if give_up_at == inf and front is not asked and waits_for_itself(wait, front):
                    asked = front  # it may just have been revoked: the server knows
                    if await self._is_held(front):
                        raise wait.own_cycle(front)
                    continue
                until = min(until, front.deadline)
            if now >= wait.due:
                wait.look(now)
                continue
            await port.wait(attempt, until)
        wait.cycle = None  # the hold that it waited for is gone
        return True

    async def _is_held(self, front: Hold) -> bool:
        """Ask the server whether a hold is still there; False also when it cannot tell."""
        try:
            return await self.port.value_of(front.terms.keys) == front.holder_id
        except ServerError:
            return False
