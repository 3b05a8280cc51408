"""A pair of one thread, and of one task, with metrics, log and history, beside the same without."""

from __future__ import annotations

from contestants import FLOOR, HOOKED, OURS, TASKS, THREADS
from crew import Crew
from measure import alternate
from report import MICROSECONDS, Result, one_of

from cases import Setting, on_one_core
from cases.uncontended import CHUNK, probe, sample

AT_MOST = 1.2  # times the same without


def case(setting: Setting) -> list[Result]:
    """Return a row for each face."""
    return [_row(setting, face) for face in (THREADS, TASKS)]


def _row(setting: Setting, face: str) -> Result:
    """A process each, as hooks are a process's: all begin a sample equally cold."""
    workers = {name: number for number, name in enumerate((FLOOR, OURS, HOOKED))}
    with Crew(len(workers)) as crew, on_one_core(crew, setting):
        for name, number in workers.items():
            crew.call(number, probe, number, setting.who(name, face))

        def measure(name: str) -> float:
            taken: float = crew.call(workers[name], sample, setting.who(name, face), CHUNK)
            return taken

        plan = setting.plan(100, 20)
        samples = alternate(measure, FLOOR, OURS, [HOOKED], plan)
    row = one_of(f"a pair with hooks, {face}", MICROSECONDS, samples, HOOKED, FLOOR)
    times = samples.ratio(HOOKED, OURS)
    row.target, row.met = f"<= {AT_MOST}x without", times <= AT_MOST
    row.details["x without"] = round(times, 2)
    return row
