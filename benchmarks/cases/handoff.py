"""From a release to the moment when the next holder runs, in another process."""

from __future__ import annotations

import random
import threading
import time
from time import monotonic

from contest import probe
from contestants import OURS, STRICT, THREADS, TOKENS, Pair, plant
from crew import Crew, Who, pairs
from measure import Samples, alternate
from report import MILLISECONDS, Result, judged, one_of, result

from cases import Setting, muster

HOLDER, WAITERS = 0, 1  # the two processes
# Long enough that all waiters wait, and random, so that no poller is in step with the release.
HELD_SECONDS = (0.05, 0.15)
EACH_SECONDS = 0.002  # more for every waiter that has to start
ONE_TARGET, FIFTY_TARGET = 2.0, 0.7  # times the token list


def name_of(who: Who) -> str:
    return f"bench:handoff:{who.name.replace(' ', '-')}"


# --- in the workers -------------------------------------------------------------------------------


def take(who: Who) -> None:
    pairs(who, name_of(who), 1)[0].acquire()


def give(who: Who) -> float:
    """Release, and return the instant before."""
    release = pairs(who, name_of(who), 1)[0].release
    before = monotonic()
    release()
    return before


def wait(who: Who, count: int) -> list[float]:
    """Have that many threads take the lock and give it back; return when each was served."""
    served: list[float] = []

    def work(pair: Pair) -> None:
        pair.acquire()
        served.append(monotonic())
        pair.release()

    threads = [
        threading.Thread(target=work, args=(pair,)) for pair in pairs(who, name_of(who), count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return served


# --- the cases ------------------------------------------------------------------------------------


def one(setting: Setting) -> list[Result]:
    """One waiter."""
    samples, absent = sampled(setting, 1, (60, 8), strict=False)
    return [_row("handoff-1", samples, absent, ONE_TARGET)]


def fifty(setting: Setting) -> list[Result]:
    """50 waiters of one client, until all have been served; by default, and strict."""
    samples, absent = sampled(setting, 50, (24, 4), strict=True)
    row = _row("handoff-50", samples, absent, FIFTY_TARGET)
    row.details["x strict"] = round(samples.ratio(OURS, STRICT), 2)
    return [row, one_of("handoff-50, strict", MILLISECONDS, samples, STRICT, TOKENS)]


def sampled(
    setting: Setting, waiters: int, rounds: tuple[int, int], *, strict: bool
) -> tuple[Samples, dict[str, str]]:
    jitter = random.Random(1)
    with Crew(2) as crew:
        present, absent = muster(crew, setting, THREADS, probe)

        def measure(name: str) -> float:
            who = setting.who(name, THREADS)
            held = jitter.uniform(*HELD_SECONDS) + EACH_SECONDS * waiters
            return handed_over(crew, who, waiters, held)

        for name in (TOKENS, OURS, STRICT):
            measure(name)  # connections are made once
        rare = setting.rounds(4, 8)
        plan = setting.plan(*rounds, short=False, rarely_every=rare, always=(STRICT,) * strict)
        samples = alternate(measure, TOKENS, OURS, present, plan)
    return samples, absent


def _row(case: str, samples: Samples, absent: dict[str, str], at_most: float) -> Result:
    row = result(case, MILLISECONDS, samples, TOKENS, absent=absent)
    return judged(row, at_most, TOKENS)


def handed_over(crew: Crew, who: Who, waiters: int, held: float) -> float:
    """Return the seconds from the start of the release until the last waiter was served."""
    plant(who.name, who.address, name_of(who))
    crew.call(HOLDER, take, who)
    crew.send(WAITERS, wait, who, waiters)
    time.sleep(held)
    released: float = crew.call(HOLDER, give, who)
    served: list[float] = crew.result(WAITERS)
    if len(served) != waiters or min(served) < released:
        raise RuntimeError(f"{who.name}: {len(served)} of {waiters} served, or served too early")
    return max(served) - released
