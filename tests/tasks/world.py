"""What the task tests stand on: the world of both faces, of which a test runs several loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from tests.conformance import world

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
with contextlib.suppress(ImportError):  # it has no wheel for PyPy, nor for Pythons without the GIL
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


class World(world.World):
    """One test: a kind of loop, a key prefix of its own, and the clients it made."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in a new loop of this world's kind; the clients end with it."""
        with asyncio.Runner(loop_factory=LOOPS[self.face]) as runner:
            return runner.run(self._closing(work))

    async def _closing(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        finally:
            for client in self._clients:
                await client.aclose()
            for server in self._own:
                server.close()

    async def nothing_left(self, name: str = "a") -> None:
        """Wait until nobody holds the lock or stands in line for it."""
        key = self.key(name)
        await self.until(
            lambda: not (self.server.command("EXISTS", key) or self.waiting(name)), "it is free"
        )
