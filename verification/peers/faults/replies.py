"""Requests and replies that get lost, come late, or are errors."""

from __future__ import annotations

from typing import Any

from verification.peers.faults import (
    CAP_SECONDS,
    LONG,
    SLACK_SECONDS,
    answer,
    fault,
    judge_acquire,
    judge_holder,
)
from verification.peers.libraries import Use
from verification.peers.seen import Seen
from verification.peers.stage import FOR_EVER, Stage, until

FULL = "OOM command not allowed when used memory > 'maxmemory'."


@fault("The reply of acquire is lost, the connection reset (timeout 2 s)")
def acquire_reply_lost(stage: Stage) -> Seen:
    return _reply_lost(stage, Use(LONG, timeout=2))


@fault("The same for a single try")
def try_reply_lost(stage: Stage) -> Seen:
    return _reply_lost(stage, Use(LONG))


def _reply_lost(stage: Stage, use: Use) -> Seen:
    seen = Seen()
    user = stage.user("holder", use, proxied=True)
    lost = stage.proxy.on(stage.column.acquire, "drop_reply", then="rst")
    asked = user.ask("acquire")
    lost.wait()
    judge_acquire(stage, user, answer(asked), seen)
    return seen


@fault("The reply of acquire is lost, the connection stays silent (timeout 2 s)")
def acquire_silence(stage: Stage) -> Seen:
    seen = Seen()
    user = stage.user("holder", Use(LONG, timeout=2), proxied=True)
    lost = stage.proxy.on(stage.column.acquire, "drop_reply", then="silence")
    asked = user.ask("acquire")
    lost.wait()
    told = answer(asked)
    seen.hang = hang(stage, told, 2)
    judge_acquire(stage, user, told, seen)
    return seen


@fault("The reply of acquire comes after the ttl, when another client was granted the lock")
def acquire_reply_late(stage: Stage) -> Seen:
    seen = Seen()
    late = stage.user("holder", Use(1, renew=False), proxied=True)
    rival = stage.user("rival", Use(LONG, timeout=4))
    held = stage.proxy.on(stage.column.acquire, "delay_reply")
    asked = late.ask("acquire")
    held.wait()
    until(stage.value, 1.0)  # the request ran, its reply waits
    granted = rival.must_acquire()
    held.release()
    told = answer(asked) or {"error": "no answer within 8 s"}
    # Who did not wait for the reply, asked again, and was granted first had an ordinary lease.
    if told.get("result") and told["at"] > granted["at"]:
        judge_holder(stage, late, seen)
    seen.learns = ""
    seen.remark = seen.remark or told.get("error", "")
    return seen


@fault("The server answers acquire with an error (out of memory)")
def acquire_error(stage: Stage) -> Seen:
    seen = Seen()
    user = stage.user("holder", Use(LONG, timeout=2), proxied=True)
    stage.proxy.on(stage.column.acquire, "error", text=FULL, times=1000)
    judge_acquire(stage, user, answer(user.ask("acquire")), seen)
    return seen


@fault("The reply of release is lost, the connection reset")
def release_reply_lost(stage: Stage) -> Seen:
    return _release_lost(stage, "drop_reply")


@fault("The request of release is lost, the connection reset")
def release_request_lost(stage: Stage) -> Seen:
    return _release_lost(stage, "drop_request")


def _release_lost(stage: Stage, action: str) -> Seen:
    if not stage.column.release:
        raise NotImplementedError("a release closes a connection: there is no request")
    seen = Seen()
    user = stage.user("holder", Use(LONG), proxied=True)
    user.must_acquire()
    lost = stage.proxy.on(stage.column.release, action, then="rst")
    asked = user.ask("release")
    lost.wait()
    told = answer(asked) or {"error": "no answer within 8 s"}
    seen.wrong = told.get("error") in stage.column.disowns
    seen.remark = told.get("error", "")
    seen.orphan = stage.orphan()
    return seen


@fault("The server forgets its scripts while the lock is held (`SCRIPT FLUSH`)")
def script_flush(stage: Stage) -> Seen:
    seen = Seen()
    user = stage.user("holder", Use(LONG))
    user.must_acquire()
    stage.server.command("SCRIPT", "FLUSH")
    told = user.tell("release")
    seen.wrong = told.get("error") in stage.column.disowns
    seen.remark = told.get("error", "")
    seen.orphan = stage.orphan()
    return seen


@fault("The server is frozen: acquire with a timeout of 1 s")
def frozen_server(stage: Stage) -> Seen:
    seen = Seen()
    user = stage.user("holder", Use(LONG, timeout=1))
    stage.server.pause()
    asked = user.ask("acquire")
    told = answer(asked)
    stage.server.resume()
    seen.hang = hang(stage, told, 1)
    told = told or answer(asked)  # a server that answers again ends it
    judge_acquire(stage, user, told, seen)
    return seen


def hang(stage: Stage, told: dict[str, Any] | None, timeout: float) -> float:
    """Return how long an acquire took when that was too long; else 0.

    Who counts tries instead of seconds has no bound to keep, but has to end.
    """
    took = FOR_EVER if told is None else told["took"]
    bound = timeout + SLACK_SECONDS if stage.column.timed else CAP_SECONDS
    return took if took > bound else 0.0
