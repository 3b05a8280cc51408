"""The moving parts between flows and server: connections, tasks and client processes.

Nothing here decides what happens next; the simulation does. A message is on its way in one of a
connection's two queues until a step takes it out, in order. What the parts below the simulation ask
of a port and of the world is here as well, so that no import goes in a circle.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fencelock._core.seat import Seat
from fencelock._core.types import Carrier
from verification.simulator.server import Request, Server

if TYPE_CHECKING:
    from verification.simulator.port import SimulatedPort

NEVER_US = 1 << 62


@types.coroutine
def trap(state: State) -> Generator[State, Any, Any]:
    """Suspend the flow until the simulation resumes it."""
    return (yield state)


class State:
    """What a suspended task waits for; ``until_us`` on the world's clock."""

    __slots__ = ("kind", "link", "port", "until_us", "waiter")

    def __init__(
        self,
        kind: str,
        until_us: int,
        link: Link | None = None,
        waiter: Seat | None = None,
        port: SimulatedPort | None = None,
    ) -> None:
        self.kind: str = kind  # call, wait, sleep, mind, sending
        self.until_us: int = until_us
        self.link: Link | None = link
        self.waiter: Seat | None = waiter
        self.port: SimulatedPort | None = port  # whose leases are minded

    def reads(self, link: Link) -> bool:
        """Return True if the task would read this connection now."""
        return self.link is link


class Item(NamedTuple):
    """A message on its way to the client: the reply to a request, or a push (no request)."""

    request: Request | None
    value: Any


class Link(Carrier):
    """One connection: in order in both directions.

    ``sound``: the client may ask on it. ``closed``: the client is gone from it, but the server
    still reads what it was sent before. ``stalled``: no byte passes, and nobody knows until it
    dies.
    """

    __slots__ = (
        "apart",
        "blocked_down_us",
        "blocked_up_us",
        "channel",
        "channels",
        "client",
        "closed",
        "dies_us",
        "down",
        "fresh",
        "generation",
        "late_down",
        "late_up",
        "name",
        "node",
        "number",
        "owed",
        "port",
        "seat_of",
        "server",
        "silent",
        "silent_since",
        "sound",
        "stalled",
        "topics",
        "up",
    )

    def __init__(self, client: Client, number: int, server: Server, port: SimulatedPort) -> None:
        self.client: Client = client
        self.port: SimulatedPort = port
        self.number: int = number
        self.server: Server = server
        self.up: list[Request] = []
        self.down: list[Item] = []
        self.sound: bool = True
        self.silent: bool = False  # it was given up for another: undos go behind what it brings
        self.fresh: bool = True  # nothing was answered on it yet
        self.closed: bool = False
        self.stalled: bool = False
        self.dies_us: int = NEVER_US
        self.owed: int = 0  # answers that did not come yet
        self.silent_since: float = 0.0  # by the process's clock: nothing came while one was owed
        self.channel: bytes = b""
        # In a Cluster: where it leads, the channels that it hears, by slot, and how they begin.
        self.node: Any = None
        self.channels: dict[int, bytes] = {}
        self.topics: dict[bytes, list[Seat]] = {}  # other programs' channels, and who hears them
        self.name: bytes = b""
        self.apart: bool = False  # for acknowledgements only
        self.generation: int = 0  # of the server that it leads to
        self.seat_of: Seat | None = None  # who waits on it, with a connection each
        self.late_up: bool = False  # nothing passes before time does
        self.late_down: bool = False
        self.blocked_up_us: int = 0  # nothing passes before this instant
        self.blocked_down_us: int = 0

    @property
    def who(self) -> tuple[int, int]:
        """Return what names the connection in every schedule."""
        return (self.client.number, self.number)

    def close(self) -> None:
        """Hang up."""
        self.port.hang_up(self)

    def passes_up(self, now_us: int) -> bool:
        """Return True if a request can reach the server now."""
        return not (self.late_up or self.stalled) and self.blocked_up_us <= now_us

    def passes_down(self, now_us: int) -> bool:
        """Return True if an answer or a push can reach the process now."""
        return not (self.late_down or self.stalled) and self.blocked_down_us <= now_us

    def instants_us(self) -> tuple[int, int, int]:
        """Return when something changes by itself."""
        return self.blocked_up_us, self.blocked_down_us, self.dies_us

    def key(self) -> Any:
        """Return what of it matters for the future beside its client's history."""
        return (
            len(self.up),
            tuple((item.request is None, item.value) for item in self.down),
            (self.sound, self.closed, self.stalled, self.late_up, self.late_down),
            self.instants_us(),
            self.generation,
        )


class Task:
    """One flow on its way: a coroutine, what it waits for, and what it will be resumed with."""

    __slots__ = (
        "client",
        "coroutine",
        "done",
        "in_background",
        "keeper",
        "lane",
        "number",
        "ready",
        "state",
    )

    def __init__(
        self,
        client: Client,
        number: int,
        coroutine: Coroutine[Any, Any, None],
        *,
        keeper: bool,
        in_background: bool = False,
        lane: int = -1,
    ) -> None:
        # No user's: it is not cancelled, but the world waits for it.
        self.in_background: bool = in_background
        self.client: Client = client
        self.number: int = number
        self.coroutine: Coroutine[Any, Any, None] = coroutine
        self.keeper: bool = keeper
        self.lane: int = lane
        self.done: bool = False
        self.state: State | None = None
        self.ready: tuple[str, Any] | None = None  # ("value", reply) or ("error", exception)

    @property
    def who(self) -> tuple[int, int]:
        """Return what names the task in every schedule."""
        return (self.client.number, self.number)

    def take(self, answer: tuple[str, Any]) -> Task | None:
        """Take what its request came to; return the task that can go on with it."""
        self.ready = answer
        return self


@functools.lru_cache(maxsize=100_000)  # the same few deadlines are asked for after every step
def _first_instant(offset: float, rate: float, local: float) -> int:
    """Return the first instant of the world at which a clock shows ``local``."""
    seconds = (local - offset) / rate
    if seconds > NEVER_US / 2e6:
        return NEVER_US
    instant = max(0, int(seconds * 1e6) - 1)
    while offset + instant * rate / 1e6 < local:
        instant += 1
    return instant


class Client:
    """One process: its clock, its connections, its tasks, and the history it has seen."""

    __slots__ = (
        "alive",
        "cut_us",
        "history",
        "lanes",
        "links",
        "number",
        "offset",
        "paused_us",
        "port",
        "rate",
        "tasks",
        "touched",
        "was_cut_off",
        "was_paused",
    )

    port: SimulatedPort

    def __init__(self, number: int, offset: float, rate: float) -> None:
        self.number: int = number
        self.offset: float = offset
        self.rate: float = rate
        self.links: list[Link] = []
        self.tasks: list[Task] = []
        self.alive: bool = True
        self.paused_us: int = 0
        self.cut_us: int = 0  # nobody of it listens again before this instant
        self.was_paused: bool = False
        self.was_cut_off: bool = False  # a connection of it was silent
        self.touched: bool = False  # something happened to it: it is no longer like the others
        self.history: int = number
        self.lanes: list[int] = []  # of a quorum's nodes

    @property
    def name(self) -> str:
        """Return a letter for people."""
        return "ABCDEFGH"[self.number]

    def local(self, world_us: int) -> float:
        """Return this process's monotonic clock, in seconds."""
        return self.offset + world_us * self.rate / 1e6

    def world_us(self, local: float) -> int:
        """Return the first instant of the world at which this process's clock shows ``local``."""
        return _first_instant(self.offset, self.rate, local)

    def key(self) -> Any:
        """Return all that decides what this process can still do."""
        links = tuple([link.key() for link in self.links])
        lanes = tuple(self.lanes)
        return self.history, lanes, self.alive, self.paused_us, self.cut_us, self.touched, links

    def remember(self, *event: Any, lane: int = -1) -> None:
        """Add to the history: two equal histories make two equal processes.

        What happens in lanes of its own, as with each node of a quorum, has no order between them.
        """
        self.touched = True
        if lane < 0:
            self.history = hash((self.history, *self.lanes, event))
        else:
            self.lanes[lane] = hash((self.lanes[lane], self.history, event))


class World(Protocol):
    """What happens, as ports, faults and those who watch see it; see simulation.py."""

    server: Server
    servers: tuple[Server, ...]
    clients: list[Client]
    now_us: int
    taken: int  # steps
    running: Task | None
    budgets: dict[str, int]
    faults_left: int
    faulty: bool  # a fault has struck
    symmetric: bool
    monitor: Any  # watches it; see monitor.py

    @property
    def skew_us(self) -> int:
        """Return by how much the server's clock was set."""

    def start(
        self, client: Client, flow: Coroutine[Any, Any, None], *, keeper: bool = False
    ) -> Task:
        """Start a task in a process; it runs to its first suspension at once."""

    def throw(self, task: Task, error: BaseException) -> None:
        """Throw an exception into a flow where it is suspended."""

    def wake(self, client: Client, waiter: Seat) -> None:
        """Let the task that waits for this waiter's news run on."""

    def waits(self, client: Client, waiter: Seat) -> list[Task]:
        """Return the task that waits for this waiter's news, if one does."""

    def say(self, text: Callable[[], str]) -> None:
        """Note one line of the trace, when there is one."""

    def pass_to(self, instant: int) -> None:
        """Set the world's clock forward."""

    def link(self, action: Any) -> Link:
        """Return the connection that a step names."""

    def task(self, action: Any) -> Task:
        """Return the task that a step names."""

    def own_faults(self) -> list[Any]:
        """Return the faults that only a world of this kind has."""

    def disturb(self, kind: str) -> None:
        """Let such a fault begin."""

    def progress(self) -> list[Any]:
        """Return how what has begun may go on by itself."""
