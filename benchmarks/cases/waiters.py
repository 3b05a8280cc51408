"""The same lock with 2 to 1,000 who want it: commands per acquisition, rate and fairness.

One process; tasks of one loop, and threads for who knows no asyncio. Each size is run twice.
For the rate nobody does anything with the lock. For the commands each holder works for a while,
else a poller takes the lock again before anybody else can ask for it; and MONITOR slows the server.
"""

from __future__ import annotations

import math
import resource
from typing import Any

from contest import LEAD_SECONDS, Tally, hold, probe, shared_page
from contestants import NO_ASYNCIO, OURS, PLACES, STRICT, TASKS, THREADS, TOKENS, CannotRun
from crew import Crew, Who
from monitor import monitored
from report import Result

from cases import Setting, counted

LOCKS = (OURS, STRICT)
SIZES = (2, 16, 100, 1_000)
THREADS_MAX = 100
QUICK_SIZES = (16,)  # for the peers: a thousand pollers take long to end
WORK_SECONDS = 0.001
CONNECT_SECONDS = 0.0015  # more before the first turn counts, for every worker
AT_MOST = 2.05  # a few commands more: the first connection, and proofs of life

Point = dict[str, float]


def case(setting: Setting) -> list[Result]:
    """Commands that clients send, over all acquisitions of a run, from its start to its end."""
    lines: dict[str, dict[int, Point]] = {}
    setting, absent = counted(setting)
    for name, face in contestants(setting):
        label = f"{name} (threads)" if name in LOCKS and face == THREADS else name
        try:
            lines[label] = points(setting, setting.who(name, face))
        except CannotRun as error:
            if name in LOCKS:
                raise
            absent[name] = str(error)
    return [row_of(lines, absent)]


def contestants(setting: Setting) -> list[tuple[str, str]]:
    """Return everybody with a face: asyncio, or threads where there is no asyncio."""
    peers = [
        (name, THREADS if PLACES[name].tasks == NO_ASYNCIO else TASKS) for name in setting.peers
    ]
    ours = [(name, face) for name in LOCKS for face in (TASKS, THREADS)]
    return [*ours, (TOKENS, TASKS), *peers]


def points(setting: Setting, who: Who) -> dict[int, Point]:
    """Run one contestant with every number of workers that it can have."""
    limit = THREADS_MAX if who.face == THREADS else SIZES[-1]
    few = setting.quick and who.name not in {*LOCKS, TOKENS}
    sizes = QUICK_SIZES if few else [size for size in SIZES if size <= limit]
    with Crew(1) as crew, shared_page() as page:
        crew.all(allow_connections)
        crew.all(probe, who)
        return {workers: point(setting, crew, who, workers, page) for workers in sizes}


def allow_connections(_worker: int) -> None:
    """A thousand sockets are more than some systems let a process have at first."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def point(setting: Setting, crew: Crew, who: Who, workers: int, page: str) -> Point:
    seconds = (0.2 + workers / 2500) if setting.quick else (1.0 + workers / 1000)
    lead = LEAD_SECONDS + CONNECT_SECONDS * workers

    def run(work: float) -> Tally:
        return hold(crew, who, workers, seconds, page, lead=lead, work=work)

    timed = run(0.0)
    with monitored(who.address) as seen:
        watched = run(WORK_SECONDS)
    return {
        "rate": sum(timed.turns) / seconds,
        "fairness": timed.fairness,
        "handed_over": timed.handed_over,
        "overlaps": float(timed.overlaps + watched.overlaps),
        "commands": seen.sent.total() / watched.total if watched.total else math.inf,
    }


def row_of(lines: dict[str, dict[int, Point]], absent: dict[str, str]) -> Result:
    """Make the row: each value is the worst over all numbers of workers."""
    worst = {label: max(one["commands"] for one in told.values()) for label, told in lines.items()}
    ours = max(worst[OURS], worst[f"{OURS} (threads)"])
    strict = max(worst[STRICT], worst[f"{STRICT} (threads)"])
    peers = {label: n for label, n in worst.items() if not label.startswith((OURS, TOKENS))}
    best = min(peers, key=peers.__getitem__, default=None)
    return Result(
        case="commands-per-acquisition",
        unit="commands, at worst",
        ours=ours,
        floor=worst[TOKENS],
        peers=peers,
        ratio_to_floor=ours / worst[TOKENS],
        ratio_to_best_peer=ours / peers[best] if best else None,
        target=f"2.0 (<= {AT_MOST}) for {', '.join(map(str, SIZES))} waiters, also strict",
        met=max(ours, strict) <= AT_MOST,
        best_peer=best,
        absent=absent,
        details={label: told_of(told) for label, told in lines.items()} | {"by_waiters": lines},
    )


def told_of(points_of_one: dict[int, Point]) -> str:
    each = [f"{one['commands']:.2f} with {n:,}" for n, one in points_of_one.items()]
    broken = sum(one["overlaps"] for one in points_of_one.values())
    return ", ".join(each) + (f"; TWO INSIDE AT ONCE {broken:.0f} times" if broken else "")


def lines_of(row: Result) -> dict[str, dict[int, Point]]:
    """Return what the plot shows."""
    lines: Any = row.details["by_waiters"]
    return dict(lines)
