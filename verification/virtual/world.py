"""Clients at work in virtual time, what befalls them, and what must hold all the while.

Rules of this file:

- Each grant is judged at the instant the caller gets it: nobody else's lease of that object can
  still be proved (I1), and its fence is higher than all before (I3).
- A process that was killed has no lease any more; what it left behind ends by itself.
- At the end of every round, when all have stopped, nothing is held or waited for, and every key
  ends by itself (I9, I10).
- The server's clock stays within the drift that leases allow for: what the promise excludes is no
  fault of this run.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import fencelock
from fencelock._handles import handle
from verification.virtual.loop import VirtualLoop, number_objects
from verification.virtual.weather import Weather
from verification.virtual.wire import Server

CLIENTS = 5
WORKERS = 3
LIMIT = 2
CANCELLED = 0.1  # of all that is asked
TTLS = (1.0, 3.0, 10.0, 30.0)
PREFIX = "v:"
# Time for what was given up to end: the longest ttl, and a record's life is not waited for.
SETTLE_SECONDS = max(TTLS) + 60.0


class Member(NamedTuple):
    """One process."""

    host: str
    client: fencelock.AsyncClient
    tasks: list[asyncio.Task[None]]


class Tenure:
    """A lease that somebody has, and how much of the object it takes."""

    def __init__(self, lease: Any, share: str) -> None:
        self.lease = lease
        self.share = share

    def proved(self, now: float) -> bool:
        return not self.lease.lost and self.lease.deadline > now


class World:
    """One run: a server, its clients, and a list of everything that went wrong."""

    def __init__(self, loop: VirtualLoop, seed: int, drift: float) -> None:
        self.loop = loop
        self.dice = random.Random(f"world {seed}")
        self.server = Server(loop, random.Random(f"wire {seed}"))
        loop.connect = self.server.connect
        number_objects(handle)  # requests carry the numbers of tasks
        self.tenures: dict[str, dict[Tenure, None]] = {}
        self.fences: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.members: list[Member] = []
        dice = random.Random(f"weather {seed}")
        self.weather = Weather(self.server, dice, self.replace, drift=drift)
        self.working = False
        self._hosts = itertools.count()

    def say(self, what: str) -> None:
        """Note something that must not be."""
        self.violations.append(f"{self.loop.time():.6f}: {what}")

    # -- rounds ---------------------------------------------------------------------------------

    async def round(self, seconds: float) -> None:
        """Work under faults for a while, stop, and look at what is left."""
        end = self.loop.time() + seconds
        self.working = True
        self.members = [self.join() for _ in range(CLIENTS)]
        while (left := end - self.loop.time()) > 0:
            await asyncio.sleep(min(left, self.weather.pause()))
            self.weather.strike()
        self.working = False
        self.weather.calm()
        for member in self.members:
            await self.leave(member)
        await asyncio.sleep(SETTLE_SECONDS)
        self.check_left()

    def join(self) -> Member:
        """Start a process: a client, and its tasks."""
        number = next(self._hosts)
        host = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"  # no name: no resolver
        client = fencelock.AsyncClient(f"redis://{host}:6379", key_prefix=PREFIX)
        seeds = [self.dice.random() for _ in range(WORKERS)]
        tasks = [self.loop.create_task(self.work(client, random.Random(seed))) for seed in seeds]
        return Member(host, client, tasks)

    async def leave(self, member: Member) -> None:
        """Let a process come to its end."""
        await asyncio.wait(member.tasks)
        for task in member.tasks:
            if not task.cancelled() and task.exception() is not None:
                self.say(f"a worker ended with {task.exception()!r}")
        await member.client.aclose()

    def replace(self) -> None:
        """Kill a process: not one byte of it arrives any more. Another one takes its place."""
        number = self.dice.randrange(CLIENTS)
        member, self.members[number] = self.members[number], self.join()
        self.server.dead.add(member.host)
        for wire in self.weather.wires(member.host):
            wire.drop()
        for task in member.tasks:
            task.cancel()
        self.loop.create_task(self.leave(member))

    def check_left(self) -> None:
        space = self.server.space
        space.now_us = int(self.server.now_us())
        left = space.keys()
        for key in left:
            if space.expires_ms(key) == -1:
                self.say(f"{key!r} never expires")
            elif b"~record" not in key and b"~revoked" not in key:
                self.say(f"{key!r} is still there")

    # -- work -----------------------------------------------------------------------------------

    async def work(self, client: fencelock.AsyncClient, dice: random.Random) -> None:
        """Take turns at the objects until the round ends."""
        while self.working:
            await asyncio.sleep(dice.expovariate(1 / 3.0))
            name, share, handle = self.chosen(client, dice)
            try:
                await self.turn(name, share, handle, dice)
            except fencelock.FencelockError as error:
                self.counts[type(error).__name__] += 1

    def chosen(self, client: fencelock.AsyncClient, dice: random.Random) -> tuple[str, str, Any]:
        """Return an object's name, the share of it that is asked for, and a handle."""
        options: dict[str, Any] = {"ttl": dice.choice(TTLS), "renew": dice.random() < 0.8}
        makers: tuple[tuple[str, str, Callable[[], Any]], ...] = (
            ("lock-a", "all", lambda: client.lock("lock-a", **options)),
            ("lock-b", "all", lambda: client.lock("lock-b", **options)),
            ("again", "all", lambda: client.rlock("again", owner=f"{dice.random()}", **options)),
            ("permits", "one", lambda: client.semaphore("permits", LIMIT, **options)),
            ("sides", "read", lambda: self.sides(client, options).read),
            ("sides", "write", lambda: self.sides(client, options).write),
        )
        name, share, make = dice.choice(makers)
        return name, share, make()

    def sides(self, client: fencelock.AsyncClient, options: dict[str, Any]) -> Any:
        ttl = options["ttl"]
        return client.rwlock("sides", read_ttl=ttl, write_ttl=ttl, renew=options["renew"])

    async def turn(self, name: str, share: str, handle: Any, dice: random.Random) -> None:
        """Ask, hold for a while, give back; some are cancelled at any instant."""
        end = dice.expovariate(1.0) if dice.random() < CANCELLED else None
        try:
            async with asyncio.timeout(end):
                granted = await self.ask(handle, dice)
        except TimeoutError:
            self.counts["cancelled"] += 1
            return
        self.counts["granted" if granted else "not granted"] += 1
        if not granted:
            return
        with self.held(name, share, handle.lease) as lease:
            await self.hold(lease, dice)
        await handle.release()

    async def ask(self, handle: Any, dice: random.Random) -> bool:
        if dice.random() < 0.2:
            return bool(await handle.acquire(blocking=False))
        return bool(await handle.acquire(timeout=dice.choice((0.5, 5.0, 60.0))))

    async def hold(self, lease: Any, dice: random.Random) -> None:
        """Work on, mostly shorter than a lease, sometimes much longer; end when it is lost."""
        end = self.loop.time() + dice.choice((0.01, 0.5, 2.0, 2.0, 5.0, 40.0)) * dice.random()
        while (left := end - self.loop.time()) > 0 and not lease.lost:  # noqa: ASYNC110 - as a worker does
            await asyncio.sleep(min(left, 1.0))

    @contextlib.contextmanager
    def held(self, name: str, share: str, lease: Any) -> Iterator[Any]:
        """Judge a grant, and remember it while its holder has it."""
        tenure, now = Tenure(lease, share), self.loop.time()
        others = self.tenures.setdefault(name, {})
        beside = [other.share for other in others if other.proved(now)]
        if tenure.proved(now) and not fits(share, beside):
            self.say(f"{name}: {share} granted beside {beside}")
        if share not in {"one", "read"} and lease.fence <= self.fences.get(name, 0):
            self.say(f"{name}: fence {lease.fence} after {self.fences[name]}")
        self.fences[name] = max(lease.fence, self.fences.get(name, 0))
        others[tenure] = None
        try:
            yield lease
        finally:
            del others[tenure]


def fits(share: str, beside: list[str]) -> bool:
    """Return True if a share may be held beside those."""
    if share == "one":
        return len(beside) < LIMIT
    return not beside or (share == "read" and set(beside) == {"read"})
