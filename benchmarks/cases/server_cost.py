"""What an uncontended acquire and release cost the server."""

from __future__ import annotations

import math
import re
from collections import Counter

from contestants import FLOOR, OURS, READER, SEMAPHORE, THREADS
from crew import Crew, Who
from measure import Samples, alternate
from monitor import monitored
from report import Measure, Result, judged, one_of, result
from wire import Line

from cases import Setting, counted, muster
from cases.uncontended import probe, sample

PAIRS = 400  # of one sample
UNIT = Measure("µs of the server")
SEEN = 20  # pairs that are watched to learn which commands are sent
SHARES_TARGET = 1.5  # times our lock
MEASURED = (FLOOR, OURS, SEMAPHORE, READER)


def case(setting: Setting) -> list[Result]:
    """Time by INFO commandstats, of the commands that a client sends (scripts as a whole)."""
    setting, uncounted = counted(setting)
    with Crew(1) as crew, Line(setting.address) as line:
        present, absent = muster(crew, setting, THREADS, probe)
        for name in MEASURED:
            crew.all(probe, setting.who(name, THREADS))
        whos = {name: setting.who(name, THREADS) for name in (*MEASURED, *present)}
        sent = {name: share_sent(crew, who) for name, who in whos.items()}

        def measure(name: str) -> float:
            line.command("CONFIG", "RESETSTAT")
            crew.call(0, sample, whos[name], PAIRS, math.inf)
            return spent(line, sent[name]) / PAIRS

        plan = setting.plan(24, 5)
        samples = alternate(measure, FLOOR, OURS, present, plan)
        beside = alternate(measure, OURS, SEMAPHORE, [READER], plan)
    lock = result("server-cost", UNIT, samples, FLOOR, absent=absent | uncounted)
    return [lock, *(beside_lock(name, beside) for name in (SEMAPHORE, READER))]


def beside_lock(name: str, samples: Samples) -> Result:
    """Return the row of a semaphore or read side; its floor is our lock."""
    row = one_of(f"server-cost of a {name}", UNIT, samples, name, OURS)
    return judged(row, SHARES_TARGET, "our lock, which is its floor")


def share_sent(crew: Crew, who: Who) -> dict[str, float]:
    """Return, by command, which part of its calls came from clients and not from scripts."""
    with monitored(who.address) as seen:
        crew.call(0, sample, who, SEEN)
    calls: Counter[str] = seen.sent + seen.nested
    return {name: seen.sent[name] / calls[name] for name in calls}


def spent(line: Line, sent: dict[str, float]) -> float:
    """Return the microseconds since RESETSTAT; what a script calls is in the script's time."""
    total = 0.0
    for key, text in line.info("commandstats").items():
        name = key.removeprefix("cmdstat_").partition("|")[0].lower()
        usec = re.search(r"usec=(\d+)", text)
        if usec is not None:
            total += int(usec[1]) * sent.get(name, 0.0)
    return total
