"""A rung of the ladder: a version of a lock, and the worlds in which a schedule breaks it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from verification.ladder import locks, sides
from verification.ladder.judge import Witness
from verification.ladder.user import Lock, User
from verification.simulator.server import Server
from verification.simulator.shortest import Path, Shortest, shortest
from verification.simulator.simulation import World

CLIENT_FAULTS = {"crash": 1, "pause": 1, "late": 1}
SCRIPTS = {**locks.SCRIPTS, **sides.SCRIPTS}


class Role(Protocol):
    """What one process does: it is started in the world."""

    def __call__(self, world: World) -> None: ...

    def mended(self, mended: Callable[[Any], Lock]) -> "Role": ...


@dataclass(frozen=True)
class Uses:
    """A process that comes after a while, uses a lock once, and works so long under it."""

    make: Callable[[], Lock]
    work: float
    after: float = 0.0
    clock: float = 0.0  # how far its wall clock is ahead

    def __call__(self, world: World) -> None:
        user = User(world, clock=self.clock)
        user.begin(user.life(self.make(), work=self.work, after=self.after))

    def mended(self, mended: Callable[[Any], Lock]) -> "Uses":
        """Return the same with the next version of its lock."""
        return replace(self, make=lambda: mended(self.make()))

    def __str__(self) -> str:
        comes = f"comes after {self.after} s and " if self.after else ""
        clock = f", its clock {self.clock} s ahead" if self.clock else ""
        return f"{comes}works {self.work} s{clock}"


@dataclass(frozen=True)
class Break:
    """A world, the faults that may strike in it, and what is to be broken there."""

    wanted: str
    roles: tuple[Role, ...]
    why: str  # one sentence for the page, above the chart
    faults: Mapping[str, int] = field(default_factory=lambda: CLIENT_FAULTS)
    faults_max: int = 1
    nodes: int = 1
    replicated: bool = False
    cluster: bool = False
    timeless: bool = True  # a key without an expiry holds its lock for ever
    monitor: type[Witness] = Witness
    # The next version in the same world, which should not break there under these faults.
    mended: Callable[[Any], Lock] | None = None  # the old lock → the new one
    mended_faults: Mapping[str, int] | None = None

    def with_mended(self) -> "Break | None":
        """Return the same world, with the version that mends this."""
        mended = self.mended
        if mended is None:
            return None
        roles = tuple(role.mended(mended) for role in self.roles)
        faults = self.faults if self.mended_faults is None else self.mended_faults
        return replace(self, roles=roles, faults=faults, mended=None)

    def servers(self) -> list[Server]:
        """Return simulated servers for it."""
        more = {"cluster": self.cluster, "replicated": self.replicated}
        return [Server(SCRIPTS, **more) for _ in range(self.nodes)]

    def world(self, servers: list[Server]) -> World:
        """Return the world at its first instant, on the given servers."""
        world = World(
            servers[0],
            others=servers[1:],
            budgets=self.faults,
            faults_max=self.faults_max,
            monitor=self.monitor,
        )
        world.monitor.timeless = self.timeless  # type: ignore[attr-defined]  # a Witness
        for role in self.roles:
            role(world)
        return world

    @cached_property
    def search(self) -> Shortest:
        """Find a shortest schedule; the same each time."""
        servers = self.servers()
        return shortest(
            lambda *_: self.world(servers), servers[0], wanted=lambda name: name == self.wanted
        )

    @property
    def given(self) -> str:
        """Return which processes the search was given."""
        return "; ".join(f"{name} {role}" for name, role in zip("ABC", self.roles, strict=False))

    @property
    def faults_given(self) -> str:
        """Return which faults may strike."""
        return f"{', '.join(self.faults)}; at most {self.faults_max}" if self.faults else "none"

    @property
    def path(self) -> Path:
        """Return the schedule that was found."""
        return self.search.found[self.wanted]


@dataclass(frozen=True)
class Rung:
    """A version: its name, the idea, what breaks it, and how the next one mends it."""

    name: str
    idea: str
    breaks: tuple[Break, ...]
    mend: str
