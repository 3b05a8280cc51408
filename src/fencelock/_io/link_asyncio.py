"""The asyncio port's one connection: dialled once for all tasks, subscribed when needed."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any

from fencelock._core.deadlines import SILENT_SECONDS
from fencelock._core.round_trips import DIAL_SECONDS, RoundTrips
from fencelock._core.types import NoReply, closed
from fencelock._io.connection_asyncio import AsyncConnection, dial
from fencelock._io.sources.kinds import One, Source, silence
from fencelock._runtime.clock import now
from fencelock.errors import ServerUnreachable

if TYPE_CHECKING:
    from fencelock._io.sentinel_asyncio import AsyncioDialer
    from fencelock._topology.master_monitor import MasterMonitor


class Link:
    """A connection that reconnects.

    Its ``port`` takes the pushes, and is ``unplugged`` each time it is lost.
    """

    def __init__(
        self,
        port: Any,
        source: Source,
        *,
        server_timeout: float,
        trips: RoundTrips | None = None,
    ) -> None:
        self._port = port
        self._source = source
        self._monitor: MasterMonitor | None = None  # of a master behind Sentinels
        self._io: AsyncioDialer | None = None  # its tasks
        self._server_timeout = server_timeout
        self._dialling: asyncio.Task[AsyncConnection] | None = None
        self.reached = self._mastered = False
        first = inf if isinstance(source, One) else DIAL_SECONDS  # then Sentinels are asked again
        self.trips: RoundTrips = trips or RoundTrips(first)
        # At least, of a connection that was used before; see connection_asyncio.py
        self.silence = SILENT_SECONDS
        self._retired: list[AsyncConnection] = []
        self.mux: AsyncConnection | None = None
        self.listening = False  # the home channel is heard
        self.closed = False

    async def connected(self, until: float) -> AsyncConnection:
        """Return the sound connection; ends like ``Pool.take``."""
        if (mux := self.idle()) is not None:
            return mux
        if self.closed:
            raise closed()
        dialling = self._dialling
        if dialling is None or dialling.done():
            dialling = self._dialling = asyncio.create_task(self._dial(), name="fencelock-dial")
            # its error is taken, also when no task waits for it any more
            dialling.add_done_callback(lambda dialled: dialled.cancelled() or dialled.exception())
        done, _ = await asyncio.wait({dialling}, timeout=max(0.0, until - now()))
        if not done:
            raise NoReply(silence(self._source), sent=False)
        if dialling.cancelled():  # by ``close``, or by a program that cancels all tasks
            return await self.connected(until)
        try:
            return dialling.result()
        finally:  # the task has the error, which has this frame
            if self._dialling is dialling:
                self._dialling = None
            del dialling, done

    def idle(self) -> AsyncConnection | None:
        """Return the connection, if it is sound."""
        mux = self.mux
        return mux if mux is not None and mux.sound else None

    @property
    def ear(self) -> AsyncConnection | None:
        """Return the connection on which the home channel is heard, if it is sound."""
        return self.idle() if self.listening else None

    async def listen(self, until: float) -> None:
        """Hear the home channel; ends like ``Wire.call``."""
        if self.listening:
            return
        mux = await self.connected(until)
        await mux.subscribe(self._port.client_channel, until)
        self.listening = mux is self.mux and mux.sound

    async def close(self) -> None:
        """Close for good; the socket is closed when this returns."""
        self.closed = True
        if self._dialling is not None and not self._dialling.done():
            self._dialling.cancel()
            await asyncio.wait({self._dialling})
        for mux in (self.mux, *self._retired):
            if mux is not None:
                mux.close()
        if self._io is not None:
            await self._io.end()
        await asyncio.sleep(0)  # the loop closes sockets in its next turn

    async def _dial(self) -> AsyncConnection:
        try:
            mux = await self._open(now() + self._open_seconds())
        except ServerUnreachable as error:
            # No server ever answered there: more likely a wrong address than a restart.
            if not self.reached or error.code not in {"", "REFUSED"}:
                raise
            raise NoReply(str(error), sent=False) from error
        old = self.mux
        self._retired = [each for each in (*self._retired, old) if each is not None and each.open]
        self.mux, self.reached, self.listening = mux, True, False
        self._mastered = mux.mastered = self._mastered or mux.mastered
        self.trips.adopt(mux)
        mux.least_silence = self.silence
        mux.silence, mux.fresh = self.trips.within(self.silence), True
        mux.closed.add_done_callback(lambda _: self._lost())
        return mux

    def _open_seconds(self) -> float:
        """Return how long a connection may take to open."""
        return self._server_timeout

    async def _open(self, until: float) -> AsyncConnection:
        source = self._source
        if isinstance(source, One):
            return await dial(source, self.pushed, until, stall=self._server_timeout)
        if self._monitor is None:
            # Only for Sentinels:
            from fencelock._io.sentinel_asyncio import AsyncioDialer  # noqa: PLC0415 - as said above
            from fencelock._topology.master_monitor import MasterMonitor  # noqa: PLC0415 - as above

            self._io = AsyncioDialer(stall=self._server_timeout)
            self._monitor = MasterMonitor(source, self._io, self.trips)
        mux: AsyncConnection = await self._monitor.connect(until, self.pushed)
        return mux

    def _lost(self) -> None:
        self.listening = False
        self._port.unplugged()

    def pushed(self, message: list[bytes]) -> None:
        """Take a push."""
        self._port.pushed(message)
