"""Release a lock.

Rules of this file:

- Renewal ends before the release is sent (I11), and the lease proves nothing from then on: the next
  waiter may be granted, whatever becomes of the answer.
- A release whose answer was lost is repeated. "Not the holder" then means that the first one ran,
  as long as the lease was proved when it was first sent (I4).
- Only the ids of this acquisition are used: no other client's grant can be released.
- A repeated request may still arrive on its first connection. Whatever ends the hold undoes that,
  too (``undo_owed``), after the release: the undo takes whatever the id has.
"""

from __future__ import annotations

from collections.abc import Callable

from fencelock._core import events
from fencelock._core.error_messages import describe_error, describes_errors
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import SHARES, milliseconds
from fencelock._core.retry import passes
from fencelock._core.seat import Seat
from fencelock._core.types import DEMOTED, Call, Carrier, Reply
from fencelock._runtime.mutex import undo
from fencelock._runtime.typed import TYPE_CHECKING, TypeAlias, TypeVarTuple
from fencelock.errors import (
    FencelockError,
    LeaseLost,
    QuorumNotReached,
    ServerError,
    ServerUnreachable,
)
from fencelock.scripts import LEAVE, SHARES_LEAVE

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

Of = TypeVarTuple("Of")
# Moves a hold from where it is kept into a list, and appends it there first: a signal handler may
# raise between any two bytecodes, and a hold in neither place would never be released.
Take: TypeAlias = "Callable[[*Of, list[Hold]], bool | None]"
# Of release.lua: the owner holds, but this acquisition of it was released already.
ELSEWHERE = -2


async def release(port: Engine, hold: Hold) -> int:
    """Release a hold; see ``take_and_release``."""
    return await take_and_release(port, lambda taken: taken.append(hold))


def end_lease(port: Engine, hold: Hold) -> bytes:
    """End a lease here, and return the packed request that releases it; LeaseLost if it was lost.

    The first half of the usual release: an answer of 1 is all that the other half asks for.
    """
    lost = hold.lost
    hold.retire(port)
    tenure = hold.tenure  # read now: others may have come meanwhile
    if tenure is not None and tenure.front is hold:
        tenure.succeed(hold)
    if lost:
        if not (hold.forked or hold.closed):  # the server may still hold our key: release it
            port.run_in_background(*hold.terms.release(hold))
        raise hold.lost_error()
    return hold.terms.packed_release(hold)


async def take_and_release(
    port: Engine,
    take: Take[*Of],
    *of: *Of,
    taken: list[Hold] | None = None,
    reply: Reply = None,
    until: float = 0.0,
) -> int:
    """Release the hold that ``take`` takes out, and return how many an explicit owner has left.

    ``take`` is called with ``of``, and then the list. Raises what ``take`` raises, LeaseLost when
    the lease had ended before, and OutcomeUnknown or ServerUnreachable when no answer came: then,
    as after a cancellation, the release is repeated in the background, and the lease expires at the
    latest. ``taken`` is what was taken out before, with what its release was answered, and
    ``until`` the instant by which it is to end then.
    """
    taken, log = [] if taken is None else taken, Seat()
    try:
        if not taken:
            take(*of, taken)
        left = await port.give_back(taken[0], log, reply, until)
    except BaseException as error:
        not_released(port, taken, error, log.undo_connection)
        raise
    finish(port, taken)
    return left


def finish(port: Engine, taken: list[Hold]) -> None:
    """Finish what a release has ended; nothing of it is left to do then."""
    for hold in taken:
        if hold.owed or hold.parts:
            port.clean_up(hold)
        if hold.reported:  # each release comes here: without a hook not even a call
            events.end_hold(hold)
    taken.clear()


def not_released(
    port: Engine, taken: list[Hold], error: BaseException, undo_connection: Carrier | None = None
) -> None:
    """Release in the background what a release that raised has not, and complete its error."""
    undo(port, _undo, port, taken, error, undo_connection)


def _undo(
    port: Engine, taken: list[Hold], error: BaseException, undo_connection: Carrier | None
) -> None:
    for hold in taken:
        if isinstance(error, FencelockError):
            describe_error(port, error, hold.terms.keys.name)
        if settled(error):
            events.end_hold(hold, error)
        else:
            hold.release_in_background(port, undo_connection, error)
    finish(port, taken)


def settled(error: BaseException) -> bool:
    """Return True if an error is an answer, so that a retry would change nothing.

    "Not now" is none, nor is a replica's refusal: its master may answer. A majority that did not
    confirm is one: the nodes without an answer are retried already.
    """
    refused = isinstance(error, ServerError) and not isinstance(error, ServerUnreachable)
    later = passes(error) or getattr(error, "code", "") in DEMOTED
    return (refused and not later) or isinstance(error, (LeaseLost, QuorumNotReached))


@describes_errors
async def release_for_owner(port: Engine, one: Attempt) -> int | None:
    """Release one hold of an explicit owner, whichever handle acquired it.

    If it has a fence, only a hold of that tenure is released.
    Returns how many are left, or None when the owner holds nothing. Raises like ``ask``.
    """
    until = port.now() + port.server_timeout
    key = one.terms.keys.grant[4]  # the ids of its holds, in a stable order
    for asker in sorted(await port.read((b"SMEMBERS", key), one.terms.keys.lock)):
        script, keys, args = one.terms.release(one, asker)
        verdict, extra = verdict_of(await port.ask(script, keys, args, until))
        if verdict >= 0:
            return int(extra)
        if verdict != ELSEWHERE:
            break
    return None


def verdict_of(reply: Reply) -> tuple[int, Reply]:
    """Return the verdict of ``release.lua`` or ``poll_release.lua``, and what goes with it."""
    if isinstance(reply, int):
        return (reply, 0) if reply > 0 else (-1, None if reply else b"")
    verdict, extra = reply
    return verdict, extra


def leaving(hold: Hold, seconds: float) -> Call:
    """Return the request that releases what was granted so long from now; of no explicit owner."""
    script = SHARES_LEAVE if hold.kind == SHARES else LEAVE
    return script, hold.terms.keys.all, (hold.holder_id, milliseconds(seconds))


@describes_errors
async def leave(port: Engine, hold: Hold, seconds: float) -> None:
    """Release a hold so long from now: its lease goes on under an id that no client has.

    So no renewal that is under way revives it (I15). For its holder it ends at once. Raises like
    ``ask``, and then repeats it in the background, and LeaseLost when it had ended before.
    """
    hold.check()
    hold.retire(port)
    call, answered = leaving(hold, seconds), False
    try:
        reply = await port.ask(*call)
        answered = True
        judge(port, hold, reply, repeated=False)
    finally:
        if not answered:
            port.run_in_background(*call)
        port.clean_up(hold)
        events.end_hold(hold)


def lost_as(port: Engine, hold: Hold, word: bytes | None) -> LeaseLost:
    """Return the error for a lease that the server refused to release, and record its loss.

    ``word`` is the script's answer: an operator's reason, empty if another client holds the lock,
    None if none does.
    """
    reason = "expired" if word is None else "revoked" if word else "taken"
    since = min(port.now(), hold.deadline)
    hold.lose(reason, since, (word or b"").decode(), releasing=port)
    return hold.lost_error()


def judge(port: Engine, hold: Hold, reply: Reply, *, repeated: bool) -> int:
    """Return how many an explicit owner has left; raise LeaseLost for "not the holder".

    Unless the request was repeated: then the first one ran.
    """
    verdict, extra = verdict_of(reply)
    if verdict < 0 and not repeated:
        raise lost_as(port, hold, extra if verdict == -1 else b"")
    return extra if isinstance(extra, int) else 0
