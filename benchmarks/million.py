"""A million locks, held and renewed, on a real Cluster of this machine; by default 20 minutes.

    python -m benchmarks.million [--locks N] [--ttl S] [--ttls N] [--clients N] [--plot FILE]

Three masters with a replica each; a few client processes, one handle for each lock, names without
hash tags. From 1,000 on each step has ten times as many; the last is held for some ttls.
What it prints is what docs/explanation/capacity.md shows.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

sys.path[:0] = [str(Path(__file__).resolve().parent)]  # whose files are programs, no package

import head  # noqa: E402 - found by the line above
import plot  # noqa: E402 - found by the line above
from capacity_held import AT_ONCE, in_turns  # noqa: E402 - found by the line above
from crew import Crew  # noqa: E402 - found by the line above

import fencelock  # noqa: E402 - below those
from tests.servers import Server  # noqa: E402 - below those
from tests.topologies.cluster import CALM_MS, Cluster  # noqa: E402 - below those

T = TypeVar("T")
FIRST = 1_000
PATIENCE_SECONDS = 60.0  # of a client with its servers, which share two cores with it
RENEWED_AFTER = 1 / 3  # of the ttl
IDLE_SECONDS = 5.0
LOOKED_AT = 500  # one of so many locks, between two times of acquiring more
LATE_SECONDS = 2.0
PANELS = (
    plot.Panel(
        "processor time a minute for 1,000 locks, in ms",
        plot.LEFTS[0],
        [1, 10, 100, 1_000],
        lambda point: point["cpu"],
    ),
    plot.Panel(
        "bytes of a lock",
        plot.LEFTS[1],
        [100, 1_000, 10_000, 100_000],
        lambda point: point["bytes"],
    ),
)


class Used(NamedTuple):
    """What some processes have used until now."""

    cpu: float  # seconds
    memory: float  # bytes
    commands: int = 0

    def __add__(self, other: Used) -> Used:  # type: ignore[override]  # a sum, not a longer tuple
        return Used(*(one + more for one, more in zip(self, other, strict=True)))


class Step(NamedTuple):
    """What keeping so many locks took; processor time a minute, without that of idle servers."""

    locks: int
    acquired: float  # seconds
    clients: Used
    masters: Used
    replicas: Used
    longest: float  # seconds from when a renewal was due until it was answered
    lost: int


# --- in a client: a loop in a thread of its own, which renews between the questions ---------------


class Keeper:
    """The locks of one process."""

    def __init__(self, url: str, ttl: float) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.ttl, self.least_left = ttl, ttl
        self.locks: list[fencelock.AsyncLock] = []
        self.client = self.run(self._open(url))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def _open(self, url: str) -> fencelock.AsyncClient:
        return fencelock.AsyncClient(url, server_timeout=PATIENCE_SECONDS)

    async def grow(self, names: Sequence[str]) -> None:
        """Acquire in half of the time, and only while the renewals of what is held are in time."""
        made = [self.client.lock(name, ttl=self.ttl) for name in names]
        self.locks += made
        for start in range(0, len(made), AT_ONCE):
            began = self.loop.time()
            await in_turns([lock.acquire for lock in made[start : start + AT_ONCE]])
            await asyncio.sleep(self.loop.time() - began)
            while self.is_behind():  # noqa: ASYNC110 - what leases say has no event
                await asyncio.sleep(1)

    def is_behind(self) -> bool:
        """Return True if a lease of some that are looked at should have been renewed by now."""
        leases = [lock.lease for lock in self.locks[::LOOKED_AT]]
        left = min([lease.remaining() for lease in leases if lease is not None], default=self.ttl)
        return left < self.ttl * (1 - RENEWED_AFTER) - LATE_SECONDS

    async def look(self) -> tuple[float, int]:
        """Return how long the longest renewal took of those that are seen now, and what is lost."""
        least, lost = self.ttl, 0
        for number, lock in enumerate(self.locks):
            lease = lock.lease
            if lease is None or lease.lost:
                lost += 1
            else:
                least = min(least, lease.remaining())
            if number % 1000 == 0:
                await asyncio.sleep(0)
        return self.ttl * (1 - RENEWED_AFTER) - least, lost

    async def give_back(self) -> None:
        await in_turns([lock.release for lock in self.locks])
        await self.client.aclose()


_keeper: list[Keeper] = []


def begin(_worker: int, url: str, ttl: float) -> None:
    """Connect; without the garbage collector, which stops a loop for long where leases are many."""
    gc.disable()
    _keeper.append(Keeper(url, ttl))


def grow(worker: int, start: int, stop: int) -> None:
    keeper = _keeper[0]
    keeper.run(keeper.grow([f"{worker}:order:{number:09d}" for number in range(start, stop)]))


def look(_worker: int) -> tuple[float, int]:
    return _keeper[0].run(_keeper[0].look())


def used(_worker: int) -> Used:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Used(time.process_time(), pages * resource.getpagesize())


def give_back(_worker: int) -> None:
    _keeper[0].run(_keeper[0].give_back())


# --- the parent -----------------------------------------------------------------------------------


def of_servers(nodes: Sequence[Server]) -> Used:
    total = Used(0, 0)
    for node in nodes:
        cpu, calls = node.info("cpu"), node.info("commandstats").get("cmdstat_evalsha", "calls=0")
        spent = float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])
        told = node.info("memory")  # a megabyte and more of it is for the replica, whatever is held
        memory = float(told["used_memory"]) - float(told.get("mem_total_replication_buffers", 0))
        total += Used(spent, memory, int(str(calls).partition("calls=")[2].partition(",")[0]))
    return total


class Run:
    """The servers and the clients, and what they used when nothing was held."""

    def __init__(self, cluster: Cluster, crew: Crew, args: argparse.Namespace) -> None:
        self.cluster, self.crew, self.args = cluster, crew, args
        crew.all(begin, cluster.url, args.ttl)
        crew.all(grow, 0, 1)  # connected
        before, began = self.facts(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        self.empty = self.facts()
        self.idle = [
            (new.cpu - old.cpu) / (time.monotonic() - began)
            for old, new in zip(before, self.empty, strict=True)
        ]

    def facts(self) -> list[Used]:
        clients = sum(self.crew.all(used), Used(0, 0))
        return [clients, of_servers(self.cluster.masters), of_servers(self.cluster.replicas)]

    def step(self, held: int, locks: int, wait: float, seconds: float) -> Step:
        """Acquire until there are so many; wait, and see what the next seconds take."""
        each = locks // self.args.clients
        began = time.monotonic()
        self.crew.all(grow, max(1, held // self.args.clients), each)
        acquired = time.monotonic() - began
        self.watched(wait)
        before, began = self.facts(), time.monotonic()
        longest, lost = self.watched(seconds)
        after, took = self.facts(), time.monotonic() - began
        told = [
            Used(
                max(0.0, new.cpu - old.cpu - idle * took) * 60 / took,
                new.memory - empty.memory,
                round((new.commands - old.commands) * 60 / took),
            )
            for old, new, idle, empty in zip(before, after, self.idle, self.empty, strict=True)
        ]
        return Step(locks, acquired, told[0], told[1], told[2], longest, lost)

    def watched(self, seconds: float) -> tuple[float, int]:
        """Look at all leases now and then, so that no long renewal goes unseen."""
        end, longest, lost = time.monotonic() + seconds, 0.0, 0
        while time.monotonic() < end:
            time.sleep(min(self.args.ttl / 6, max(0.0, end - time.monotonic())))
            for took, gone in self.crew.all(look):
                longest, lost = max(longest, took), lost + gone
        return longest, lost


def sizes(locks: int) -> list[int]:
    found = [FIRST]
    while found[-1] * 10 < locks:
        found.append(found[-1] * 10)
    return [*(size for size in found if size < locks), locks]


def shown(steps: Sequence[Step]) -> str:
    heads = ["locks", "acquired in", "clients' CPU a minute", "masters' CPU", "replicas' CPU"]
    heads += [
        "renewing commands a minute",
        "a lock in its client",
        "at its master",
        "longest renewal",
    ]
    lines = [heads, ["---"] * (len(heads) + 1)]
    lines[0].append("lost")
    for one in steps:
        sides = one.clients, one.masters, one.replicas
        lines.append([f"{one.locks:,}", f"{one.acquired:.1f} s"])
        lines[-1] += [f"{side.cpu:.2f} s" for side in sides]
        lines[-1] += [f"{one.masters.commands:,}"]
        lines[-1] += [f"{side.memory / one.locks:,.0f} bytes" for side in sides[:2]]
        lines[-1] += [f"{one.longest:.1f} s", f"{one.lost}"]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def lines_of(steps: Sequence[Step]) -> plot.Lines:
    """Return what the picture shows."""
    return {
        name: {
            one.locks: {
                "cpu": getattr(one, side).cpu * 1e6 / one.locks,
                "bytes": getattr(one, side).memory / one.locks,
            }
            for one in steps
        }
        for name, side in ((plot.OURS, "clients"), ("masters", "masters"), ("replicas", "replicas"))
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--locks", type=int, default=1_000_000)
    add("--ttl", type=float, default=120.0, help="seconds")
    add("--ttls", type=int, default=3, help="how many of them the last step holds")
    add("--clients", type=int, default=4, help="processes")
    add(
        "--plot", type=Path, metavar="FILE", help="draw what a lock takes over their number, as SVG"
    )
    return parser.parse_args()


def main() -> int:
    args = arguments()
    told = f"{head.cpu()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, {head.build()}"
    steps: list[Step] = []
    with Cluster(node_timeout_ms=CALM_MS) as cluster, Crew(args.clients) as crew:
        told = f"{cluster.binary}, {told}"
        print(f"{told}; ttl {args.ttl:g} s, {args.clients} clients", flush=True)
        run, held = Run(cluster, crew, args), 0
        for size in sizes(args.locks):
            last, period = size == args.locks, args.ttl * RENEWED_AFTER
            seconds = args.ttl * args.ttls - period if last else period
            steps.append(run.step(held, size, period, seconds))
            held = size
            print(shown(steps[-1:]).splitlines()[-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
        began = time.monotonic()
        crew.all(give_back)
        print(f"released in {time.monotonic() - began:.0f} s\n\n{shown(steps)}")
    if args.plot and len(steps) > 1:
        title = f"1,000 to {args.locks:,} locks, renewed with a ttl of {args.ttl:g} s"
        plot.draw(args.plot, title, PANELS, lines_of(steps), told)
    return int(any(one.lost for one in steps))


if __name__ == "__main__":
    sys.exit(main())
