"""A pair of one thread with metrics, log and history, beside the same without them."""

from __future__ import annotations

from typing import Any

from contestants import FLOOR, HOOKED, OURS, THREADS
from crew import Crew
from measure import Plan, alternate
from report import MICROSECONDS, Result, one_of

from cases import Setting, on_one_core
from cases.uncontended import CHUNK, probe, sample

AT_MOST = 1.2  # times the same without


def case(setting: Setting) -> list[Result]:
    """Two processes: hooks are a process's."""
    with Crew(2) as crew, on_one_core(crew, setting):
        for name in (FLOOR, OURS):
            crew.call(0, probe, 0, setting.who(name, THREADS))
        crew.call(1, probe, 1, setting.who(HOOKED, THREADS))

        def measure(name: str) -> Any:
            worker = 1 if name == HOOKED else 0
            return crew.call(worker, sample, setting.who(name, THREADS), CHUNK)

        plan = Plan(setting.rounds(100, 20))
        samples = alternate(measure, FLOOR, OURS, [HOOKED], plan)
    row = one_of("a pair with hooks", MICROSECONDS, samples, HOOKED, FLOOR)
    times = samples.ratio(HOOKED, OURS)
    row.target, row.met = f"<= {AT_MOST}x without", times <= AT_MOST
    row.details["x without"] = round(times, 2)
    return [row]
