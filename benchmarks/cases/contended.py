"""Many want one lock: how often it changes hands, and whether everybody gets it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from contest import Tally, hold, probe, shared_page
from contestants import ALL_OURS, OURS, STRICT, TASKS, THREADS, TOKENS
from crew import Crew
from measure import Samples, alternate
from report import Measure, Result, result

from cases import Setting, muster

RATE = Measure("acquisitions/s", rate=True)
FAIR = 1.1
WARM_SECONDS = 0.2


class Wanted(NamedTuple):
    """The workers of each process that want the lock, and the target rate, in token lists."""

    face: str
    processes: int
    workers: int
    at_least: float


def threads(setting: Setting) -> list[Result]:
    """16 threads in two processes; each stands in line by itself."""
    return _case(setting, "contended-2p8t", STRICT, Wanted(THREADS, 2, 8, 0.5))


def tasks(setting: Setting) -> list[Result]:
    """100 tasks of one loop; each stands in line by itself."""
    return _case(setting, "contended-asyncio-100", STRICT, Wanted(TASKS, 1, 100, 0.8))


def cohort_threads(setting: Setting) -> list[Result]:
    """16 threads in two processes, by default: the threads of a process take turns."""
    return _case(setting, "cohort-2p8t", OURS, Wanted(THREADS, 2, 8, 2.0))


def cohort_tasks(setting: Setting) -> list[Result]:
    """100 tasks of one loop, by default: they take turns."""
    return _case(setting, "cohort-asyncio-100", OURS, Wanted(TASKS, 1, 100, 6.0))


def _case(setting: Setting, case: str, ours: str, wanted: Wanted) -> list[Result]:
    """Compare the strict form with the peers, and the default with the strict form."""
    tallies: dict[str, list[Tally]] = {}
    seconds = 0.5 if setting.quick else 1.0
    with Crew(wanted.processes) as crew, shared_page() as page:
        strict = ours == STRICT
        present, absent = muster(crew, setting, wanted.face, probe) if strict else ([], {})

        def measure(name: str) -> float:
            who = setting.who(name, wanted.face)
            tally = hold(crew, who, wanted.workers, seconds, page)
            tallies.setdefault(name, []).append(tally)
            return seconds / max(1, sum(tally.turns))

        always = () if strict else (STRICT,)
        for name in (TOKENS, ours, *always):  # connections are made once
            hold(crew, setting.who(name, wanted.face), wanted.workers, WARM_SECONDS, page)
        plan = setting.plan(7, 2, short=False, rarely_every=3, always=always)
        samples = alternate(measure, TOKENS, ours, present, plan)

    row = result(case, RATE, samples, TOKENS, absent=absent, ours=ours)
    row.target = f">= {wanted.at_least}x {TOKENS}"
    row.met = bool(row.ratio_to_floor and row.ratio_to_floor >= wanted.at_least)
    if not strict:
        row.details["x strict"] = round(1 / samples.ratio(ours, STRICT), 2)
    row.details.update(overlaps(tallies))
    return [row, _fairness(case, ours, samples, tallies, absent)]


def overlaps(tallies: dict[str, list[Tally]]) -> dict[str, Any]:
    """Tell who had two inside at once; that voids a contestant's numbers."""
    broken = {name: sum(one.overlaps for one in told) for name, told in tallies.items()}
    return {"mutual exclusion broken, times": {name: n for name, n in broken.items() if n}}


def _fairness(
    case: str, ours: str, samples: Samples, tallies: dict[str, list[Tally]], absent: dict[str, str]
) -> Result:
    """The second row of a contended case: most turns over fewest, handovers, longest waits."""

    def median(name: str, what: Callable[[Tally], float]) -> float:
        return statistics.median(map(what, tallies[name]))

    most = {name: median(name, lambda one: one.fairness) for name in samples.costs}
    share = {name: median(name, lambda one: one.handed_over) for name in samples.costs}
    longest = {name: median(name, lambda one: one.longest) for name in samples.costs}
    peers = {name: value for name, value in most.items() if name not in {*ALL_OURS, TOKENS}}
    best = min(peers, key=peers.__getitem__, default=None)
    if best is not None and math.isinf(peers[best]):
        best = None  # each of them left somebody without a turn
    return Result(
        case=f"fairness of {case}",
        unit="most turns / fewest",
        ours=most[ours],
        floor=most[TOKENS],
        peers=peers,
        ratio_to_floor=most[ours] / most[TOKENS],
        ratio_to_best_peer=most[ours] / peers[best] if best else None,
        target=f"<= {FAIR}",
        met=most[ours] <= FAIR,
        best_peer=best,
        absent=absent,
        details={
            "handed to another worker": {n: f"{v:.1%}" for n, v in share.items()},
            "longest from a turn to the next": {n: f"{v * 1e3:.1f} ms" for n, v in longest.items()},
        },
    )
