"""Over a network, with servers 2 ms away each way: there, round trips are what users pay."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from contest import Tally, hold, shared_page
from contest import probe as probe_contest
from contestants import FIVE_SOCKETS, FLOOR, OURS, TASKS, THREADS, TOKENS
from crew import Crew
from measure import alternate
from relay import Network, far
from report import MILLISECONDS, Result, result

from cases import Setting, handoff, muster
from cases.contended import RATE, overlaps
from cases.quorum import ONE_ONLY, SEVERAL, on_five
from cases.uncontended import probe, sample

PAIRS = 5  # of a sample
PATIENCE_SECONDS = 10.0  # a sample never ends before these
PAIR_TRIPS, QUORUM_TRIPS = 2, 3
CLIENTS = 8  # of the quorum's contest, a process each


class Asked(NamedTuple):
    """Who takes the lock beside which floor, and in how many round trips at most."""

    face: str
    floor: str
    at_most: int


@contextmanager
def away(setting: Setting) -> Iterator[tuple[Setting, Network]]:
    """Lend the setting with a network before its servers."""
    with far(setting.address) as network:
        yield setting._replace(address=network.address), network


def case(setting: Setting) -> list[Result]:
    """One server: a pair, and a handoff between two processes."""
    with away(setting) as (there, network):
        rows = [
            _pair("far-threads", there, network, Asked(THREADS, FLOOR, PAIR_TRIPS)),
            _pair("far-asyncio", there, network, Asked(TASKS, FLOOR, PAIR_TRIPS)),
        ]
        samples, absent = handoff.sampled(there, 1, (16, 4), strict=False)
    return [*rows, result("far-handoff-1", MILLISECONDS, samples, TOKENS, absent=absent)]


def quorum(setting: Setting) -> list[Result]:
    """Five servers: a pair, and eight clients that all want one lock."""
    absent = dict.fromkeys([name for name in setting.peers if name not in SEVERAL], ONE_ONLY)
    with on_five(setting) as five, away(five) as (there, network):
        rows = [
            _pair("far-quorum-5", there, network, Asked(THREADS, FIVE_SOCKETS, QUORUM_TRIPS)),
            _pair("far-quorum-5-asyncio", there, network, Asked(TASKS, FIVE_SOCKETS, QUORUM_TRIPS)),
        ]
        rows.append(_contest(there))
    for row in rows:
        row.absent |= absent
    return rows


def _pair(case: str, setting: Setting, network: Network, asked: Asked) -> Result:
    """Measure the floor, ours, and all peers that can run, and count the round trips of each."""
    face, floor, at_most = asked
    with Crew(1) as crew:
        present, absent = muster(crew, setting, face, probe)
        for name in (floor, OURS):
            crew.all(probe, setting.who(name, face))

        def measure(name: str) -> float:
            who = setting.who(name, face)
            taken: float = crew.call(0, sample, who, PAIRS, PATIENCE_SECONDS)
            return taken

        def counted(name: str) -> float:
            before = network.round_trips()
            measure(name)
            return (network.round_trips() - before) / PAIRS

        samples = alternate(measure, floor, OURS, present, setting.plan(20, 3))
        trips = {name: counted(name) for name in (OURS, floor, *present)}
    row = result(case, MILLISECONDS, samples, floor, absent=absent)
    row.details["round trips"] = trips
    row.target, row.met = f"<= {at_most} round trips", trips[OURS] <= at_most
    return row


def _contest(setting: Setting) -> Result:
    """Eight clients, a process each: how often the lock changes hands, and the longest wait."""
    seconds = 1.0 if setting.quick else 3.0
    tallies: dict[str, list[Tally]] = {}
    with Crew(CLIENTS) as crew, shared_page() as page:
        present, absent = muster(crew, setting, THREADS, probe_contest)

        def measure(name: str) -> float:
            tally = hold(crew, setting.who(name, THREADS), 1, seconds, page)
            tallies.setdefault(name, []).append(tally)
            return seconds / max(1, sum(tally.turns))

        for name in (TOKENS, OURS):  # connections are made once
            measure(name)
        plan = setting.plan(5, 1, short=False, rarely_every=2)
        samples = alternate(measure, TOKENS, OURS, present, plan)
    row = result("far-quorum-5-8c", RATE, samples, TOKENS, absent=absent)
    row.details |= overlaps(tallies)
    row.details["longest from a turn to the next"] = {
        name: f"{statistics.median(one.longest for one in told) * 1e3:.0f} ms, at worst"
        f" {max(one.longest for one in told) * 1e3:.0f}"
        for name, told in tallies.items()
    }
    return row
