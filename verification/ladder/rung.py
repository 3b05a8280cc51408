"""A rung of the ladder: a version of a lock, and the worlds in which a schedule breaks it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fencelock.testing.server import Server
from fencelock.testing.shortest import Path, Shortest, shortest
from fencelock.testing.simulation import World
from verification.ladder import locks, sides
from verification.ladder.judge import Witness
from verification.ladder.user import Lock, User

SCRIPTS = {**locks.SCRIPTS, **sides.SCRIPTS}

# What one process does: it is started in the world.
Role = Callable[[World], None]


def uses(make: Callable[[], Lock], *, clock: float = 0.0, **life: Any) -> Role:
    """Return a process that uses a lock once, as ``User.life`` has it."""

    def role(world: World) -> None:
        user = User(world, clock=clock)
        user.begin(user.life(make(), **life))

    return role


@dataclass(frozen=True)
class Break:
    """A world, the faults that may strike in it, and what is to be broken there."""

    wanted: str
    roles: tuple[Role, ...]
    why: str  # one sentence for the page, above the chart
    faults: Mapping[str, int] = field(default_factory=dict)
    faults_max: int = 1
    nodes: int = 1
    replicated: bool = False
    cluster: bool = False
    timeless: bool = True  # a key without an expiry holds its lock for ever
    monitor: type[Witness] = Witness

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
