"""Multiplexed connections and tasks, as the rules of the topologies use them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable
from contextlib import AbstractContextManager
from typing import Any

from fencelock._core.types import Args, Reply
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.wire import ReplyError, pack, with_source
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex
from fencelock._topology.io import Flow

ASKING = pack((b"ASKING",))


class AsyncioLatch:
    """Implements ``_topology.io.Latch`` for the tasks of one loop."""

    def __init__(self) -> None:
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Return True once it was opened."""
        return self._opened.done()

    def open(self) -> None:
        """Wake all waiting tasks; later ones do not wait."""
        if not self._opened.done():
            self._opened.set_result(None)

    async def wait_until(self, until: float) -> bool:
        """Wait until it opens, or until the instant; return True if it is open."""
        while not self._opened.done() and (left := until - now()) > 0:
            await asyncio.wait({self._opened}, timeout=min(left, REST_SECONDS))
        return self._opened.done()


class AsyncioIo:
    """Implements ``_topology.io.Io`` for the tasks of one loop."""

    now = staticmethod(now)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = False

    @property
    def mutex(self) -> AbstractContextManager[Any]:
        """Guard the tables against work that the garbage collector does in between."""
        return mutex()

    def caller(self) -> Hashable:
        """Return an identity of this task."""
        return asyncio.current_task()

    async def run(
        self, connection: AsyncConnection, packed: bytes, until: float, *, asking: bool = False
    ) -> Reply:
        """Run a packed request: a script with its source after ASKING, which counts once."""
        if asking:
            _ask_next(connection, until)
            packed = with_source(packed)
        reply = await connection.run(packed, until)
        if type(reply) is ReplyError:
            return await connection.refused(reply, packed, until)
        return reply

    async def command(self, connection: AsyncConnection, args: Args, until: float) -> Reply:
        """Run a plain command."""
        return await connection.command(args, until)

    async def subscribe(
        self,
        connection: AsyncConnection,
        channel: bytes,
        until: float,
        word: bytes,
        *,
        asking: bool,
    ) -> None:
        """Listen to a channel."""
        if asking:
            _ask_next(connection, until)
        await connection.subscribe(channel, until, word)

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a task, at most until ``end``."""
        if not self._ended:
            _ = self.task(_logged(flow, name), name)
        return not self._ended

    def task(self, flow: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Return the task that runs a flow; ``end`` cancels it."""
        task = asyncio.create_task(flow, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def latch(self) -> AsyncioLatch:
        """Return a new latch."""
        return AsyncioLatch()

    async def end(self) -> None:
        """Cancel the background tasks, and wait for them to end; none is begun any more."""
        self._ended = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _ask_next(mux: AsyncConnection, until: float) -> None:
    """Send ASKING; whether it arrives is seen from what goes right behind it."""
    mux.request(ASKING, until).add_done_callback(lambda answer: answer.exception())


async def _logged(flow: Flow, name: str) -> None:
    try:
        await flow()
    except Exception:
        log.exception("%s failed", name)
