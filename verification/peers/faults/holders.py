"""What happens to holders: killed, frozen, too slow, forked, or forgotten by the server."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from verification.peers.faults import (
    CAP_SECONDS,
    LONG,
    SHORT,
    SLACK_SECONDS,
    answer,
    delay,
    fault,
    judge_holder,
)
from verification.peers.libraries import Use
from verification.peers.seen import Seen
from verification.peers.stage import Stage, until


@fault("The holder is killed; ttl 2 s, renewal on")
def killed(stage: Stage) -> Seen:
    """How long until the next one has it; beyond the ttl and a second it is an orphan."""
    seen = Seen()
    holder = stage.user("holder", Use(SHORT))
    rival = stage.user("rival", Use(LONG, timeout=CAP_SECONDS))
    holder.must_acquire()
    asked = rival.ask("acquire")
    holder.actor.kill()
    since = time.monotonic()
    seen.delay = delay(answer(asked, CAP_SECONDS + SLACK_SECONDS), since)
    seen.orphan = stage.orphan() if seen.delay == float("inf") else 0.0
    return seen


@fault("The holder is killed; the library's default ttl")
def killed_by_default(stage: Stage) -> Seen:
    """The key's ttl is read, not waited for; a lease that ends is no orphan."""
    seen = Seen()
    holder = stage.user("holder", Use(None))
    holder.must_acquire()
    holder.actor.kill()
    left = stage.left()
    if left == float("inf"):
        seen.orphan = stage.orphan()
    else:
        seen.delay = left
    return seen


@fault("The holder is frozen beyond its lease, then resumed; ttl 2 s, renewal on")
def frozen(stage: Stage) -> Seen:
    seen = Seen()
    holder = stage.user("holder", Use(SHORT))
    rival = stage.user("rival", Use(LONG, timeout=CAP_SECONDS))
    holder.must_acquire()
    working = holder.ask("work")
    holder.actor.freeze()
    rival.must_acquire()
    holder.actor.thaw()
    judge_holder(stage, holder, seen)
    answer(working)
    return seen


@fault("Work of 5 s under a lease of 2 s, renewal on")
def long_work_renewed(stage: Stage) -> Seen:
    seen = Seen()
    holder = stage.user("holder", Use(SHORT))
    if not holder.tell("state")["renews"]:
        raise NotImplementedError("neither renews by itself nor offers a call")
    rival = stage.user("rival", Use(LONG, timeout=4))
    holder.must_acquire()
    working = holder.ask("work")
    if (answer(rival.ask("acquire")) or {}).get("result"):
        judge_holder(stage, holder, seen)
    else:
        holder.tell("stop")
        answer(working)
        seen.remark = holder.tell("release").get("error", "")
    return seen


@fault("Work longer than a lease of 1 s, no renewal")
def long_work_fixed(stage: Stage) -> Seen:
    seen = Seen()
    holder = stage.user("holder", Use(1, renew=False))
    rival = stage.user("rival", Use(LONG, timeout=4))
    holder.must_acquire()
    rival.must_acquire()
    judge_holder(stage, holder, seen)
    return seen


@fault("The server is restarted without its data; ttl 2 s, renewal on")
def restarted(stage: Stage) -> Seen:
    """No lock on one server can exclude here; what counts is whether the holder is told in time."""
    seen = Seen()
    holder = stage.user("holder", Use(SHORT))
    holder.must_acquire()
    working = holder.ask("work")
    stage.server.kill()
    stage.server.restart()
    stage.user("rival", Use(LONG, timeout=2)).must_acquire()
    told = until(lambda: not holder.believes(), SHORT)
    judge_holder(stage, holder, seen)
    if told:
        seen.learns = "notified within its ttl"
    answer(working)
    return seen


@fault("The holder forks, and the child releases")
def forked(stage: Stage) -> Seen:
    seen = Seen()
    holder = stage.user("holder", Use(LONG))
    holder.must_acquire()
    before = stage.value()
    child = holder.tell("fork")["child"]
    gone = until(lambda: not _runs(child), 3.0)
    seen.violation = stage.value() != before
    if not gone:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        seen.remark = "the child hangs"
    return seen


def _runs(pid: int) -> bool:
    """Return True if a process that is not our child runs; its parent does not reap it."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - a path of the kernel's
            return file.read().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False
