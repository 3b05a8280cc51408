"""Our member of Redisson's lock beside Redisson itself, each in processes of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from contest import hold, shared_page
from contestants import FLOOR, OURS, REDISSON, THREADS, TOKENS
from crew import Crew
from measure import alternate
from report import MICROSECONDS, Result, result

from cases import Setting
from cases.contended import RATE, WARM_SECONDS
from cases.uncontended import CHUNK, probe, sample

ROOT = Path(__file__).resolve().parents[2]
THEIRS = "Redisson"
VERSION = "4.7.0"
WARM_PAIRS = 20_000  # until the JVM has compiled what a pair enters
PROCESSES, WORKERS = 2, 8


@contextmanager
def members(setting: Setting, count: int) -> Iterator[tuple[list[Any], dict[str, str]]]:
    """Start JVMs with Redisson, warm; without Java or Maven none, and why."""
    sys.path.append(str(ROOT))  # the program in Java is that of the tests
    from tests.integrations.redisson.members import Java, Missing, built  # noqa: PLC0415 - found by that path

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            path = built(Path(folder), VERSION)
        except Missing as missing:
            yield [], {THEIRS: str(missing)}
            return
        url = f"redis://{setting.address.host}:{setting.address.port}"
        started = [stack.enter_context(closing(Java(path, url))) for _ in range(count)]
        for number, each in enumerate(started):
            each.ready().pairs("one", f"bench:java:warm:{number}", WARM_PAIRS, seconds=120)
        yield started, {}


def pair(setting: Setting) -> list[Result]:
    """One thread. Client and server are not kept on one core: a JVM has threads of its own."""
    with Crew(1) as crew, members(setting, 1) as (jvms, absent):
        for name in (FLOOR, OURS, REDISSON):
            crew.all(probe, setting.who(name, THREADS))

        def measure(name: str) -> float:
            if name == THEIRS:
                return float(jvms[0].pairs("one", "bench:java:pair", CHUNK)) / 1e9
            return float(crew.call(0, sample, setting.who(name, THREADS), CHUNK))

        theirs = [THEIRS] if jvms else []
        plan = setting.plan(100, 20, always=[OURS])
        samples = alternate(measure, FLOOR, REDISSON, theirs, plan)
    row = result("java-pair", MICROSECONDS, samples, FLOOR, absent=absent, ours=REDISSON)
    row.details["x our lock"] = round(samples.ratio(REDISSON, OURS), 2)
    return [row]


def contended(setting: Setting) -> list[Result]:
    """16 threads in two processes of one kind, one lock."""
    seconds = 0.5 if setting.quick else 1.0
    overlaps = 0
    with (
        Crew(PROCESSES) as crew,
        members(setting, PROCESSES) as (jvms, absent),
        shared_page() as page,
    ):

        def measure(name: str, seconds: float = seconds) -> float:
            nonlocal overlaps
            if name == THEIRS:
                asked = [
                    each.ask("crowd", "all", "bench:java:crowd", WORKERS, round(seconds * 1e3))
                    for each in jvms
                ]
                return seconds / max(1, sum(each.result() for each in asked))
            tally = hold(crew, setting.who(name, THREADS), WORKERS, seconds, page)
            overlaps += tally.overlaps
            return seconds / max(1, sum(tally.turns))

        theirs = [THEIRS] if jvms else []
        for name in (TOKENS, REDISSON, *theirs):  # connections are made once
            measure(name, WARM_SECONDS)
        plan = setting.plan(7, 3, short=False)
        samples = alternate(measure, TOKENS, REDISSON, theirs, plan)
    row = result("java-2p8t", RATE, samples, TOKENS, absent=absent, ours=REDISSON)
    row.details["mutual exclusion broken, times"] = overlaps
    return [row]
