"""The asyncio port's one connection: dialled once however many ask, listened on when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencelock._core.timing import SILENT_SECONDS
from fencelock._core.types import Broken, closed
from fencelock._transport.mux import Mux, Pushed
from fencelock._transport.mux_dial import dial
from fencelock._transport.source import One, Source, silence
from fencelock.clock import now
from fencelock.errors import ServerUnreachable

if TYPE_CHECKING:
    from fencelock._io.dial_asyncio import AsyncioDialer
    from fencelock._topology.master_monitor import MasterMonitor
    from fencelock._transport.sentinel_source import SentinelService


class Link:
    """A connection that comes back; ``unplugged`` is called each time it is lost."""

    def __init__(
        self,
        source: Source,
        home: bytes,
        pushed: Pushed,
        unplugged: Callable[[], None],
        *,
        patience: float,
    ) -> None:
        self._source = source
        self._monitor: MasterMonitor | None = None  # of a master behind Sentinels
        self._io: AsyncioDialer | None = None  # its tasks
        self._home = home
        self._pushed = pushed
        self._unplugged = unplugged
        self._patience = patience
        self._dialling: asyncio.Task[Mux] | None = None
        self._reached = False
        self.silence = SILENT_SECONDS  # of a connection that was used before; see mux.py
        self._retired: list[Mux] = []
        self.mux: Mux | None = None
        self.listening = False  # the home channel is heard
        self.closed = False

    async def connected(self, until: float) -> Mux:
        """Return the sound connection; ends like ``Pool.take``."""
        if self.mux is not None and self.mux.sound:
            return self.mux
        if self.closed:
            raise closed()
        dialling = self._dialling
        if dialling is None or dialling.done():
            dialling = self._dialling = asyncio.create_task(self._dial(), name="fencelock-dial")
            dialling.add_done_callback(_seen)
        done, _ = await asyncio.wait({dialling}, timeout=max(0.0, until - now()))
        if not done:
            raise Broken(silence(self._source), sent=False)
        if dialling.cancelled():
            raise closed()
        return dialling.result()

    @property
    def connected_now(self) -> bool:
        """Return True while there is a sound connection."""
        return self.mux is not None and self.mux.sound

    async def listen(self, until: float) -> None:
        """Hear the home channel; ends like ``Port.call``."""
        if self.listening:
            return
        mux = await self.connected(until)
        await mux.subscribe(self._home, until)
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

    async def _dial(self) -> Mux:
        try:
            mux = await self._open(now() + self._patience)
        except ServerUnreachable as error:
            # Nobody answered there ever: more likely a wrong address than a restart.
            if not self._reached or error.code not in {"", "REFUSED"}:
                raise
            raise Broken(str(error), sent=False) from error
        old = self.mux
        self._retired = [each for each in (*self._retired, old) if each is not None and each.open]
        self.mux, self._reached, self.listening = mux, True, False
        mux.silence, mux.fresh = self.silence, True
        mux.closed.add_done_callback(lambda _: self._lost())
        return mux

    async def _open(self, until: float) -> Mux:
        source = self._source
        if isinstance(source, One):
            return await dial(source, self._pushed, until, stall=self._patience)
        mux: Mux = await self._following(source).connect(until, self._pushed)
        return mux

    def _following(self, service: SentinelService) -> MasterMonitor:
        """Return what follows the master of a service; made at its first use."""
        if self._monitor is None:
            # Only for Sentinels:
            from fencelock._io.dial_asyncio import AsyncioDialer  # noqa: PLC0415 - as said above
            from fencelock._topology.master_monitor import MasterMonitor  # noqa: PLC0415 - as above

            self._io = AsyncioDialer(stall=self._patience)
            self._monitor = MasterMonitor(service, self._io)
        return self._monitor

    def _lost(self) -> None:
        self.listening = False
        self._unplugged()


def _seen(dialling: asyncio.Task[Mux]) -> None:
    """Take the error of a dial for which everybody stopped waiting: it was told as "no answer"."""
    if not dialling.cancelled():
        dialling.exception()
