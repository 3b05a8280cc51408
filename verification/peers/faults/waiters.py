"""What happens to those who wait: lost connections and wake-ups, death, cancellation."""

from __future__ import annotations

import time
from collections.abc import Callable

from verification.peers.columns import TASKS
from verification.peers.faults import CAP_SECONDS, LONG, SLACK_SECONDS, Answer, answer, delay, fault
from verification.peers.libraries import Use
from verification.peers.seen import Seen
from verification.peers.stage import GRACE_SECONDS, Stage, User

HOLD = Use(LONG)
WAIT = Use(LONG, timeout=CAP_SECONDS)
WAITS_SECONDS = 0.5  # after which a waiter waits, whatever its way
TURNS = range(0, 40, 2)


@fault("The connection of a waiter is reset, then the lock released")
def connection_killed(stage: Stage) -> Seen:
    holder, waiter = stage.user("holder", HOLD), stage.user("rival", WAIT, proxied=True)
    holder.must_acquire()
    asked = waiter.ask("acquire")
    time.sleep(WAITS_SECONDS)
    stage.proxy.drop_all("rst")
    time.sleep(WAITS_SECONDS)
    return _released(holder, asked)


@fault("The message that wakes a waiter is lost")
def wake_up_lost(stage: Stage) -> Seen:
    if stage.column.wakes is None:
        raise NotImplementedError("its waiters poll: there is no message")
    operation, action = stage.column.wakes
    holder, waiter = stage.user("holder", HOLD), stage.user("rival", WAIT, proxied=True)
    holder.must_acquire()
    stage.proxy.on(operation, action, then="rst")
    asked = waiter.ask("acquire")
    time.sleep(WAITS_SECONDS)
    return _released(holder, asked)


@fault("A waiter is killed in line: delay for the next")
def waiter_killed(stage: Stage) -> Seen:
    return _behind(stage, lambda first: first.actor.kill())


@fault("A waiter is frozen in line: delay for the next")
def waiter_frozen(stage: Stage) -> Seen:
    return _frozen(stage, WAIT)


@fault("The same, no renewal: the frozen waiter would have had a lease of 60 s")
def waiter_frozen_fixed(stage: Stage) -> Seen:
    return _frozen(stage, WAIT._replace(renew=False))


def _frozen(stage: Stage, use: Use) -> Seen:
    first = stage.user("first", use)
    try:
        return _behind(stage, lambda user: user.actor.freeze(), first)
    finally:
        first.actor.kill()


def _behind(
    stage: Stage, strike: Callable[[User], object], first: User | None = None, **how: bool
) -> Seen:
    holder, first = stage.user("holder", HOLD), first or stage.user("first", WAIT)
    second = stage.user("rival", WAIT)
    holder.must_acquire()
    first.ask("acquire", **how)
    time.sleep(WAITS_SECONDS)
    asked = second.ask("acquire")
    time.sleep(WAITS_SECONDS)
    strike(first)
    return _released(holder, asked)


def _released(holder: User, asked: Answer) -> Seen:
    """Release, and tell how long the waiter took."""
    seen = Seen()
    since = time.monotonic()
    holder.tell("release")
    told = answer(asked, CAP_SECONDS + SLACK_SECONDS)
    seen.hang = 0.0 if told else CAP_SECONDS + SLACK_SECONDS
    if told and "error" in told:
        seen.remark = told["error"]
    else:
        seen.delay = delay(told, since)
    return seen


@fault("Acquire is cancelled while its request is on the way", faces=(TASKS,))
def cancelled_request(stage: Stage) -> Seen:
    return _cancelled(stage, "delay_request")


@fault("Acquire is cancelled while its reply is on the way", faces=(TASKS,))
def cancelled_reply(stage: Stage) -> Seen:
    return _cancelled(stage, "delay_reply")


def _cancelled(stage: Stage, action: str) -> Seen:
    seen = Seen()
    user = stage.user("holder", WAIT, proxied=True)
    held = stage.proxy.on(stage.column.acquire, action)
    asked = user.ask("acquire", cancellable=True)
    held.wait()
    user.tell("cancel")
    told = answer(asked, GRACE_SECONDS)  # most end at once; who sees the answer first gets it now
    held.release()
    told = told or answer(asked) or {}
    if told.get("result"):
        user.tell("release")
        seen.remark = "acquired all the same"
    seen.orphan = stage.orphan()
    return seen


@fault("Acquire of a free lock is cancelled after 0, 2, … 38 turns of the loop", faces=(TASKS,))
def cancelled_at_turns(stage: Stage) -> Seen:
    seen = Seen()
    first = stage.user("holder", WAIT)
    names = {turns: f"{stage.name}-{turns}" for turns in TURNS}
    cancelled = []
    for turns, name in names.items():
        user = stage.another(first, WAIT, name)
        told = user.tell("acquire", turns=turns, cancellable=True)
        if told.get("result"):
            user.tell("release")
        else:
            cancelled.append(name)
    time.sleep(GRACE_SECONDS)
    left = [stage.left(name) for name in cancelled]
    seen.orphan = max(left, default=0.0)
    seen.count = (sum(map(bool, left)), len(cancelled))
    return seen


@fault("A waiter is cancelled in line: delay for the next", faces=(TASKS,))
def cancelled_in_line(stage: Stage) -> Seen:
    return _behind(stage, lambda first: first.tell("cancel"), cancellable=True)
