"""What the rules of the topologies need of connections; ``_io`` implements it.

Rules of this file:

- For threads these methods block and never suspend; for tasks of a loop they are awaited; the
  simulator suspends them into its scheduler.
- Nothing here decides anything: no retry, no redirect, no vote.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from fencelock._core.round_trips import RoundTrips
from fencelock._core.seat import Question
from fencelock._core.types import Args, Reply

Flow = Callable[[], Coroutine[Any, Any, None]]


class Latch(Protocol):
    """Opens once, and flows wait for it."""

    @property
    def is_open(self) -> bool:
        """Return True once it was opened."""

    def open(self) -> None:
        """Wake all waiting flows; later ones do not wait."""

    async def wait_until(self, until: float) -> bool:
        """Wait until it opens, or until the instant; return True if it is open."""


class Io(Protocol):
    """The clock, and flows that run in the background."""

    def now(self) -> float:
        """Return the monotonic instant, in seconds."""

    def mutex(self) -> AbstractContextManager[Any]:
        """Guard shared tables; nothing may be awaited inside."""

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a thread or task of this name; False when none can be started.

        What it raises is logged.
        """

    def latch(self) -> Latch:
        """Return a new latch."""

    async def command(self, connection: Any, args: Args, until: float) -> Reply:
        """Run a plain command; ends like ``Wire.call``."""

    async def commands(
        self, connection: Any, several: Sequence[Args], until: float
    ) -> Sequence[Reply]:
        """Run plain commands, all sent before an answer is awaited; ends like ``Wire.call``."""


class NodeConnections(Protocol):
    """The connections to one node."""

    def idle(self) -> Any:
        """Return an open connection; None when there is none."""

    def give(self, connection: Any) -> None:
        """Keep a connection for the next caller; close one with an unread answer."""


class NodeIo(Io, Protocol):
    """Connections to the nodes of a Cluster.

    Each has the ``node`` that it leads to, a ``name`` with which the channels begin that it hears
    for waiters, and these ``channels`` by slot. It is ``sound`` while it may be asked something.
    """

    trips: RoundTrips  # to the slowest node

    def caller(self) -> Hashable:
        """Return an identity of the running thread or task."""

    async def run(
        self, connection: Any, packed: bytes, until: float, *, asking: bool = False
    ) -> Reply:
        """Run a packed request; ends like ``Wire.call``. ``asking``: right behind ASKING."""

    async def subscribe(
        self,
        connection: Any,
        channel: bytes,
        until: float,
        word: bytes,
        *,
        asking: bool,
    ) -> None:
        """Listen to a channel; ends like ``run``."""

    @property
    def at(self) -> Mapping[Any, NodeConnections]:
        """Return the connections by node; not of one to which there never was any."""

    async def lend(self, node: Any, until: float) -> Any:
        """Return a connection to a node, opened if there is none.

        For threads it is the caller's alone, until it is given back; tasks share it. NoReply when
        there was none by ``until``, and a ServerError when the server refuses.
        """

    async def exchange(
        self, asks: Sequence[Question], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

        That is ``latest`` until answers come. Every question has ended then: one without an answer
        with NoReply, and its connection is asked nothing new. A cancellation leaves some that have
        not.
        """

    def put_back(self, asks: Sequence[Question]) -> None:
        """Take the connections of questions back."""
