"""Many want one lock: how often it changes hands, and whether everybody gets it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

from contest import Tally, hold, probe, shared_page
from contestants import OURS, TASKS, THREADS, TOKENS
from crew import Crew
from measure import Plan, Samples, alternate
from report import RequestTemplate, Result, result

from cases import Setting, muster

RATE = RequestTemplate("acquisitions/s", rate=True)
FAIR = 1.1


def threads(setting: Setting) -> list[Result]:
    """16 threads in two processes."""
    return _case(setting, "contended-2p8t", THREADS, processes=2, workers=8, at_least=0.9)


def tasks(setting: Setting) -> list[Result]:
    """100 tasks of one loop."""
    return _case(setting, "contended-asyncio-100", TASKS, processes=1, workers=100, at_least=1.2)


def _case(
    setting: Setting, case: str, face: str, *, processes: int, workers: int, at_least: float
) -> list[Result]:
    tallies: dict[str, list[Tally]] = {}
    seconds = 0.5 if setting.quick else 1.0
    with Crew(processes) as crew, shared_page() as page:
        present, absent = muster(crew, setting, face, probe)

        def measure(name: str) -> float:
            who = setting.who(name, face)
            tally = hold(crew, who, workers, seconds, page)
            tallies.setdefault(name, []).append(tally)
            return seconds / max(1, sum(tally.turns))

        plan = Plan(setting.rounds(7, 2), short=False, rarely_every=3)
        samples = alternate(measure, TOKENS, OURS, present, plan)

    def quick_enough(row: Result) -> bool:
        return bool(row.ratio_to_floor and row.ratio_to_floor >= at_least)

    target = f">= {at_least}x token list"
    row = result(case, RATE, samples, TOKENS, target=target, meets=quick_enough, absent=absent)
    row.details.update(_overlaps(tallies))
    return [row, _fairness(case, samples, tallies, absent)]


def _overlaps(tallies: dict[str, list[Tally]]) -> dict[str, Any]:
    """Tell who had two inside at once; that voids a contestant's numbers."""
    broken = {name: sum(one.overlaps for one in told) for name, told in tallies.items()}
    return {"mutual exclusion broken, times": {name: n for name, n in broken.items() if n}}


def _fairness(
    case: str, samples: Samples, tallies: dict[str, list[Tally]], absent: dict[str, str]
) -> Result:
    """The second row of a contended case: most turns over fewest, and handovers."""

    def median(name: str, what: Callable[[Tally], float]) -> float:
        return statistics.median(map(what, tallies[name]))

    most = {name: median(name, lambda one: one.fairness) for name in samples.costs}
    share = {name: median(name, lambda one: one.handed_over) for name in samples.costs}
    peers = {name: value for name, value in most.items() if name not in {OURS, TOKENS}}
    best = min(peers, key=peers.__getitem__, default=None)
    if best is not None and math.isinf(peers[best]):
        best = None  # each of them left somebody without a turn
    return Result(
        case=f"fairness of {case}",
        unit="most turns / fewest",
        ours=most[OURS],
        floor=most[TOKENS],
        peers=peers,
        ratio_to_floor=most[OURS] / most[TOKENS],
        ratio_to_best_peer=most[OURS] / peers[best] if best else None,
        target=f"<= {FAIR}",
        met=most[OURS] <= FAIR,
        best_peer=best,
        absent=absent,
        details={"handed to another worker": {n: f"{v:.1%}" for n, v in share.items()}},
    )
