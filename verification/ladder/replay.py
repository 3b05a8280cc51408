"""Replays the schedules on real servers."""

from dataclasses import dataclass
from typing import Any

from tests.servers import ServerBinary
from verification.ladder import ours
from verification.ladder.chart import run
from verification.ladder.real import actual
from verification.ladder.rung import SCRIPTS, Break
from verification.ladder.rungs import RUNGS
from verification.runs.shims import why_not

# A machine may be so busy that a lease ends before its time in the schedule: then once more.
TRIES = 3


@dataclass(frozen=True)
class Replayed:
    """What a replay showed; ``same``: the same break, by the same answers."""

    same: bool
    words: str


def all_breaks() -> list[tuple[str, Break]]:
    """Return every schedule with the name of its version."""
    found = [(rung.name, each) for rung in RUNGS for each in rung.breaks]
    return [*found, *(("fencelock, what remains", each) for each in ours.REMAINS)]


def possible(how: Break) -> bool:
    """Return True if this machine can replay it: a clock that jumps needs Linux and a compiler."""
    return "jump" not in how.faults or not why_not()


def replay(how: Break, binary: ServerBinary | None = None) -> Replayed:
    """Replay a schedule on real servers, again when the machine was too slow for it."""
    words = ""
    for _ in range(TRIES):
        with actual(how, SCRIPTS, binary) as servers:
            judge = run(how.world(servers), how.path)
            differ: list[Any] = [line for each in servers for line in vars(each)["differences"]]
        broken = how.wanted in judge.broken
        words = "the same" if broken else "did not break"
        words = f"differs: {differ[0]}" if differ else words
        if broken and not differ:
            return Replayed(same=True, words=words)
    return Replayed(same=False, words=words)
