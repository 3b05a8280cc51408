"""Which port a client's source needs, for asyncio: one for each event loop that uses it."""
# ruff: noqa: PLC0415 - most programs need only the port of one server

from __future__ import annotations

import asyncio
import sys
import warnings
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fencelock._io.port_asyncio import AioPort
from fencelock._io.process_ports import CLOSE_SECONDS
from fencelock._io.select_blocking import chosen, is_cluster, is_quorum
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex, outside
from fencelock._runtime.process import mark, notice

if TYPE_CHECKING:
    from fencelock._core.look.history import Record


class LoopPorts:
    """A client's ports, by loop. They end with the client, which warns if it was not closed.

    TypeError or ValueError for an invalid source. ``label`` is what people call it.
    """

    def __init__(self, source: object, record: Record | None, **options: Any) -> None:
        self._found, self._given = chosen(source, asynchronous=True, **options)
        self._record = record
        self._ports: dict[int, AioPort] = {}
        self._last: AioPort | None = None  # that was asked for
        self._closers: dict[int, AsyncGenerator[None, None]] = {}
        self.label: str = self._found.label
        self.quorum: bool = is_quorum(self._found)

    def _made(self) -> AioPort:
        """Return a new port for the running loop."""
        found, given = self._found, self._given
        if self.quorum:
            from fencelock._io.port_quorum_asyncio import AioQuorum

            return AioQuorum(found, given)
        if is_cluster(found):
            from fencelock._io.cluster_asyncio import AsyncioClusterPort

            port: AioPort = AsyncioClusterPort(found, given)
        else:
            port = AioPort(found, given)
        if given.replicas is not None:
            from fencelock._io.replicas_asyncio import AsyncReplicas

            port.replicas = AsyncReplicas(found, given.server_timeout, given.replicas)
        return port

    def here(self) -> AioPort:
        """Return the running loop's port, made when the loop first asks."""
        try:
            loop = get_running_loop()
        except RuntimeError:  # none runs, or trio's
            raise RuntimeError("AsyncClient needs asyncio: it has no running loop here") from None
        if not mark[0]:
            notice()
        port = self._last
        if port is None or port.loop is not loop:
            port = self._last = self._of(loop)
        return port

    def _of(self, loop: asyncio.AbstractEventLoop) -> AioPort:
        """Return a loop's port, made when it first asks."""
        port = self._ports.get(id(loop))
        if port is None or port.loop is not loop:
            port = self._made()
            if self._record is not None:
                port.recorder = self._record(port)
            closer = _close_with_loop(port)
            with suppress(StopIteration):  # it stands at its ``yield``
                closer.__anext__().send(None)
            with mutex():  # the loops of other threads make theirs
                for key, each in list(self._ports.items()):
                    if each.loop.is_closed():
                        del self._ports[key], self._closers[key]
                self._ports[id(loop)], self._closers[id(loop)] = port, closer
                for each in self._ports.values():
                    each.elsewhere = len(self._ports) > 1
        return port

    def __del__(self) -> None:
        """Close what ``aclose()`` did not, and warn."""
        left = [port for port in getattr(self, "_ports", {}).values() if port.left_open]
        if left and not sys.is_finalizing():
            label = self.label
            outside(lambda: _dropped(label, left))


async def _close_with_loop(port: AioPort) -> AsyncGenerator[None, None]:
    """Close a port as its loop ends, which closes its asynchronous generators then.

    So do ``asyncio.run`` and what runs a loop for each call, as frameworks do. What is held stays
    held: it can be released in another loop.
    """
    try:
        yield
    finally:
        if port.recorder is not None:
            port.recorder.drop()
        until = now() + CLOSE_SECONDS
        ports = (*port.nodes, port)
        # Closed already: a loop without hooks for generators, as nest_asyncio's, awaits nothing.
        if not port.closing or any(each.connections for each in ports):
            await port.each(lambda each, last: each.dismiss_waiters(last), until)
            for each in ports:
                await each.hang_up(until, release=False)


def _dropped(label: str, ports: Sequence[AioPort]) -> None:
    """Warn of a client dropped with open connections; close those whose loop still runs."""
    text = f"an AsyncClient of {label} was dropped without aclose(): use `async with`, or close it"
    running = [port for port in ports if port.loop.is_running()]
    for port in running:
        port.loop.call_soon_threadsafe(port.shut_soon)
    if running:
        log.warning(text)
    warnings.warn(text, ResourceWarning, stacklevel=4)
