"""Acquire and release while nobody else wants the lock."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from time import perf_counter

from contestants import (
    BYTES,
    FLOOR,
    OURS,
    SHARED_FLOOR,
    TASKS,
    THREADS,
    CannotRun,
    Pair,
    plant,
)
from crew import Crew, Who, loop_of, pairs
from measure import Samples, alternate
from report import MICROSECONDS, Measure, Result, judged, one_of, result

from cases import Setting, muster, on_one_core

CHUNK = 50  # pairs of one sample
TASKS_MANY = 100
TURNS_EACH = 10
SAMPLE_SECONDS = 0.1  # a sample ends then: some peers take as long for one pair
THREADS_TARGET, TASKS_TARGET, UVLOOP_TARGET = 1.6, 1.8, 1.8  # times the floor
BYTES_TARGET = 1.2  # times the floor: what of that is the server's and the network's
MANY_TARGET = 6  # times redis-py's rate


def name_of(who: Who, number: int = 0) -> str:
    return f"bench:uncontended:{who.name.replace(' ', '-')}:{number}"


# --- in the worker --------------------------------------------------------------------------------


def probe(_worker: int, who: Who) -> None:
    """Take and give the lock once, so that who cannot is known before the clock starts."""
    plant(who.name, who.address, name_of(who))
    sample(who, 1)


def sample(who: Who, count: int, seconds: float = SAMPLE_SECONDS) -> float:
    """Return the median seconds of that many acquisitions with their releases, or of fewer."""
    (pair,) = pairs(who, name_of(who), 1)
    if who.face == THREADS:
        return statistics.median(_thread_turns(pair, count, seconds))
    return statistics.median(loop_of(who).run_until_complete(_task_turns(pair, count)))


def _thread_turns(pair: Pair, count: int, seconds: float) -> list[float]:
    acquire, release = pair
    taken: list[float] = []
    end = perf_counter() + seconds
    while len(taken) < count and (begin := perf_counter()) < end:
        acquire()
        release()
        taken.append(perf_counter() - begin)
    return taken


async def _task_turns(pair: Pair, count: int) -> list[float]:
    acquire, release = pair
    taken = []
    for _ in range(count):
        begin = perf_counter()
        await acquire()
        await release()
        taken.append(perf_counter() - begin)
    return taken


def sample_many(who: Who, tasks: int, turns: int) -> float:
    """Return the seconds per pair of many tasks, each with a lock of its own."""
    loop = loop_of(who)
    made = [pairs(who, name_of(who, number), 1)[0] for number in range(tasks)]

    async def all_tasks() -> None:
        async def one(pair: Pair) -> None:
            for _ in range(turns):
                await pair.acquire()
                await pair.release()

        await asyncio.gather(*map(one, made))

    begin = perf_counter()
    loop.run_until_complete(all_tasks())
    return (perf_counter() - begin) / (tasks * turns)


# --- the cases ------------------------------------------------------------------------------------


def threads(setting: Setting) -> list[Result]:
    """One thread; and our bytes alone, sent by the floor's own loop."""
    case = "uncontended-threads"
    with Crew(1) as crew, on_one_core(crew, setting):
        samples, absent = _sampled(crew, setting, THREADS, always=[BYTES])
    alone = one_of(f"{case}, our bytes", MICROSECONDS, samples, BYTES, FLOOR)
    row = result(case, MICROSECONDS, samples, FLOOR, absent=absent)
    return [judged(row, THREADS_TARGET), judged(alone, BYTES_TARGET)]


def tasks(setting: Setting) -> list[Result]:
    """One asyncio task, on the standard loop; and ours and the floor on uvloop."""
    case = "uncontended-asyncio"
    with Crew(1) as crew, on_one_core(crew, setting):
        samples, absent = _sampled(crew, setting, TASKS)
        row = result(case, MICROSECONDS, samples, FLOOR, absent=absent)
        rows = [judged(row, TASKS_TARGET)]
        try:
            samples, _ = _sampled(crew, setting._replace(peers=()), TASKS, "uvloop")
        except CannotRun as error:
            row.absent["uvloop"] = str(error)
        else:
            on_uvloop = one_of(f"{case}, uvloop", MICROSECONDS, samples, OURS, FLOOR)
            rows.append(judged(on_uvloop, UVLOOP_TARGET))
    return rows


def _sampled(
    crew: Crew, setting: Setting, face: str, loop: str = "asyncio", always: Sequence[str] = ()
) -> tuple[Samples, dict[str, str]]:
    """Measure the floor, ours, what is ``always`` beside it, and all peers that can run."""
    present, absent = muster(crew, setting, face, probe)
    for name in (FLOOR, OURS, *always):
        crew.all(probe, setting.who(name, face, loop))

    def measure(name: str) -> float:
        taken: float = crew.call(0, sample, setting.who(name, face, loop), CHUNK)
        return taken

    plan = setting.plan(150, 20, always=always)
    return alternate(measure, FLOOR, OURS, present, plan), absent


def many_locks(setting: Setting) -> list[Result]:
    """100 tasks of one loop, each with a lock of its own."""
    with Crew(1) as crew:
        present, absent = muster(crew, setting, TASKS, probe_many)
        for name in (SHARED_FLOOR, OURS):
            crew.all(probe_many, setting.who(name, TASKS))

        def measure(name: str) -> float:
            taken: float = crew.call(
                0, sample_many, setting.who(name, TASKS), TASKS_MANY, TURNS_EACH
            )
            return taken

        plan = setting.plan(24, 4, rarely_every=setting.rounds(3, 2))
        samples = alternate(measure, SHARED_FLOOR, OURS, present, plan)
    row = result(
        "asyncio-100-locks",
        Measure("pairs/s", rate=True),
        samples,
        SHARED_FLOOR,
        absent=absent,
    )
    row.target = f">= {MANY_TARGET}x redis-py"
    if "redis-py" in samples.costs:
        times = 1 / samples.ratio(OURS, "redis-py")
        row.met = times >= MANY_TARGET
        row.details["x redis-py"] = round(times, 2)
    return [row]


def probe_many(_worker: int, who: Who) -> None:
    """Open all that a sample needs."""
    for number in range(TASKS_MANY):
        plant(who.name, who.address, name_of(who, number))
    sample_many(who, TASKS_MANY, 1)


def beside_our_lock(case: str, name: str, face: str, setting: Setting) -> Result:
    """Measure what no peer has, beside the bare socket and our own lock."""
    with Crew(1) as crew, on_one_core(crew, setting):
        for each in (FLOOR, OURS, name):
            crew.all(probe, setting.who(each, face))

        def measure(each: str) -> float:
            taken: float = crew.call(0, sample, setting.who(each, face), CHUNK)
            return taken

        plan = setting.plan(100, 20)
        samples = alternate(measure, FLOOR, name, [OURS], plan)
    row = one_of(case, MICROSECONDS, samples, name, FLOOR)
    row.details["our lock"] = f"{samples.median(OURS) * 1e6:.3g} us"
    row.details["x our lock"] = round(samples.ratio(name, OURS), 2)
    return row
