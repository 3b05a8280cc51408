"""A lock in Redisson's layout: our clients, and threads of Java programs that do as Redisson does.

Redisson's scripts are written here anew, as far as they decide: who may enter, and what a release
does. A Java thread does not repeat a request whose answer was lost: its lock ends by its ttl then.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from fencelock._core.deadlines import validity
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.redisson import ONE_TURN, RedissonKeys, RedissonTerms
from fencelock._core.seat import Seat
from fencelock._core.types import NoReply
from fencelock.errors import ServerError
from fencelock.options import LeaseOptions
from fencelock.scripts import Script
from verification.simulator.actors import GAVE_UP, Actor
from verification.simulator.cohorts import TurnsMonitor
from verification.simulator.hashes import Hash
from verification.simulator.keyspace import NEVER, Frozen
from verification.simulator.monitor import Violation
from verification.simulator.network import NEVER_US, Client, World
from verification.simulator.server import EPOCH_US, Request
from verification.simulator.view import NO_LINE, View

LOCK: Final = RedissonKeys("lock", fenced=False)
FENCED: Final = RedissonKeys("lock", fenced=True)
JAVA_LOCK: Final = Script("java_lock")
JAVA_UNLOCK: Final = Script("java_unlock")
# KEYS lock channel   ARGV 1 field 2 ttl ms
SOURCES: Final = {
    "java_lock": b"""
        if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
          redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
          redis.call('PEXPIRE', KEYS[1], ARGV[2])
          return nil
        end
        return redis.call('PTTL', KEYS[1])""",
    "java_unlock": b"""
        if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end
        if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
          redis.call('PEXPIRE', KEYS[1], ARGV[2])
          return 0
        end
        redis.call('DEL', KEYS[1])
        redis.call('PUBLISH', KEYS[2], '0')
        return 1""",
}
JAVA_SECONDS: Final = 3.0  # how long its lease is
# Who may take a lock from its holder: the holder.
RELEASING: Final = frozenset({"redisson_count", "java_unlock"})


class RedissonActor(Actor):
    """One user of the lock in one of our processes."""

    keys = LOCK

    def request(
        self, options: LeaseOptions, *, owner: bytes | None = None, left: float = 0.0
    ) -> Hold:
        """Return a fresh request, as a handle makes it."""
        del owner, left
        terms = RedissonTerms(
            client=lambda: self.client.name,
            numbers=vars(self.port).setdefault("numbers", count(1)),
            publishes=self.port.publishes,
            keys=self.keys,
            options=options._replace(cohort=ONE_TURN),
            client_channel=self.port.client_channel,
            ttl=options.ttl,
        )
        return Hold(terms, terms.field())


class JavaThread:
    """A thread of a Java program, in a process of its own."""

    def __init__(self, world: World, client: Client) -> None:
        self.world, self.port = world, client.port
        self.client = client
        self.field = f"{client.name}:1".encode()
        self.keys = (LOCK.lock, LOCK.topic)
        self.until = 0.0  # its lease lasts, by its clock
        monitor: Any = world.monitor
        monitor.threads.append(self)

    async def turn(self, work: float) -> None:
        """Lock, work and unlock; end when an answer is lost, or at a signal."""
        seat = Seat.of(LOCK, self.field)
        seat.topic = LOCK.topic
        try:
            await self._lock(seat)
            await self.port.sleep(self.port.now() + work)
            await self._unlock()
        except (NoReply, ServerError, *GAVE_UP):
            if not self.world.faulty:
                raise
        finally:
            self.until = 0.0
            self.port.close(seat)

    async def _lock(self, seat: Seat) -> None:
        """Ask; then listen, and ask again at each message, and when the holder's lease ends."""
        while (left_ms := await self._ask()) is not None:
            if not seat.channel or seat.origin is None or not seat.origin.sound:
                await self.port.open(seat, self.port.now() + self.port.server_timeout)
                continue
            if not seat.news:
                await self.port.wait(seat, self.port.now() + (left_ms + 1) / 1000)
            seat.news = False

    async def _ask(self) -> Any:
        asked_at = self.port.now()
        args = (self.field, int(JAVA_SECONDS * 1000))
        until = asked_at + self.port.server_timeout
        left_ms = await self.port.call(JAVA_LOCK, self.keys, args, until)
        if left_ms is None:
            self.until = asked_at + validity(JAVA_SECONDS)
        return left_ms

    async def _unlock(self) -> None:
        lasts, self.until = self.until > self.port.now(), 0.0
        args = (self.field, int(JAVA_SECONDS * 1000))
        until = self.port.now() + self.port.server_timeout
        reply = await self.port.call(JAVA_UNLOCK, self.keys, args, until)
        if reply is None and lasts:
            raise Violation("I1", f"{self.field!r} lost its lock while its lease lasted")


class RedissonMonitor(TurnsMonitor):
    """A monitor of a lock in Redisson's layout, which has no line; its fences are tokens."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.threads: list[JavaThread] = []
        self._token = 0

    def holds_now(self, client: Client, hold: Hold) -> None:
        """Note a lease; see that its token is higher than all before it (I3)."""
        super().holds_now(client, hold)
        if hold.terms.keys is FENCED:
            if hold.fence <= self._token:
                raise Violation("I3", f"token {hold.fence} after {self._token}")
            self._token = hold.fence

    def view(self) -> View:
        """Return the lock as it stands on the server."""
        view = read(self._server.state)
        return view if view.end_us > self._server.now_us else view._replace(holder=None)

    def flushed(self) -> None:
        """Note that the server forgot everything: what Java programs hold, too."""
        super().flushed()
        for thread in self.threads:
            thread.until = 0.0

    def check(self) -> None:
        """Check also what the threads of Java programs believe (I1)."""
        super().check()
        for thread in self.threads:
            if thread.client.alive and thread.port.now() < thread.until:
                view = self.view()
                if view.holder != thread.field:
                    raise Violation("I1", f"{view.holder!r} has the lock of {thread.field!r}")

    def _may_give_up(self, request: Request, before: View) -> None:
        if request.name not in RELEASING or before.holder not in request.args:
            raise Violation("I1", f"{request!r} took the lock from {before.holder!r}")

    def end_us(self) -> int:
        """Return the world's instant at which the lock will be free if nobody does anything."""
        return self.view().end_us - EPOCH_US - self._world.skew_us

    def _nothing_in_time(self) -> None:
        """See that nothing of ours is left: the token is for ever, as Redisson's."""
        token = FENCED.beside(b"redisson_lock_token")
        kept = self._server.state
        self._server.state = frozenset(each for each in kept if each[0] != token)
        super()._nothing_in_time()
        self._server.state = kept


def read(state: Frozen) -> View:
    """Return the lock in a frozen keyspace, whatever the time."""
    holder, end_us, fence = None, 0, 0
    for key, (value, end_ms) in state:
        if key == LOCK.lock and isinstance(value, Hash) and value:
            holder = b" and ".join(sorted(value))  # nothing of ours releases two at once
            end_us = NEVER_US if end_ms == NEVER else (end_ms + 1) * 1000
        elif key == FENCED.beside(b"redisson_lock_token"):
            fence = int(value)
    return View(holder, end_us, fence, NO_LINE, frozenset())
