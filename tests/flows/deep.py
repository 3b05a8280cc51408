"""The deep exploration: ``python -m tests.flows.deep [--seconds N]`` prints what it covered.

All scenarios to their end take hours. So each gets an even share of the time that is left: most
need less, and what they leave goes to those after them. The order is the day's, so that other
scenarios get more each day. The table says for each how many schedules there were and whether that
was all of them. That sown faults are found is for the tests.
"""

# ruff: noqa: T201 - its output is its purpose

import argparse
import functools
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator

from tests.flows.exploring import both, under, worlds_in
from tests.flows.worlds import (
    acknowledged,
    barriers,
    cluster_multis,
    clusters,
    cohorts,
    deadlocks,
    elections,
    forgetting,
    kept,
    multis,
    object_pairs,
    pairs,
    quorums,
    runs_once,
    sentinels,
    shares,
    shutdowns,
    signals,
)
from tests.flows.worlds import locks as worlds
from tests.flows.worlds.locks import Scenario
from verification.simulator.explorer import Report

FAULTS = (
    *("lost", "zombie", "cut", "silent", "stuck", "late", "wake", "twice", "noise", "expiry"),
    *("crash", "pause", "cancel", "back", "restart", "reboot"),
)
SINGLE = worlds_in(worlds)
# What is made of locks. In one world the watcher looks once in nine seconds: it may miss the end of
# a leader that crashed before it announced its release.
MADE = worlds_in(runs_once, forgetting, multis, elections)
MADE.remove(elections.LEADING_ON)
MADE_COMBINED = (
    *(runs_once.WORKING, multis.BESIDE_LAST, multis.BESIDE_LAST_IMPATIENT, elections.TO_NOBODY),
)
TOGETHER = (
    {"lost": 2},
    {"late": 2},
    {"lost": 1, "late": 1},
    {"lost": 1, "cancel": 1},
    {"lost": 1, "crash": 1},
    {"late": 1, "cancel": 1},
    {"expiry": 1, "crash": 1},
    {"pause": 1, "lost": 1},
    {"silent": 1, "cancel": 1},
    {"zombie": 1, "cancel": 1},
    {"late": 1, "lost": 1, "cancel": 1},
    {"restart": 1, "lost": 1},
    {"back": 1, "lost": 1, "late": 1},
)
COMBINED = (
    worlds.TWO,
    worlds.TWO_LONG,
    worlds.TWO_IMPATIENT,
    worlds.THREE,
    worlds.TRIES,
    worlds.OWNER,
    worlds.OWNERS_WORKING,
    worlds.SHORT_PATIENCE,
    *worlds.BY_HAND_ANEW,
    *worlds.AFTERWARDS,
    *worlds.LIMITED,
    *worlds.INSTANTS,
    worlds.UNLIKE,
)


SHARED = worlds_in(shares)
SHARED_COMBINED = (shares.TWO, shares.IMPATIENT, shares.PARTS, shares.SIDES, shares.DOWNGRADED)


def plan() -> Iterator[Scenario]:
    """Yield every scenario, for tasks of a loop."""
    alone = (*SINGLE, *MADE, *SHARED, *kept.ALL, *shutdowns.ALL)
    yield from (*alone, *deadlocks.SMALL, *deadlocks.LARGE, *pairs.ALL, *object_pairs.ALL)
    yield from under(FAULTS, *alone, *pairs.SINGLE)
    # What is judged of deadlocks knows these faults only: see their test.
    yield from under(deadlocks.FAULTS, *deadlocks.UNDER_FAULTS)
    for faults in TOGETHER:
        for scenario in (*COMBINED, *MADE_COMBINED, *SHARED_COMBINED):
            yield scenario.under(**faults)
    several = (clusters, cluster_multis, sentinels, quorums)
    for module in (cohorts, signals, barriers, acknowledged, *several):
        yield from module.plan()


@functools.cache
def planned() -> tuple[Scenario, ...]:
    """Return the plan, each scenario once."""
    return tuple({scenario.title: scenario for scenario in both(plan())}.values())


def explored(number: int, end: float, parts: float) -> tuple[int, Report]:
    """Explore one scenario for a part of the time until ``end``; by its number, for a process."""
    return number, planned()[number].explore(seconds=(end - time.time()) / parts)


def row(title: str, report: Report) -> str:
    return (
        f"{title:58} {report.schedules:9,} {report.steps:12,} {report.extent:9}"
        f" {report.seconds:7.1f}"
    )


def in_order_of(day: int, only: str) -> list[int]:
    """Return the numbers of the scenarios with this text in their title."""
    chosen = [number for number, scenario in enumerate(planned()) if only in scenario.title]
    random.Random(day).shuffle(chosen)
    return chosen


def work(end: float, chosen: list[int]) -> list[tuple[Scenario, Report]]:
    """Explore these scenarios on all processors until ``end``; print each row as it ends."""
    processes = os.cpu_count() or 1
    left = range(len(chosen), 0, -1)
    asks = [
        (number, end, max(1.0, each / processes)) for number, each in zip(chosen, left, strict=True)
    ]
    done: list[tuple[Scenario, Report]] = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for result in [pool.apply_async(explored, ask) for ask in asks]:
            number, report = result.get()
            if not report.schedules:  # too late
                continue
            done.append((planned()[number], report))
            print(row(planned()[number].title, report), flush=True)
            if report.violation is not None:
                print(report.story(), flush=True)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="about how long to search")
    parser.add_argument("--only", default="", help="scenarios with this text in their title")
    today = int(time.time() // 86_400)
    parser.add_argument("--day", type=int, default=today, help="which order (today's)")
    told = parser.parse_args()
    end = time.time() + told.seconds
    chosen = in_order_of(told.day, told.only)
    print(f"{len(chosen):,} scenarios, in the order of --day {told.day}\n")
    print(f"{'scenario':58} {'schedules':>9} {'steps':>12} {'extent':9} {'seconds':>7}")
    done = work(end, chosen)
    violated = [scenario.title for scenario, report in done if report.violation is not None]
    complete = sum(report.complete for _, report in done)
    schedules = sum(report.schedules for _, report in done)
    print(
        f"\n{len(done):,} of {len(chosen):,} scenarios, {complete:,} of them to their end,"
        f" {schedules:,} schedules, {time.time() - end + told.seconds:.0f} s"
    )
    print(f"violations: {', '.join(violated) or 'none'}")
    if violated:
        sys.exit(1)


if __name__ == "__main__":
    main()
