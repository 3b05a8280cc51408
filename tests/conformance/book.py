"""The second time: a scenario is played twice on the same clients, with a rest in between.

State that must be reset at reuse shows only then: a call after one that failed, the renewal
thread's second life, a second sending of history, a second round of one wait.

All scenarios of a file are played once, and their clients left open in the book. Then all are
played again, each ``REST_SECONDS`` after its first play or later, when the threads of its clients
have ended: so the rests overlap. What a first play left held is revoked as an operator does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import fencelock
from fencelock._core import events
from fencelock._runtime.clock import now
from fencelock.instrumentation.metrics import MetricsHook, Sink
from fencelock.instrumentation.order import OrderChecker

if TYPE_CHECKING:
    from tests.conformance.world import Made, World

FIRST, SECOND = "first-play", "second-play"
PLAYS = (FIRST, SECOND)
# The renewal thread ends after a second without leases.
REST_SECONDS = 2.0


class Gauges(Sink):
    """Keeps nothing of metrics but who waits and who holds."""

    def __init__(self) -> None:
        super().__init__(lambda *_: abs)
        self.members: set[int] = set()

    def gauge(self, *_: object) -> set[int]:
        return self.members


class Book:
    """The worlds of this process that were played once."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[World, list[Made], float]] = {}
        self.runner = asyncio.Runner()  # of all of them: clients belong to a loop

    @property
    def is_empty(self) -> bool:
        """Return True while no client waits for its second play."""
        return not self._left

    @contextlib.contextmanager
    def hooked(self) -> Iterator[Sequence[Any]]:
        """Have hooks that pair events installed during a play."""
        sink = Gauges()
        hooks = (MetricsHook(sink, templates_max=1000), OrderChecker())
        for each in hooks:
            events.install(each)
        try:
            yield (*hooks, sink)
        finally:
            for each in hooks:
                events.uninstall(each)

    def begin(self, world: World, case: str) -> None:
        """Take a scenario's first play."""
        world.book, world.case = self, case

    def leave(self, world: World, made: list[Made]) -> None:
        """Keep the clients of a first play."""
        self._left[world.case] = world, made, now()

    def take(self, world: World, case: str) -> bool:
        """Give a second play the clients of the first, after their rest; False if it failed."""
        found = self._left.pop(case, None)
        if found is None:
            return False
        first, made, at = found
        world.rested_at = at + REST_SECONDS
        world.book, world.is_second, world.prefix = self, True, first.prefix
        world.take_over(made)
        return True

    def revoke_all(self, world: World) -> None:
        """Take away what the clients of a world hold, as an operator does."""
        with fencelock.Client(world.server.url, key_prefix=world.prefix) as operator:
            for status in operator.locks():
                operator.revoke(status.name, reason="the first play is over")

    def close(self) -> None:
        """Close the clients that were not used again."""
        while self._left:  # the book is empty when only the last world has connections
            _, (world, made, _) = self._left.popitem()
            world.take_over(made)
            world.run(_nothing())
        self.runner.close()


async def _nothing() -> None:
    """Play nothing."""


@functools.cache
def the_book() -> Book:
    """Return the one of this process."""
    return Book()
