"""Acquire a lock: how each acquisition begins and ends, whatever is asked in between.

Rules of this file:

- ``now`` is read before asking; the lease counts from there (I2).
- Whatever ends an acquire without a lease (timeout, error, cancellation, Ctrl-C) also gives up its
  place in line and its grant (I9): before it returns for a timeout, otherwise after the request.
- One ladder undoes, ``Attempt.undo``, in the outermost frame: the flows below raise, and leave it
  to that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fencelock._core import events
from fencelock._core.deadlines import BATCHES
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold, first_due, lose_revoked
from fencelock._core.lock.tenure import Spare, join
from fencelock._core.types import Reply, closed
from fencelock._runtime.mutex import catch_up, put_off_work, undo
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import FencelockError

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# A lease may lose this much on the wire, which carries whole milliseconds.
ROUNDING_SECONDS = 0.001


async def acquire(
    port: Engine,
    attempt: Hold,
    timeout: float | None,
    *,
    take: Callable[[Hold], Awaitable[Hold | None]] | None = None,
) -> Hold | None:
    """Acquire a lock, register its hold and track its lease; None when it was not granted in time.

    A timeout of 0 or less is one try, None waits for ever. A try without a timeout (below 0) gives
    a slow server time to answer; a timeout of 0 does not. ``take`` is what asks for the lock,
    instead of the port's own.
    """
    try:
        if not attempt.arrived_at:  # else a port has begun it: see ``enter``
            start(port, attempt, timeout)
        hold = await (take or port.take)(attempt)
        if attempt.event is not None:
            tell(port, attempt, granted=hold is not None)
        return hold
    except BaseException as error:
        failed(port, attempt, error)
        raise
    finally:
        if attempt.wait is not None:
            attempt.wait.end()


def start(port: Engine, attempt: Hold, timeout: float | None) -> None:
    """Begin a call, which hooks are notified of; it waits until an instant."""
    attempt.arrived_at = now = port.now()
    if timeout is not None:
        attempt.at_once = timeout <= 0
        if timeout >= 0:
            attempt.give_up_at = min(now + timeout, attempt.terms.ends)
    if events.hooks and attempt.event is None:
        events.requested(port, attempt, waits=not attempt.at_once)


def enter(port: Engine, attempt: Hold) -> None:
    """Find its place in the client's table: alone, about to ask the server, or in a tenure.

    Neither of one that does not wait, and of the plain form. It is the first half of the usual
    acquire; the other one is ``answered``, or ``has_turn``. Flows connect the two, and where
    nothing is in the way, ports.
    """
    terms = attempt.terms
    if terms.plain or attempt.at_once or attempt.nested_in is not None:
        return
    alone = terms.cohort is None
    if not (alone or terms.linger):
        with port.mutex:
            alone = port.lines.cohorts.setdefault(terms.cohort, attempt) is attempt
    if alone:
        attempt.asks = attempt
        return
    if put_off_work:  # perhaps what stands there was not undone
        catch_up()
    join(port, attempt)


def answered(port: Engine, attempt: Hold, answer: Reply | Exception) -> bool:
    """Begin the lease if its first question was granted; else the flow goes on from the answer.

    That is a place in line, or kept for it: an error, or None, as it was not asked yet.
    """
    if type(answer) is bytes:
        attempt.asking = False
        grant = attempt.grant_of(answer)
        if grant.deadline > port.now():
            begin(port, attempt, grant)
            if attempt.event is not None:
                attempt.event.granted(attempt)
            return True
    if type(answer) is list and attempt.channel:
        attempt.asking = False
        attempt.refused_by(answer)
        stand(port, attempt, answer)
    else:
        attempt.answer = answer
    return False


def stand(port: Engine, asks: Attempt, reply: Reply) -> None:
    """Note the place in line that a question was answered with."""
    with port.mutex:
        port.lines.enter(asks, reply, port.now(), port.jitter())


def has_turn(port: Engine, attempt: Hold) -> bool:
    """Begin the turn of a lease that its client kept; False if it is to wait, or to ask."""
    tenure = attempt.tenure
    if tenure is None or tenure.front is not attempt:
        return False
    spare = tenure.spare
    if spare is None or spare.turn.deadline <= port.now():
        return False
    begin(port, attempt, spare.turn, spare)
    if attempt.event is not None:
        attempt.event.granted(attempt)
    return True


def has_grant(port: Engine, attempt: Hold) -> bool:
    """Begin the lease that was pushed to one in line; False if it is to wait, or to ask again."""
    now = port.now()
    grant = attempt.granted(now)
    if grant is None or grant.deadline <= now or attempt.terms.ends <= now:
        return False
    attempt.depart(port)
    begin(port, attempt, grant)
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
        port.renewals.unplaced[hold] = when
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
        hold.unchanged = spare.unchanged
        if spare.fresh:
            return True
        hold.turn = fence
        return False
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
