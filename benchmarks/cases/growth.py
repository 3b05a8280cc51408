"""What grows with many locks, waiters and clients; and the memory of a lease and of a handle."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tracemalloc
from collections.abc import Callable, Sequence
from time import perf_counter
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
MEMORY_COUNT = 2_000
LEASE_BYTES, HANDLE_BYTES = 1_500, 1_000


# --- in the worker --------------------------------------------------------------------------------


def held(who: Who, counts: Sequence[int]) -> list[float]:
    """Return the seconds of a pair beside so many locks that the client holds."""

    async def run() -> list[float]:
        async with fencelock.AsyncClient(who.address.url, server_timeout=60) as client:
            mine, taken = client.lock("bench:growth:mine", ttl=TTL_SECONDS), []
            locks: list[fencelock.AsyncLock] = []
            for count in counts:
                more = range(len(locks), count)
                locks += [client.lock(f"bench:growth:{n}", ttl=TTL_SECONDS) for n in more]
                await in_turns([lock.acquire for lock in locks[more.start :]])
                each = []
                for _ in range(PAIRS):
                    began = perf_counter()
                    await mine.acquire()
                    await mine.release()
                    each.append(perf_counter() - began)
                taken.append(statistics.median(each))
            await in_turns([lock.release for lock in locks])
        return taken

    return asyncio.run(run())


def waiting(who: Who, counts: Sequence[int], *, strict: bool) -> list[float]:
    """Return the seconds of a turn while so many tasks wait, after each of them had one."""

    async def one(count: int) -> float:
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
                    ended = perf_counter()
                await lock.release()

            tasks = [asyncio.create_task(turn(lock)) for lock in locks]
            await _until_in_line(who, count if strict else 0)  # a cohort waits inside its client
            began = perf_counter()
            await first.release()
            await asyncio.gather(*tasks)
        return (ended - began) / count

    return [asyncio.run(one(count)) for count in counts]


async def _until_in_line(who: Who, count: int) -> None:
    """Wait until so many stand in the server's line."""
    with Line(who.address) as line:
        queue = "fencelock:{fencelock:bench:growth:line}~queue"
        while line.command("ZCARD", queue) < count:  # noqa: ASYNC110 - it is the server's state
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)  # those that wait inside the client


def clients(who: Who, counts: Sequence[int]) -> list[float]:
    """Return the seconds of a turn of so many clients that all want one lock, some rounds each."""

    async def one(count: int) -> float:
        made = [fencelock.AsyncClient(who.address.url, server_timeout=60) for _ in range(count)]
        rounds = max(2, PAIRS // count)

        async def turns(client: fencelock.AsyncClient) -> None:
            lock = client.lock("bench:growth:clients", ttl=TTL_SECONDS)
            for _ in range(rounds):
                await lock.acquire()
                await lock.release()

        await in_turns([client.lock("bench:growth:warm").locked for client in made])
        began = perf_counter()
        await asyncio.gather(*map(turns, made))
        taken = (perf_counter() - began) / (rounds * count)
        await asyncio.gather(*(client.aclose() for client in made))
        return taken

    return [asyncio.run(one(count)) for count in counts]


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
    """Each with few and with many; the ratio is the row."""
    many = setting.rounds(10, 1)
    who = setting.who("fencelock", TASKS)
    grown: dict[str, tuple[Callable[..., Any], tuple[int, int], dict[str, Any]]] = {
        "a pair beside held locks": (held, (100, 10_000 * many), {}),
        "a turn with waiting tasks": (waiting, (100, 1_000 * many), {"strict": False}),
        "a turn with waiting tasks, strict": (waiting, (100, 1_000 * many), {"strict": True}),
        "a turn of clients": (clients, (10, 100 * many), {}),
    }
    rows = []
    for name, (function, counts, options) in grown.items():
        with Crew(1) as crew:
            crew.all(allow_connections)
            few, lots = crew.call(0, _call, function, who, counts, options)
        rows.append(
            Result(
                case=name,
                unit="us",
                ours=lots * 1e6,
                floor=few * 1e6,
                peers={},
                ratio_to_floor=lots / few,
                ratio_to_best_peer=None,
                target=f"<= {AT_MOST}x with {counts[0]:,}",
                met=lots / few <= AT_MOST,
                details={"floor": f"{counts[0]:,}", "ours": f"{counts[1]:,}"},
            )
        )
    return [*rows, *_memory(setting)]


def _call(
    function: Callable[..., Any], who: Who, counts: Sequence[int], options: dict[str, Any]
) -> Any:
    return function(who, counts, **options)


def _memory(setting: Setting) -> list[Result]:
    with Crew(1) as crew:
        handle, lease = crew.call(0, memory, setting.who("fencelock", THREADS), MEMORY_COUNT)
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
        for name, size, most in (
            ("a held lease", lease, LEASE_BYTES),
            ("an idle handle", handle, HANDLE_BYTES),
        )
    ]
