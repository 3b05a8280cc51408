"""Acquire and release a lock in turn with the other waiters of this client; see tenure.py.

Rules of this file (I3, I5):

- A waiter asks the server only as the front of its tenure. What it leaves behind, its place in line
  or a request under way, is the next waiter's: that one repeats the request with the same id.
- The id of a lease is undone or released by the front alone, and never after it was passed on.
- A release beyond the cohort's bound asks for the next waiter's place with the same command. If
  that fails, the release is repeated alone, and the next waiter asks by itself.

Of the plain form, ``SET NX PX`` and a compare-and-delete:

- Only the lock's own key is touched; there is no order of arrival and no fence.
- ``SET NX`` is not idempotent: when its answer is lost, the key is released before another try.
- Nothing is taken before a client's first release was answered: without ``EVALSHA`` it could not be
  renewed or released.
- Whatever ends a try without a lease releases the key (I9).
"""

from __future__ import annotations

from math import inf

from fencelock._core.deadlines import validity
from fencelock._core.lock.acknowledge import confirm
from fencelock._core.lock.acquire import begin, enter
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.in_line import InLine, line_up, queue, try_once
from fencelock._core.lock.long_waits import first_line_at, tell
from fencelock._core.lock.release import ELSEWHERE, end_lease, judge, release_for_owner, verdict_of
from fencelock._core.lock.tenure import Spare, Tenure, found, try_kept
from fencelock._core.lock.terms import milliseconds, too_late
from fencelock._core.seat import Seat
from fencelock._core.types import NoReply, Reply
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import OutcomeUnknown, ServerError, ServerUnreachable
from fencelock.scripts import POLL_RENEW

if TYPE_CHECKING:
    from fencelock._core.engine import Engine


async def take(port: Engine, attempt: Hold) -> Hold | None:
    """Acquire a lock of one server, in line unless it is one try or the plain form.

    Nearly always no other attempt of this client wants it.
    """
    if attempt.asks is None and attempt.tenure is None:
        enter(port, attempt)
    if attempt.asks is None:
        alone = attempt.tenure is None
        return await (_try(port, attempt) if alone else InLine(port, attempt).begin_turn())
    grant = await queue(port, attempt)
    if grant is None:
        attempt.step_down(port)
        return None
    return begin(port, attempt, grant)


async def _try(port: Engine, attempt: Hold) -> Hold | None:
    """Acquire without a place in line: by a kept lease, or else by one try or the plain form.

    The lease of a try may be kept, too.
    """
    terms = attempt.terms
    may_keep = attempt.at_once and terms.linger > 0
    if may_keep:
        tenure = try_kept(port, attempt)
        if tenure is not None:
            hold = await InLine(port, attempt).begin_turn()
            if hold is not None:
                return hold
        attempt.tenure = None
        attempt.introduce(port)
    grant = await (poll if terms.plain else try_once)(port, attempt)
    if grant is None:
        return None
    if may_keep:
        found(port, attempt)
    return begin(port, attempt, grant)


async def poll_once(port: Engine, attempt: Attempt) -> Grant | None:
    """Try the plain form once: SET NX PX on the lock's key, nothing else.

    SET NX is not idempotent: when its answer is lost, the key is released before another try.
    """
    until = port.answer_by(port.now(), attempt.give_up_at)
    attempt.start()
    attempt.began = attempt.sent = False  # what is known of one try is of no later one
    attempt.undo_connection, attempt.asks = None, attempt

    async def once() -> tuple[float, Reply]:
        if attempt.undo_connection is not None:
            attempt.start_over(port)
        await port.open(attempt, until, listen=False)
        attempt.begin()
        if attempt.sent:
            await port.call(*attempt.terms.release(attempt), until, attempt)
        if not port.lines.renews:  # a ServerError unless this client may renew what it takes
            # Of an id that holds nothing: it changes nothing, whenever it runs.
            await port.call(POLL_RENEW, attempt.keys.plain, (port.new_id(), 1), until, attempt)
            port.lines.renews = True
        asked_at = port.now()
        lasting = milliseconds(attempt.lasting(asked_at).lease)
        command = (b"SET", attempt.keys.lock, attempt.holder_id, b"NX", b"PX", lasting)
        reply = await port.command(command, attempt.keys.lock, until, attempt)
        if reply is not None:
            await confirm(port, attempt, asked_at + validity(attempt.ttl), attempt.give_up_at)
        return asked_at, reply

    asked_at, reply = await port.persist(once, until, attempt)
    port.close(attempt)
    if reply is None:
        attempt.asks = None
        return None
    grant = Grant(0, asked_at + validity(attempt.ttl), attempt.ttl)
    if grant.deadline > port.now():
        return grant
    raise too_late(attempt.ttl)


async def poll(port: Engine, attempt: Attempt) -> Grant | None:
    """Retry until the lock is free; None at ``give_up_at``, or after one try or ``max_tries``.

    The pause varies by a quarter, so that pollers that started together do not stay together.
    """
    left = 1 if attempt.at_once else attempt.terms.options.max_tries
    tells_at = first_line_at(port, attempt)
    while True:
        grant = await poll_once(port, attempt)
        if grant is not None:
            return grant
        left = None if left is None else left - 1
        if left != 0:
            if attempt.event is not None:
                attempt.event.must_wait()
            again_at = port.now() + attempt.terms.options.interval * (0.875 + port.jitter() / 4)
            await port.sleep(min(again_at, attempt.give_up_at))
            if port.now() >= tells_at:
                tells_at = tell(port, attempt, port.now(), attempt)
        if left == 0 or port.now() >= attempt.give_up_at:
            break
    # Raise WRONGTYPE for a key of another kind: SET NX says nil for that, too.
    key = attempt.keys.lock
    await port.read((b"GET", key), key, port.now())
    return None


def _hand_on(port: Engine, giver: Hold, asks: Attempt, spare: Spare | None = None) -> None:
    """Give the next attempt a question, or its answer; undo it when none waits."""
    tenure = giver.tenure
    if tenure is not None and tenure.succeed(giver, asks, spare, keeps=True):
        return
    asks.withdraw(port)
    if tenure is not None:
        tenure.succeed(giver)


async def give_back(
    port: Engine, hold: Hold, log: Seat, reply: Reply = None, until: float = 0.0
) -> int:
    """Release a hold of one server: to the next of its cohort, or to the line.

    ``reply`` is what was answered, or the error, if the request was sent, which is repeated
    ``until`` an instant: see ``end_lease``.
    """
    offered, until = False, until or port.now() + port.server_timeout
    if reply is None:
        tenure: Tenure | None = hold.tenure
        if tenure is not None and (tenure.waiting or tenure.linger):
            if tenure.retain(hold):
                return 0
            left = await _ask_for_next(port, hold, tenure, log)
            if left is not None:
                return left
        offered = hold.released  # by a hand-over that is under way: it may have released
        request = end_lease(port, hold)
        try:
            reply = await port.run(request, hold.terms.keys.lock, until)
        except (NoReply, ServerError) as trouble:
            reply = trouble
    if isinstance(reply, (NoReply, ServerError)):
        await port.again(reply, until, log)
        reply = await port.ask(*hold.terms.release(hold), until, asked=log)
    if reply == 1:
        return 0
    if verdict_of(reply)[0] == ELSEWHERE and not log.sent:
        others = await release_for_owner(port, hold)
        if others is not None:
            return others
    return judge(port, hold, reply, repeated=log.sent or offered)


async def _ask_for_next(port: Engine, hold: Hold, tenure: Tenure, log: Seat) -> int | None:
    """Have the command that releases ask for the next waiter of this client.

    None when the hold is to be released alone.
    """
    asks = None if hold.lost or hold.terms.topic else tenure.for_next(hold)
    if asks is None:
        return None
    hold.retire(port)
    try:
        grant, spare = await line_up(port, asks, inf), None
        if grant is not None:  # by the command that released, unless that was repeated
            spare = Spare(asks, grant, fresh=True, unchanged=asks.verdict == 1)
        _hand_on(port, hold, asks, spare)
    except ServerError as error:
        if asks.verdict is None:
            log.sent = True  # it may have run
            if isinstance(error, (OutcomeUnknown, ServerUnreachable)):
                raise
            return None
    finally:  # it finishes what an interrupt left half done
        _hand_on(port, hold, asks)
    return judge(port, hold, asks.verdict, repeated=asks.sent)
