"""What a loop needs for a service behind Sentinels: connections to them, and to its master.

A connection to the master has a guard, which says which answers count. Its rules are in
master_monitor.py; here are the places where it is asked. A timer
that looks for late answers runs only while answers are owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from fencelock._core.types import NoReply, Reply
from fencelock._io.connection_asyncio import AsyncConnection, Pushed, Slot, dial
from fencelock._io.io_asyncio import AsyncioIo
from fencelock._io.prompt_asyncio import Answer
from fencelock._io.wire import ReplyError, server_error, unknown_script
from fencelock._runtime.clock import now
from fencelock._topology.sentinel import FRESH_SECONDS

if TYPE_CHECKING:
    from fencelock._io.sources.kinds import One
    from fencelock._topology.io import Flow
    from fencelock._topology.master_monitor import MasterGuard

TASK = "fencelock-sentinel"


class AsyncMasterConnection(AsyncConnection):
    """A connection to the master of a service, which all tasks of a loop share."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pushed: Pushed,
        stall: float,
        *,
        guard: MasterGuard,
        io: AsyncioDialer,
    ) -> None:
        super().__init__(loop, self._hear, stall=stall)
        self._to = pushed
        self._guard = guard
        self._io = io
        self._late_timer: asyncio.TimerHandle | None = None

    async def run(self, packed: bytes, until: float) -> Reply:
        """Send a request; NoReply also when there is another master now."""
        asked_at = now()
        slot = Answer(self.loop)
        reply = await self.request(packed, until, slot)
        if type(reply) is ReplyError or not self._guard.counts(asked_at):
            await self._guarded(slot, asked_at, until)
        return reply

    def request(self, packed: bytes, until: float, slot: Slot | None = None) -> Any:
        """Send a request, and see that a late answer is noticed; nothing to a replaced master."""
        # as ``is_replaced``, without a frame for each call
        if self._guard.generation != self._guard.state.generation:
            self.close()
        answer = super().request(packed, until, slot)
        if self._late_timer is None and self.sound:
            self._late_timer = self.loop.call_later(self._late_after, self._look_for_late)
        return answer

    def behind(self, packed: bytes, until: float) -> asyncio.Future[Any] | None:
        """Send a clean-up after all earlier requests; its answer must count, too."""
        slot = super().behind(packed, until)
        if slot is None:
            return None
        return self._io.task(self._guarded(slot, now(), until), TASK)

    async def _guarded(self, slot: Awaitable[Any], asked_at: float, until: float) -> Reply:
        """Return an answer when it is proved that it counts; a refusal, too."""
        reply = await slot
        if isinstance(reply, ReplyError) and unknown_script(reply):
            return reply  # it grants nothing: it is sent again with its script
        if isinstance(reply, ReplyError):
            await self._ask_guard(self._guard.refused(server_error(reply), asked_at, until))
        else:
            await self._ask_guard(self._guard.prove(asked_at, until))
        return reply

    async def _ask_guard(self, flow: Coroutine[Any, Any, None]) -> None:
        try:
            await flow
        except NoReply:
            self.close()
            raise

    def _hear(self, message: list[bytes]) -> None:
        proving = self._guard.take(message, self._to, inf)
        if proving is not None:
            self._io.spawn(partial(self._quietly, proving), TASK)

    @property
    def _late_after(self) -> float:
        return max(FRESH_SECONDS, self.trips.silence)

    def _look_for_late(self) -> None:
        """Ask whether this is the master while an answer is late."""
        self._late_timer = None
        if not self._slots or not self.sound:
            return
        if now() - self._slots[0][2] > self._late_after / 2:
            proving = partial(self._guard.still_master, now() + self._guard.round_seconds)
            self._io.spawn(partial(self._quietly, proving), TASK)
        self._late_timer = self.loop.call_later(self._late_after, self._look_for_late)

    async def _quietly(self, flow: Flow) -> None:
        try:
            await self._ask_guard(flow())
        except NoReply:
            return  # it was closed: the tasks that wait for an answer find out

    def _lost(self, error: Exception, *what: str) -> None:
        if self._late_timer is not None:
            self._late_timer.cancel()
            self._late_timer = None
        super()._lost(error, *what)


class AsyncioDialer(AsyncioIo):
    """Implements ``_topology.master_monitor.MasterIo`` for the tasks of one loop.

    ``stall``: a connection whose oldest answer is late by so many seconds is given up.
    """

    def __init__(self, *, stall: float) -> None:
        super().__init__()
        self._stall = stall

    async def dial(
        self, source: One, until: float, pushed: Pushed, guard: MasterGuard | None = None
    ) -> AsyncConnection:
        """Open a connection that all tasks may share."""
        make = partial(AsyncMasterConnection, guard=guard, io=self) if guard else AsyncConnection
        return await dial(source, pushed, until, stall=self._stall, make=make)
