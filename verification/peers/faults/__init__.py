"""The faults: one function each, which plays it once on a stage and tells what it saw.

Rules of these files:

- A fault is the same for every library: nothing here knows which one it plays with.
- What a fault cannot be played with says so: ``NotImplementedError`` with the reason.
- Everything is deterministic but for the machine's own timing.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, NamedTuple

from verification.peers.columns import TASKS, THREADS
from verification.peers.seen import CAP_SECONDS, Seen
from verification.peers.stage import Stage, User, until

LONG = 60  # a ttl that no run sees the end of
SHORT = 2  # a ttl that a run waits out; python-redis-lock takes whole seconds
SLACK_SECONDS = 1.0
NEWS_SECONDS = 2.5  # within which a holder may yet be told


class Fault(NamedTuple):
    """A row of the table."""

    key: str
    title: str
    play: Callable[[Stage], Seen]
    faces: tuple[str, ...]
    args: tuple[str, ...]  # options of the server


FAULTS: list[Fault] = []


def fault(
    title: str, *, faces: tuple[str, ...] = (THREADS, TASKS), args: tuple[str, ...] = ()
) -> Callable[[Callable[[Stage], Seen]], Callable[[Stage], Seen]]:
    def add(play: Callable[[Stage], Seen]) -> Callable[[Stage], Seen]:
        FAULTS.append(Fault(play.__name__.replace("_", "-"), title, play, faces, args))
        return play

    return add


Answer = concurrent.futures.Future[dict[str, Any]]


def answer(asked: Answer, seconds: float = CAP_SECONDS) -> dict[str, Any] | None:
    """Return the answer to a call; None when it does not come."""
    try:
        return asked.result(seconds)
    except TimeoutError:
        return None


def judge_acquire(stage: Stage, user: User, told: dict[str, Any] | None, seen: Seen) -> None:
    """Judge what an acquire of a free lock told, and what it left behind."""
    if told is not None and told.get("result"):
        seen.wrong = stage.value() is None
        user.tell("release")
    elif told is not None:
        # Nobody else had it: "not acquired" hides that an answer was lost or was an error.
        seen.wrong = "error" not in told
        seen.remark = seen.remark or told.get("error", "")
    seen.orphan = stage.orphan()


def judge_holder(stage: Stage, holder: User, seen: Seen) -> None:
    """Somebody else was just granted the lock: does its former holder know? Whose does it free?"""
    seen.violation = holder.believes()
    how = _learned(holder, at_once=not seen.violation)
    holder.tell("stop")
    how = how or ("when it asks" if holder.tell("asks").get("result") is False else "")
    before = stage.value()
    release = holder.tell("release")
    if before is not None and stage.value() != before:
        seen.violation, seen.remark = True, "freed the next one's lock"
    disowned = release.get("error") in stage.column.disowns
    seen.learns = how or ("at release" if disowned else "not at all")


def _learned(holder: User, *, at_once: bool) -> str:
    if not at_once and not until(lambda: not holder.believes(), NEWS_SECONDS):
        return ""
    state = holder.tell("state")
    if state["told"] is not None and state["renews"] == "extend":
        return "by its next `extend()`"
    return "at once" if at_once else "soon"


def delay(told: dict[str, Any] | None, since: float) -> float:
    """Return how long after that instant a waiter was granted; infinite when it was not."""
    granted = told is not None and told.get("result")
    return max(told["at"] - since, 0.0) if told and granted else float("inf")
