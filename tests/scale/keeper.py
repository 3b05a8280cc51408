"""A process that holds very many leases and measures itself while it does.

python -m tests.scale.keeper threads|tasks URL COUNT TTL

Answers each line that it reads with one JSON line: ``hold`` takes the leases, ``renewed N`` waits
until each was renewed so often, ``begin`` starts to measure, ``report`` tells what was seen since,
``tick`` looks from now on how late a timer of 1 ms comes, ``pairs N`` times acquire+release pairs
on a lock of its own, ``lose`` waits until every loss was told, ``give`` releases all, ``close``
closes.
"""

import asyncio
import gc
import json
import logging
import os
import resource
import statistics
import sys
import threading
import time
from pathlib import Path

import fencelock
from fencelock._runtime.clock import now

TICK_SECONDS = 0.001
PAUSE_SECONDS = 0.2
BURST = 1000  # tasks that acquire side by side
PAIRS_PER_ROUND = 50
NAME = "many"


def resident():
    """Return the memory of this process, in bytes (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Keeper:
    """What both faces measure; ``lost`` collects what ``on_lost`` is told."""

    def __init__(self, url, count, ttl):
        self.url, self.count, self.ttl = url, int(count), float(ttl)
        self.locks, self.lost, self.late = [], [], 0.0
        self.began = (now(), time.process_time())

    def options(self):
        return {"ttl": self.ttl, "on_lost": self.lost.append}

    def make(self):
        names = (f"{NAME} {number}" for number in range(self.count))
        self.locks = [self.client.lock(name, **self.options()) for name in names]

    def renewals(self):
        """Return how often the least renewed of all leases was renewed."""
        holds = [hold for lock in self.locks for hold in lock._holds.held]
        return min((hold.renewals for hold in holds), default=0)

    def begin(self):
        self.late = 0.0
        self.began = (now(), time.process_time())
        return {}

    def ticked(self, due):
        """Note how late a tick came that was due then: what kept this process from running."""
        self.late = max(self.late, now() - due)

    def report(self):
        seconds = now() - self.began[0]
        leases = [lock.lease for lock in self.locks]
        return {
            "seconds": seconds,
            "cpu": time.process_time() - self.began[1],
            "stall ms": self.late * 1000,
            "told": len(self.lost),
            "lost": sum(lease is None or lease.lost for lease in leases),
            "renewals": self.renewals(),
            "threads": sorted(each.name for each in threading.enumerate()),
            "collections": gc.get_stats()[2]["collections"],
        }

    def measured_hold(self, began, memory):
        return {
            "seconds": now() - began[0],
            "cpu": time.process_time() - began[1],
            "bytes": (resident() - memory) / max(1, self.count),
            "held": sum(lock.lease is not None for lock in self.locks),
        }


class Threads(Keeper):
    """The blocking face."""

    def __init__(self, *args):
        super().__init__(*args)
        self.client = fencelock.Client(self.url)
        self.stop = threading.Event()

    def tick(self):
        threading.Thread(target=self.ticking, name="ticker", daemon=True).start()
        return {}

    def ticking(self):
        while True:
            due = now() + TICK_SECONDS
            if self.stop.wait(TICK_SECONDS):
                return
            self.ticked(due)

    def hold(self):
        memory, began = resident(), (now(), time.process_time())
        self.make()
        for lock in self.locks:
            lock.acquire()
        return self.measured_hold(began, memory)

    def pairs(self, rounds):
        lock, took = self.client.lock("pair"), []
        for _ in range(int(rounds)):
            began = now()
            for _ in range(PAIRS_PER_ROUND):
                lock.acquire()
                lock.release()
            took.append((now() - began) / PAIRS_PER_ROUND)
        return {"pair us": statistics.median(took) * 1e6, "least us": min(took) * 1e6}

    def until(self, true):
        pause = threading.Event()
        while not true():
            pause.wait(PAUSE_SECONDS)
        return self.report()

    def lose(self):
        return self.until(lambda: len(self.lost) >= self.count)

    def renewed(self, times):
        goal = self.renewals() + int(times)
        return self.until(lambda: self.renewals() >= goal or self.lost)

    def give(self):
        began = now()
        for lock in self.locks:
            lock.release()
        self.locks = []
        return {"seconds": now() - began}

    def close(self):
        self.stop.set()
        began = now()
        self.client.close()
        return {"seconds": now() - began, "told": len(self.lost)}

    def run(self):
        for line in sys.stdin:
            do, *args = line.split()
            say(getattr(self, do)(*args))


class Tasks(Keeper):
    """The asyncio face."""

    def tick(self, due=None):
        if due is not None:
            self.ticked(due)
        loop = asyncio.get_running_loop()
        loop.call_later(TICK_SECONDS, self.tick, now() + TICK_SECONDS)
        return {}

    async def each(self, act):
        """Run ``act`` for every lock, in tasks side by side."""
        for start in range(0, self.count, BURST):
            await asyncio.gather(*map(act, self.locks[start : start + BURST]))

    def report(self):
        """Name the other tasks too; that alone takes long where very many have ended."""
        told = super().report()
        names = {task.get_name() for task in asyncio.all_tasks()}
        return {**told, "tasks": sorted(names - {asyncio.current_task().get_name()})}

    async def hold(self):
        memory, began = resident(), (now(), time.process_time())
        self.make()
        await self.each(lambda lock: lock.acquire())
        return self.measured_hold(began, memory)

    async def pairs(self, rounds):
        lock, took = self.client.lock("pair"), []
        for _ in range(int(rounds)):
            began = now()
            for _ in range(PAIRS_PER_ROUND):
                await lock.acquire()
                await lock.release()
            took.append((now() - began) / PAIRS_PER_ROUND)
        return {"pair us": statistics.median(took) * 1e6, "least us": min(took) * 1e6}

    async def until(self, true):
        loop = asyncio.get_running_loop()
        while not true():
            again = loop.create_future()
            loop.call_later(PAUSE_SECONDS, again.set_result, None)
            await again
        return self.report()

    async def lose(self):
        return await self.until(lambda: len(self.lost) >= self.count)

    async def renewed(self, times):
        goal = self.renewals() + int(times)
        return await self.until(lambda: self.renewals() >= goal or self.lost)

    async def give(self):
        began = now()
        await self.each(lambda lock: lock.release())
        self.locks = []
        return {"seconds": now() - began}

    async def close(self):
        began = now()
        await self.client.aclose()
        return {"seconds": now() - began, "told": len(self.lost)}

    async def serve(self):
        self.client = fencelock.AsyncClient(self.url)
        loop = asyncio.get_running_loop()
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            do, *args = line.decode().split()
            answer = getattr(self, do)(*args)
            answer = await answer if asyncio.iscoroutine(answer) else answer
            say(answer)

    def run(self):
        asyncio.run(self.serve())


def say(value):
    print(json.dumps(value), flush=True)  # noqa: T201 - how it talks to its parent


if __name__ == "__main__":
    logging.disable()  # a line for each of very many losses
    {"threads": Threads, "tasks": Tasks}[sys.argv[1]](*sys.argv[2:5]).run()
    os._exit(0)  # without the handles' complaints that they were dropped while they held
