"""How long a lone client waits for a lock that many threads of another process take in turn."""

from __future__ import annotations

import random
from statistics import median
from time import monotonic, sleep
from typing import NamedTuple

from contest import LEAD_SECONDS, Contest, name_of, probe, shared_page, take_part
from contestants import OURS, STRICT, THREADS, plant
from crew import Crew, Who, pairs
from report import Result

from cases import Setting

BOUND_MS = 5.0  # of a cohort, by default
WORK_SECONDS = 0.0002  # of the busy threads, in each turn
PAUSE_SECONDS = (0.001, 0.01)  # of the lone client, between two turns; random
BUSY, LONE = 0, 1  # the two processes
BUSY_THREADS = (2, 16)


class Waits(NamedTuple):
    """How long the lone client waited, in ms: as a rule, for most, and at worst."""

    median: float
    most: float
    worst: float

    def __str__(self) -> str:
        return f"median {self.median:.2f}, 99 % {self.most:.2f}, worst {self.worst:.2f} ms"


# --- in the workers -------------------------------------------------------------------------------


def busy(worker: int, contest: Contest) -> None:
    take_part(worker, contest)


def lone(who: Who, lock: str, begin: float, end: float) -> list[float]:
    """Acquire and release again and again; return how long each acquire took."""
    (pair,) = pairs(who, lock, 1)
    pause = random.Random(1)
    taken = []
    sleep(max(0.0, begin - monotonic()))
    while monotonic() < end:
        before = monotonic()
        pair.acquire()
        taken.append(monotonic() - before)
        pair.release()
        sleep(pause.uniform(*PAUSE_SECONDS))
    return taken


# --- the case -------------------------------------------------------------------------------------


def case(setting: Setting) -> list[Result]:
    """Beside 16 busy threads and beside two, with cohorts and without, in turns."""
    with Crew(2) as crew, shared_page() as page:
        for name in (OURS, STRICT):
            crew.all(probe, setting.who(name, THREADS))
        handoff = median(_waits(setting, crew, STRICT, 1, page))
        return [_beside(setting, crew, threads, page, handoff) for threads in BUSY_THREADS]


def _beside(setting: Setting, crew: Crew, threads: int, page: str, handoff: float) -> Result:
    taken: dict[str, list[float]] = {OURS: [], STRICT: []}
    order = random.Random(1)
    for _ in range(setting.rounds(10, 3)):
        names = [OURS, STRICT]
        order.shuffle(names)
        for name in names:
            taken[name] += _waits(setting, crew, name, threads, page)
    return _row(threads, {name: told(each) for name, each in taken.items()}, handoff * 1e3)


def _waits(setting: Setting, crew: Crew, name: str, threads: int, page: str) -> list[float]:
    """Return how long the lone client waited each time, of one round."""
    who, seconds = setting.who(name, THREADS), setting.rounds(4, 1)
    lock = name_of(who)
    plant(name, who.address, lock)
    begin = monotonic() + LEAD_SECONDS
    end = begin + seconds
    contest = Contest(who, lock, threads, page, begin, end, WORK_SECONDS)
    crew.send(BUSY, busy, BUSY, contest)
    crew.send(LONE, lone, who, lock, begin, end - LEAD_SECONDS)
    crew.result(BUSY)
    waits: list[float] = crew.result(LONE)
    return waits


def told(taken: list[float]) -> Waits:
    ordered = sorted(taken)
    return Waits(median(ordered) * 1e3, ordered[len(ordered) * 99 // 100] * 1e3, ordered[-1] * 1e3)


def _row(threads: int, waits: dict[str, Waits], handoff_ms: float) -> Result:
    """The floor is the strict form; what counts is how much longer than with it."""
    ours, strict = waits[OURS], waits[STRICT]
    longer = Waits(*(mine - theirs for mine, theirs in zip(ours, strict, strict=True)))
    at_most = BOUND_MS + handoff_ms
    return Result(
        case="worst-delay" if threads == max(BUSY_THREADS) else f"worst-delay, {threads} threads",
        unit="ms that a lone client waits",
        ours=ours.median,
        floor=strict.median,
        peers={},
        ratio_to_floor=ours.median / strict.median,
        ratio_to_best_peer=None,
        target="at worst <= the bound and a handoff more than strict, which is the floor",
        met=longer.worst <= at_most,
        details={
            "cohort": str(ours),
            "strict": str(strict),
            "longer": str(longer),
            "longer at worst, in handoffs": round(longer.worst / handoff_ms, 1),
            "the bound and a handoff": f"{at_most:.2f} ms, of which the handoff {handoff_ms:.2f}",
        },
    )
