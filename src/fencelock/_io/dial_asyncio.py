"""Connections to any server, opened by a task of a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fencelock._io import connect_asyncio
from fencelock._io.connection_asyncio import AsyncConnection, Pushed
from fencelock._io.io_asyncio import AsyncioIo

if TYPE_CHECKING:
    from fencelock._io.sources.kinds import One
    from fencelock._topology.io import Flow
    from fencelock._topology.master_monitor import MasterGuard

T = TypeVar("T")


class AsyncioDialer(AsyncioIo):
    """Implements ``_topology.master_monitor.MasterIo`` for the tasks of one loop.

    ``stall``: a connection whose oldest answer is late by so many seconds is given up.
    """

    def __init__(self, *, stall: float) -> None:
        super().__init__()
        self._stall = stall
        self._ended = False

    async def dial(
        self, source: One, until: float, pushed: Pushed, guard: MasterGuard | None = None
    ) -> AsyncConnection:
        """Open a connection that all tasks may share."""
        if guard is None:
            return await connect_asyncio.dial(source, pushed, until, stall=self._stall)
        from fencelock._io.master_connection_asyncio import (  # noqa: PLC0415 - only for Sentinels
            AsyncMasterConnection,
        )

        make = partial(AsyncMasterConnection, guard=guard, io=self)
        return await connect_asyncio.dial(source, pushed, until, stall=self._stall, make=make)

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a task, at most until ``end``."""
        return not self._ended and super().spawn(flow, name)

    def task(self, flow: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Return the task that runs a flow, at most until ``end``."""
        task = asyncio.create_task(flow, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """Cancel the background tasks, and wait for them to end; none is begun any more."""
        self._ended = True
        await super().end()
