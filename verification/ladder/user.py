"""One process of the ladder: what a historical lock's program can do, and how it uses its lock."""

from collections.abc import Iterable
from typing import Any, Protocol

from fencelock._core.types import NoReply
from fencelock.errors import ServerError
from fencelock.scripts import Script
from verification.ladder.judge import REFUSED, Claim, Key, Witness
from verification.simulator.network import Client
from verification.simulator.port import SimulatedPort
from verification.simulator.simulation import World

# How long a program waits for an answer. They are slow to give up, as their articles are.
PATIENCE = 5.0


class Lock(Protocol):
    """A historical lock: ``acquire`` tells whether it was got."""

    name: bytes
    shared: bool

    def keys(self, user: "User") -> Iterable[Key]: ...

    async def acquire(self, user: "User") -> bool: ...

    async def release(self, user: "User") -> None: ...


class User:
    """A process with its clock, its connections and what it says to the judge."""

    def __init__(self, world: World, *, clock: float = 0.0) -> None:
        self.world = world
        self.client: Client = world.client(shared=False, server_timeout=PATIENCE, keeper=False)
        self.judge: Witness = world.monitor  # type: ignore[assignment]  # what the ladder runs with
        self._clock = clock  # how far its wall clock is ahead
        self._ports = [self.client.port] + [
            SimulatedPort(world, self.client, shared=False, server_timeout=PATIENCE, server=server)
            for server in world.servers[1:]
        ]
        self.memory: dict[Any, Any] = {}  # what the program keeps between acquire and release

    # -- the world ------------------------------------------------------------------------------

    async def ask(self, *words: bytes | int, node: int = 0) -> Any:
        """Send a plain command."""
        port = self._ports[node]
        return await port.command(words, b"", self.now() + PATIENCE)

    async def run(
        self, script: str, keys: Iterable[bytes], *args: bytes | int, node: int = 0
    ) -> Any:
        """Run a script of the program."""
        port = self._ports[node]
        return await port.call(Script(script), tuple(keys), args, self.now() + PATIENCE)

    def now(self) -> float:
        """Return the monotonic clock."""
        return self.client.port.now()

    def wall(self) -> float:
        """Return the wall clock, in seconds since a common instant, as far as it is set right."""
        return 100 + self.world.now_us / 1e6 + self._clock

    def new_id(self) -> bytes:
        """Return an id that nobody else has."""
        return self.client.port.new_id()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await self.client.port.sleep(self.now() + seconds)

    def begin(self, flow: Any) -> None:
        """Start another task of this process; it ends quietly when a server does not answer."""
        self.world.start(self.client, self._guarded(flow))

    async def _guarded(self, flow: Any) -> None:
        try:
            await flow
        except NoReply:
            self.judge.note(self.client, "gives up: no answer")
        except ServerError as error:
            self.judge.note(self.client, "gives up: an error")
            if "CROSSSLOT" in str(error):
                self.judge.breaks(REFUSED, f"{self.client.name}'s script: {error}")

    # -- what it does with its lock -------------------------------------------------------------

    async def life(
        self, lock: Lock, *, work: float, tries: int = 1, every: float = 0.4, after: float = 0.0
    ) -> None:
        """Come after a while, try so often, work under the lock, and give it back."""
        if after:
            await self.sleep(after)
        for left in reversed(range(tries)):
            if await lock.acquire(self):
                self.claims(lock)
                await self.work(lock, work)
                break
            self.judge.refused(self.client)
            if left:
                await self.sleep(every)

    async def work(self, lock: Lock, seconds: float) -> None:
        """Work for a while, and give the lock back."""
        await self.sleep(seconds)
        self.judge.ends(self.client, lock.name)
        await lock.release(self)

    def claims(self, lock: Lock) -> None:
        """Tell the judge that it has the lock, as long as it believes so."""
        until = self.memory.get((lock.name, "until"), float("inf"))
        lasts = lambda: self.now() < until  # noqa: E731 - shortest so
        keys = frozenset(lock.keys(self))
        self.judge.claim(Claim(self.client, lock.name, keys, lock.shared, lasts))
