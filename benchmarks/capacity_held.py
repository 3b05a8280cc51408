"""What is held and waited for: handoffs, memory and renewals, by fencelock's own clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from capacity_plan import Measured
from wire import Address, Line

import fencelock

AT_ONCE = 200
BUSY_LOCKS = 20
TASKS = 4  # at each busy lock, of two clients


def uses(client: fencelock.Client) -> dict[str, Callable[[], object]]:
    """Return one use of each primitive."""
    lock, owner = client.lock("lock"), client.rlock("owner", owner="job")
    semaphore, sides = client.semaphore("semaphore", 5), client.rwlock("sides")
    event, latch = client.event("event"), client.latch("latch", 1_000_000)
    multi = client.multi(["m1", "m2", "m3"])

    def enter(one: Any) -> Callable[[], None]:
        def use() -> None:
            with one:
                pass

        return use

    def once() -> None:
        draw = client.once("draw", within=60)
        draw.run(lambda: None)
        draw.forget()

    return {
        "lock: acquire, release": enter(lock),
        "rlock by owner: acquire, release": enter(owner),
        "semaphore: acquire, release": enter(semaphore),
        "rwlock: read, release": enter(sides.read),
        "rwlock: write, release": enter(sides.write),
        "multi of three: acquire, release": enter(multi),
        "event: set": event.set,
        "event: wait, when it is set": event.wait,
        "latch: count_down": latch.count_down,
        "once: run, forget": once,
        "election: campaign, resign": enter(client.election("lead", candidate="ann")),
    }


def client_of(address: Address) -> fencelock.AsyncClient:
    """Return a client that is patient, as the machine is busy; each of its waiters is in line."""
    return fencelock.AsyncClient(address.url, server_timeout=60, cohort=None)


async def in_turns(calls: Sequence[Callable[[], Awaitable[Any]]]) -> None:
    """Make very many calls, some at once."""
    for start in range(0, len(calls), AT_ONCE):
        await asyncio.gather(*(call() for call in calls[start : start + AT_ONCE]))


def handoffs(address: Address, seconds: float, cost: Any, found: Measured) -> None:
    """Measure what an acquisition costs the server when others wait for the lock, too."""

    async def run() -> int:
        turns, end = 0, time.monotonic() + seconds

        async def worker(lock: fencelock.AsyncLock) -> None:
            nonlocal turns
            while time.monotonic() < end:
                await lock.acquire()
                turns += 1
                await lock.release()

        async with (
            client_of(address) as one,
            client_of(address) as two,
        ):
            locks = [
                (one, two)[task % 2].lock(f"busy:{number:015d}", ttl=30)
                for number in range(BUSY_LOCKS)
                for task in range(TASKS)
            ]
            await asyncio.gather(*map(worker, locks))
        return turns

    with cost(address) as spent:
        turns = asyncio.run(run())
    found["handoff_us"] = spent.cpu / turns * 1e6
    found["handoff_bytes_in"], found["handoff_bytes_out"] = (
        spent.received / turns,
        spent.sent / turns,
    )


# --- memory ---------------------------------------------------------------------------------------


class Memory:
    """The server's memory, beside what it was."""

    def __init__(self, address: Address) -> None:
        self._line = Line(address)
        self._line.command("FLUSHALL", "SYNC")  # Valkey would do it in the background
        self._before = self.used()

    def used(self) -> int:
        return int(self._line.info("memory")["used_memory"])

    def more(self, count: int) -> float:
        """Return how many bytes more each of so many takes."""
        return (self.used() - self._before) / count

    async def until(self, count: int, *question: str) -> None:
        """Wait until a question to the server has that answer; nobody tells us when."""
        while self._line.command(*question) < count:  # noqa: ASYNC110 - it is the server's state
            await asyncio.sleep(0.05)

    def close(self) -> None:
        self._line.close()


@asynccontextmanager
async def watching(address: Address) -> AsyncIterator[tuple[fencelock.AsyncClient, Memory]]:
    """Lend a client, connected already, and the memory of a server that is empty."""
    async with client_of(address) as client:
        await client.lock("warm").locked()
        memory = Memory(address)
        yield client, memory
        memory.close()


def memory(address: Address, count: int, found: Measured) -> None:
    """Measure bytes of the server, each in an empty one."""
    asyncio.run(_locks(address, count, found))
    few = count // 10
    asyncio.run(_shares(address, few, found))
    asyncio.run(_waiters_of_one(address, few, found))
    asyncio.run(_waiters_alone(address, few // 5, found))
    with Line(address) as line:
        line.command("FLUSHALL")


async def _locks(address: Address, count: int, found: Measured) -> None:
    async with watching(address) as (client, memory):
        locks = [client.lock(f"{number:020d}", ttl=3600, renew=False) for number in range(count)]
        await in_turns([lock.acquire for lock in locks])
        found["bytes_held"] = memory.more(count)
        await in_turns([lock.release for lock in locks])
        found["bytes_record"] = memory.more(count)
        found["locks_counted"] = count


async def _shares(address: Address, count: int, found: Measured) -> None:
    async with watching(address) as (client, memory):
        named = [f"{number:020d}" for number in range(count)]
        made = [client.semaphore(name, 5, ttl=3600, renew=False) for name in named]
        await in_turns([each.acquire for each in made])
        found["bytes_semaphore"] = memory.more(count)
        await in_turns([each.release for each in made])
    async with watching(address) as (client, memory):
        await in_turns([client.event(f"{number:020d}").set for number in range(count)])
        found["bytes_event"] = memory.more(count)


async def _waiters_of_one(address: Address, count: int, found: Measured) -> None:
    async with watching(address) as (client, memory), client_of(address) as other:
        one = client.lock("one", ttl=3600, renew=False)
        await one.acquire()
        tasks = [asyncio.ensure_future(other.lock("one").acquire()) for _ in range(count)]
        await memory.until(count, "ZCARD", "fencelock:{fencelock:one}~queue")
        found["bytes_waiter_of_one"] = memory.more(count)
        await _give_up(tasks)
        await one.release()


async def _waiters_alone(address: Address, count: int, found: Measured) -> None:
    async with watching(address) as (client, memory), client_of(address) as other:
        named = [f"{number:020d}" for number in range(count)]
        locks = [client.lock(name, ttl=3600, renew=False) for name in named]
        await in_turns([lock.acquire for lock in locks])
        tasks = [asyncio.ensure_future(other.lock(name).acquire()) for name in named]
        await memory.until(4 * count, "DBSIZE")
        found["bytes_waiter_alone"] = memory.more(count) - found["bytes_held"]
        await _give_up(tasks)
        await in_turns([lock.release for lock in locks])


async def _give_up(tasks: list[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- renewals -------------------------------------------------------------------------------------


def renewals(address: Address, count: int, seconds: float, cost: Any, found: Measured) -> None:
    """Measure what keeping leases costs, while nothing else goes on."""

    async def run() -> float:
        async with client_of(address) as client:
            locks = [client.lock(f"{number:020d}", ttl=seconds) for number in range(count)]
            await in_turns([lock.acquire for lock in locks])
            with Line(address) as line:
                line.command("CONFIG", "RESETSTAT")
                began = time.process_time()
                with cost(address) as spent:
                    await asyncio.sleep(seconds)
                client_cpu = time.process_time() - began
                stats = line.info("commandstats")
            lost = sum(lock.lease is None or lock.lease.lost for lock in locks)
            await in_turns([lock.release for lock in locks])
        calls = _calls(stats["cmdstat_evalsha"])
        renewed = _calls(stats["cmdstat_pexpire"]) / 2  # the lock and its record
        found["renewed"], found["renewed_a_command"] = renewed, renewed / calls
        found["renewals_server_ms"] = spent.cpu / renewed * 1e6
        found["renewals_client_ms"] = client_cpu / renewed * 1e6
        found["renewals_bytes_in"] = spent.received / renewed
        return lost

    found["renewals_lost"] = asyncio.run(run())


def _calls(text: str) -> int:
    return int(text.partition("calls=")[2].partition(",")[0])
