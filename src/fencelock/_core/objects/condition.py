"""Wait on a condition of a lock: release the lock, be notified, and acquire the lock again.

Rules of this file:

- One script releases the lock and joins the condition's line: no notification can be missed in
  between.
- A notified waiter moves to the end of the lock's own line, in order, and is granted by the
  ordinary handoff (I5): the waiter sends nothing for it.
- However a wait ends, by notification, timeout or cancellation, the lock is acquired again first,
  as in ``threading`` and ``asyncio``. Only a silent server, a lost lease or a second Ctrl-C ends
  the wait without the lock.
- No notification is wasted: a notified waiter that is cancelled passes it on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fencelock._core import events
from fencelock._core.attempt_log import AttemptLog
from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import ConditionKeys
from fencelock._core.lock.acquire import begin, depart, queue
from fencelock._core.lock.hold import Grant, Hold, HoldRegistry
from fencelock._core.lock.release import Take, lost_as, release_call, retire, undo_strays
from fencelock._core.lock.request import AcquireRequest, milliseconds
from fencelock._core.lock.waiter import Waiter
from fencelock._core.objects import state_wait
from fencelock._core.objects.state import ScriptCall, StateWaiter, WaitRules
from fencelock._core.port import Port
from fencelock._core.retry import ask, persist
from fencelock._core.types import Reply
from fencelock.errors import FencelockError
from fencelock.scripts import (
    CONDITION_CHECK,
    CONDITION_LEAVE,
    CONDITION_NOTIFY,
    CONDITION_WAIT,
)
from fencelock.scripts.constants import CONDITION_MARK

# A timeout of 0 releases the lock and acquires it again.
AT_ONCE = 1e-9
ALL = -1
# The waiter ids of conditions begin with this mark, so that the lock's line can tell them apart.
MARK = CONDITION_MARK.encode()
# Why a wait ended, unless it timed out.
NOTIFIED = "notified"
LOST = "lost"


class ConditionId(NamedTuple):
    """A condition of a lock; the ``title`` distinguishes several conditions of one lock."""

    keys: ConditionKeys
    name: str
    title: str = ""

    @property
    def topic(self) -> bytes:
        """Return the title as one word of a record."""
        return b"." + self.title.encode().hex().encode()


class Reacquirer(NamedTuple):
    """How the waiting party requests the lock again, and where its holds are registered."""

    request: Callable[[], AcquireRequest]
    registry: HoldRegistry


class ConditionWait(NamedTuple):
    """One wait: the hold that is released, and the request that acquires the lock again."""

    place: ConditionId
    hold: Hold
    request: AcquireRequest
    port: Port

    @property
    def key(self) -> bytes:
        """Return the key of the condition's line."""
        return self.place.keys.condition

    @property
    def name(self) -> str:
        """Return the lock's name."""
        return self.place.name

    @property
    def rules(self) -> WaitRules:
        """Return that a notified waiter has left the list; this file ends every other wait."""
        return WaitRules()

    def first(self, watcher: StateWaiter, asked_us: int) -> ScriptCall:
        """Release the lock, and wait."""
        del asked_us  # the entry shows whether the request ran before
        request, topic = self.request, self.place.topic
        entry = request.entry(watcher.channel)
        args = (self.hold.request.holder, request.client_channel, topic, entry, request.waiter)
        return ScriptCall(CONDITION_WAIT, self.place.keys.all, args)

    def check(self, watchers: list[StateWaiter]) -> ScriptCall:
        """Send the heartbeat of these waiters, and ask which of them still wait."""
        words: list[bytes] = [self.request.client_channel]
        for each in watchers:
            words += (_topic(each), each.request.entry(each.channel), each.request.waiter)
        return ScriptCall(CONDITION_CHECK, self.place.keys.all, words)

    def leave(self, watcher: StateWaiter, *, late: bool, shared: bool) -> ScriptCall:
        """End the wait: after a timeout, ``back`` to acquire the lock again; otherwise ``quit``.

        ``quit`` leaves both lines, passes on a notification, and releases what was granted.
        """
        del shared
        first = self.first(watcher, 0)
        how = b"back" if late else b"quit"
        return ScriptCall(CONDITION_LEAVE, first.keys, (*first.args, how))

    def learn(self, watcher: StateWaiter, reply: Reply) -> None:
        """Take an answer. The hold from before the wait has ended, whatever the answer says."""
        undo_strays(self.port, self.hold.request)
        now_us, waits, *revoked = reply
        if waits:
            watcher.gen = MARK
            watcher.answered(watcher.asked_at, now_us, watcher.asked_at + watcher.trip)
        elif revoked:
            watcher.verdict, watcher.place = LOST, revoked[0]
        else:
            watcher.verdict = NOTIFIED
        if watcher.verdict != LOST:
            events.end_hold(self.hold)

    def hear(self, watcher: StateWaiter, outcome: bytes) -> None:
        """Do nothing: conditions get no messages other than grants."""


def _topic(watcher: StateWaiter) -> bytes:
    wait = watcher.signal
    return wait.place.topic if isinstance(wait, ConditionWait) else b""


class ConditionWaiter(StateWaiter):
    """A waiter in a condition's line: the grant of the lock is the notification."""

    doubts = False  # ``_stand`` requests it

    def hear(self, fence: int, granted_us: int, lease_ms: int) -> None:
        """Take a pushed grant."""
        super().hear(fence, granted_us, lease_ms)
        self.verdict = NOTIFIED


@describes_errors
async def wait(
    port: Port,
    place: ConditionId,
    take: Take,
    timeout: float | None,
    asker: Reacquirer,
) -> bool:
    """Release the hold that ``take`` takes out, wait, and acquire the lock again for the asker.

    Returns False when no notification came in time. Raises what ``take`` raises, LeaseLost when the
    lease had ended before, and errors of the server; then the lock is not held.
    """
    taken: list[Hold] = []
    wanted = asker.request()
    wanted.waiter = wanted.holder = MARK + wanted.waiter
    notified = resumed = began = False

    async def then(_: StateWaiter) -> None:
        nonlocal notified, resumed
        notified = waiter.verdict == NOTIFIED or await _late(port, wait, waiter)
        events.end_hold(taken[0])  # if the grant came before the answer
        if events.hooks:
            events.requested(port, wanted, taken[0].unit, waits=True)
        _resume(port, wait.hold, wanted, await _stand(port, waiter, placed=notified), asker)
        waiter.began, resumed = False, True  # nothing is left to undo

    try:
        take(taken)
        hold = taken[0]
        _end_tenure(port, hold)
        wait = ConditionWait(place, hold, wanted, port)
        waiter = ConditionWaiter(wait, wanted)
        patient = None if timeout is None else max(AT_ONCE, timeout)
        try:
            await state_wait.wait_for(port, wait, patient, then, waiter)
        finally:
            began = waiter.began
    except BaseException as error:  # a signal handler may raise anywhere
        events.failed(wanted, error)
        for hold in taken:
            events.end_hold(hold, error)
        if taken and not resumed:
            await _interrupted(port, taken[0], wanted, asker, error, began=began)
        raise
    finally:
        for hold in taken:
            undo_strays(port, hold.request)
    return notified


async def _interrupted(
    port: Port,
    hold: Hold,
    wanted: AcquireRequest,
    asker: Reacquirer,
    error: BaseException,
    *,
    began: bool,
) -> None:
    """Undo the wait; after a cancellation, acquire the lock again first."""
    _leave_cohort(port, hold)  # the interrupt may have come before it
    with port.mutex():
        port.lines.give_up(wanted)
    if not began and not hold.forked:  # nothing was sent, so nothing undoes it
        retire(port, hold)
        port.run_in_background(*release_call(hold.request, hold.fence))
    if not isinstance(error, (FencelockError, GeneratorExit)):
        await _return(port, hold, asker)


def _end_tenure(port: Port, hold: Hold) -> None:
    """Stop renewing before the lock is released; raise when the lease has ended already."""
    lost = hold.lost
    retire(port, hold)
    _leave_cohort(port, hold)
    if lost:
        raise hold.lost_error()


def _leave_cohort(port: Port, hold: Hold) -> None:
    """Have the next waiter of this client ask the server; a second call does no harm."""
    if hold.cohort is not None:
        hold.cohort.succeed(port, hold)


async def _late(port: Port, wait: ConditionWait, waiter: ConditionWaiter) -> bool:
    """Leave the condition's line; return True if the waiter was notified at the last moment."""
    if waiter.verdict == LOST:
        return _lost(port, wait, waiter)
    question = wait.leave(waiter, late=True, shared=False)
    until = port.now() + port.server_timeout
    return bool(await persist(port, lambda: port.call(*question, until), until, AttemptLog()))


def _lost(port: Port, wait: ConditionWait, waiter: ConditionWaiter) -> bool:
    """Raise LeaseLost, unless an earlier request of this wait released the lock."""
    if waiter.sent and port.now() < wait.hold.deadline:
        return True
    raise lost_as(port, wait.hold, waiter.place)


async def _stand(port: Port, waiter: ConditionWaiter, *, placed: bool) -> Grant:
    """Wait in the lock's line until it is granted, without a timeout, as ``threading`` does."""
    waiter.news = waiter.pushed is not None
    try:
        if placed and port.flows.open_in_line(port, waiter):
            with port.mutex():
                line = port.lines.join(waiter)
                line.heartbeat_at = line.heartbeat_at or port.now() + HEARTBEAT_SECONDS
        return await _granted(port, waiter.request, waiter)
    except BaseException:  # before ``queue`` was entered, which leaves the line itself
        depart(port, waiter)
        raise


async def _granted(port: Port, request: AcquireRequest, waiter: Waiter | None = None) -> Grant:
    while True:
        grant = await queue(port, request, state_wait.FOR_EVER, waiter)
        if grant is not None:  # it has no timeout
            return grant


def _resume(
    port: Port, before: Hold, request: AcquireRequest, grant: Grant, asker: Reacquirer
) -> None:
    """Make the hold after the wait: a new lease, with the count and owner of the one before.

    It is for the thread or task that held before: ``asyncio.wait_for`` waits in a task of its own.
    """
    hold = begin(port, request, grant, asker.registry, before.unit)
    if request.acquisition is not None:
        request.acquisition.granted(hold)
    hold.count, hold.bound = before.count, before.bound
    hold.body, hold.cancelling = before.body, before.cancelling


async def _return(port: Port, before: Hold, asker: Reacquirer) -> None:
    """Acquire the lock again after a cancellation, with a fresh request: the other was undone.

    A further cancellation does not end this, as in ``asyncio.Condition``; a second Ctrl-C does.
    """
    while True:
        wanted = asker.request()
        if events.hooks:
            events.requested(port, wanted, before.unit, waits=True)
        try:
            _resume(port, before, wanted, await _granted(port, wanted), asker)
        except (FencelockError, GeneratorExit, KeyboardInterrupt, SystemExit) as error:
            events.failed(wanted, error)
            raise
        except BaseException as error:  # noqa: BLE001 - the caller raises the first one
            events.failed(wanted, error)
            continue
        return


@describes_errors
async def notify(port: Port, place: ConditionId, hold: Hold, n: int) -> int:
    """Move the first ``n`` waiters to the lock's line; LeaseLost when the hold has ended."""
    hold.check()
    args = (hold.request.holder, place.topic, n, port.new_id(), milliseconds(port.server_timeout))
    until = port.now() + port.server_timeout
    moved: int = await ask(port, CONDITION_NOTIFY, place.keys.all, args, until)
    if moved < 0:
        raise lost_as(port, hold, b"" if moved == -1 else None)
    return moved
