"""What grows with many locks, waiters and clients; and the memory of a lease and of a handle."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from capacity_held import in_turns
from contestants import TASKS, THREADS
from crew import Crew, Who
from report import Result
from wire import Line

import fencelock
from cases import Setting
from cases.waiters import allow_connections

AT_MOST = 1.1  # times the cost with few
TTL_SECONDS = 600
PAIRS = 300
FEW_ROUNDS = 3  # before the round with many, and after it
MEMORY_COUNT = 2_000
LEASE_BYTES, HANDLE_BYTES = 1_500, 1_000
HOLDING_BYTES = 2_000
BY_SIZE = "by size"  # of the details of a row


# --- in the worker --------------------------------------------------------------------------------


def spent(line: Line) -> float:
    """Return the processor time of this process and of the server, in seconds.

    It counts what the two do, however many other programs run meanwhile.
    """
    told = line.info("cpu")
    return time.process_time() + float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


def held(who: Who, counts: Sequence[int]) -> list[float]:
    """Return the seconds spent for a pair beside so many locks that the client holds."""

    async def run() -> list[float]:
        with Line(who.address) as line:
            return await pairs(line)

    async def pairs(line: Line) -> list[float]:
        async with fencelock.AsyncClient(who.address.url, server_timeout=60) as client:
            mine, taken = client.lock("bench:growth:mine", ttl=TTL_SECONDS), []
            locks: list[fencelock.AsyncLock] = []
            for count in counts:
                more = range(len(locks), count)
                locks += [client.lock(f"bench:growth:{n}", ttl=TTL_SECONDS) for n in more]
                await in_turns([lock.acquire for lock in locks[more.start :]])
                await in_turns([lock.release for lock in locks[count:]])
                del locks[count:]
                before = spent(line)
                for _ in range(PAIRS):
                    await mine.acquire()
                    await mine.release()
                taken.append((spent(line) - before) / PAIRS)
            await in_turns([lock.release for lock in locks])
        return taken

    return asyncio.run(run())


def waiting(who: Who, counts: Sequence[int], *, strict: bool) -> list[float]:
    """Return the seconds spent for a turn while so many tasks wait, after each had one."""

    async def one(count: int) -> float:
        with Line(who.address) as line:
            return await turns(count, line)

    async def turns(count: int, line: Line) -> float:
        options: dict[str, Any] = {"cohort": None} if strict else {}
        async with fencelock.AsyncClient(who.address.url, server_timeout=60) as client:
            first = client.lock("bench:growth:line", ttl=TTL_SECONDS, **options)
            await first.acquire()
            locks = [
                client.lock("bench:growth:line", ttl=TTL_SECONDS, **options) for _ in range(count)
            ]
            left, ended = count, 0.0

            async def turn(lock: fencelock.AsyncLock) -> None:
                nonlocal left, ended
                await lock.acquire()
                left -= 1
                if not left:
                    ended = spent(line)
                await lock.release()

            tasks = [asyncio.create_task(turn(lock)) for lock in locks]
            await _until_in_line(who, count if strict else 0)  # a cohort waits inside its client
            before = spent(line)
            await first.release()
            await asyncio.gather(*tasks)
        return (ended - before) / count

    return [asyncio.run(one(count)) for count in counts]


async def _until_in_line(who: Who, count: int) -> None:
    """Wait until so many stand in the server's line."""
    with Line(who.address) as line:
        queue = "fencelock:{fencelock:bench:growth:line}~queue"
        while line.command("ZCARD", queue) < count:  # noqa: ASYNC110 - it is the server's state
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)  # those that wait inside the client


def clients(who: Who, counts: Sequence[int]) -> list[float]:
    """Return the seconds spent for a turn of so many clients of one lock, some rounds each."""

    async def one(count: int) -> float:
        made = [fencelock.AsyncClient(who.address.url, server_timeout=60) for _ in range(count)]
        rounds = max(2, PAIRS // count)

        async def turns(client: fencelock.AsyncClient) -> None:
            lock = client.lock("bench:growth:clients", ttl=TTL_SECONDS)
            for _ in range(rounds):
                await lock.acquire()
                await lock.release()

        await in_turns([client.lock("bench:growth:warm").locked for client in made])
        with Line(who.address) as line:
            before = spent(line)
            await asyncio.gather(*map(turns, made))
            taken = (spent(line) - before) / (rounds * count)
        await asyncio.gather(*(client.aclose() for client in made))
        return taken

    return [asyncio.run(one(count)) for count in counts]


def holding(who: Who, count: int) -> float:
    """Return by how many bytes the process grows for a handle that holds, of so many."""
    with fencelock.Client(who.address.url) as client:
        with client.lock("bench:holding:warm", ttl=TTL_SECONDS):
            pass
        before = resident()
        locks = [client.lock(f"bench:holding:{n}", ttl=TTL_SECONDS) for n in range(count)]
        for lock in locks:
            lock.acquire()
        grown = resident() - before
        for lock in locks:
            lock.release()
    return grown / count


def resident() -> int:
    """Return the bytes of memory that this process has."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory(who: Who, count: int) -> tuple[float, float]:
    """Return the bytes of an idle handle, and those more of one that holds."""
    with fencelock.Client(who.address.url) as client:
        with client.lock("bench:memory:warm", ttl=TTL_SECONDS):
            pass
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        locks = [client.lock(f"bench:memory:{n}", ttl=TTL_SECONDS) for n in range(count)]
        gc.collect()
        idle, _ = tracemalloc.get_traced_memory()
        for lock in locks:
            lock.acquire()
        gc.collect()
        holding, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for lock in locks:
            lock.release()
    return (idle - before) / count, (holding - idle) / count


# --- the cases ------------------------------------------------------------------------------------


def case(setting: Setting) -> list[Result]:
    """Each with few, with more and more, and with few again; that of the most is the row."""
    decades = setting.rounds(3, 2)
    who = setting.who("fencelock", TASKS)
    grown: dict[str, tuple[Callable[..., Any], int, int, dict[str, Any]]] = {
        "a pair beside held locks": (held, 100, decades, {}),
        "a turn with waiting tasks": (waiting, 100, decades - 1, {"strict": False}),
        "a turn with waiting tasks, strict": (waiting, 100, decades - 1, {"strict": True}),
        "a turn of clients": (clients, 10, decades - 1, {}),
    }
    rows = []
    for name, (function, first, times, options) in grown.items():
        sizes = [first * 10**n for n in range(times + 1)]
        few = [first] * FEW_ROUNDS
        with Crew(1) as crew:
            crew.all(allow_connections)
            taken = crew.call(0, _call, function, who, [*few, *sizes[1:], *few], options)
        base = statistics.median(taken[:FEW_ROUNDS] + taken[-FEW_ROUNDS:])
        costs = dict(zip(sizes, [base, *taken[FEW_ROUNDS:-FEW_ROUNDS]], strict=True))
        lots = costs[sizes[-1]]
        rows.append(
            Result(
                case=name,
                unit="us CPU",
                ours=lots * 1e6,
                floor=base * 1e6,
                peers={},
                ratio_to_floor=lots / base,
                ratio_to_best_peer=None,
                target=f"<= {AT_MOST}x with {first:,}",
                met=lots / base <= AT_MOST,
                details={BY_SIZE: {size: round(cost * 1e6, 1) for size, cost in costs.items()}},
            )
        )
    return [*rows, *_memory(setting)]


def lines_of(rows: Sequence[Result]) -> dict[str, dict[int, dict[str, float]]]:
    """Return the rows as a picture wants them: for each size, how many times the fewest cost."""
    found = {row.case: row.details[BY_SIZE] for row in rows if BY_SIZE in row.details}
    return {
        case: {size: {"times": cost / costs[min(costs)]} for size, cost in costs.items()}
        for case, costs in found.items()
    }


def _call(
    function: Callable[..., Any], who: Who, counts: Sequence[int], options: dict[str, Any]
) -> Any:
    return function(who, counts, **options)


def _memory(setting: Setting) -> list[Result]:
    who, many = setting.who("fencelock", THREADS), setting.rounds(100_000, 10_000)
    with Crew(1) as crew:
        handle, lease = crew.call(0, memory, who, MEMORY_COUNT)
    sizes = [("a held lease", lease, LEASE_BYTES), ("an idle handle", handle, HANDLE_BYTES)]
    if sys.platform == "linux":
        with Crew(1) as crew:
            each = crew.call(0, holding, who, many)
        sizes.append((f"each of {many:,} handles that hold", each, HOLDING_BYTES))
    return [
        Result(
            case=f"memory of {name}",
            unit="bytes",
            ours=size,
            floor=None,
            peers={},
            ratio_to_floor=None,
            ratio_to_best_peer=None,
            target=f"<= {most:,} bytes",
            met=size <= most,
        )
        for name, size, most in sizes
    ]
