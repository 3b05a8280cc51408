"""The ports of one asyncio client: one for each event loop that uses it."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Sequence

from fencelock._io.port_asyncio import AioPort
from fencelock._io.select_asyncio import PortMaker
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex, outside


class LoopPorts:
    """A client's ports, by loop. They end with the client, which warns if it was not closed."""

    def __init__(self, maker: PortMaker) -> None:
        self._maker = maker
        self._ports: dict[int, AioPort] = {}

    def known(self, loop: asyncio.AbstractEventLoop) -> AioPort | None:
        """Return the loop's port if it has one."""
        port = self._ports.get(id(loop))
        return port if port is not None and port.loop is loop else None

    def here(self) -> AioPort:
        """Return the running loop's port, made when the loop first asks."""
        loop = asyncio.get_running_loop()
        port = self._ports.get(id(loop))
        if port is None or port.loop is not loop:
            port = self._maker.make()
            with mutex():  # the loops of other threads make theirs
                for key, each in list(self._ports.items()):
                    if each.loop.is_closed():
                        del self._ports[key]
                self._ports[id(loop)] = port
                for each in self._ports.values():
                    each.elsewhere = len(self._ports) > 1
        return port

    def __del__(self) -> None:
        """Close what ``aclose()`` did not, and warn."""
        left = [port for port in getattr(self, "_ports", {}).values() if port.left_open]
        if left and not sys.is_finalizing():
            label = self._maker.label
            outside(lambda: _dropped(label, left))


def _dropped(label: str, ports: Sequence[AioPort]) -> None:
    """Warn of a client dropped with open connections; close those whose loop still runs."""
    text = f"an AsyncClient of {label} was dropped without aclose(): use `async with`, or close it"
    running = [port for port in ports if port.loop.is_running()]
    for port in running:
        port.loop.call_soon_threadsafe(port.shut_soon)
    if running:
        log.warning(text)
    warnings.warn(text, ResourceWarning, stacklevel=4)
