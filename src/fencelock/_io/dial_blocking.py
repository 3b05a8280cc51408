"""Connections to any server, opened by a thread that blocks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fencelock._io.connection_blocking import Connection
from fencelock._io.io_blocking import BlockingIo
from fencelock._io.open_blocking import open_one

if TYPE_CHECKING:
    from fencelock._io.connect_blocking import Pushed
    from fencelock._io.sources.kinds import One
    from fencelock._topology.master_monitor import MasterGuard


class BlockingDialer(BlockingIo):
    """Implements ``_topology.master_monitor.MasterIo`` for threads."""

    async def dial(
        self, source: One, until: float, pushed: Pushed, guard: MasterGuard | None = None
    ) -> Connection:
        """Open a connection, which one thread at a time may use."""
        if guard is None:
            return open_one(source, until, pushed)
        from fencelock._io.master_connection_blocking import (  # noqa: PLC0415 - only for Sentinels
            MasterConnection,
        )

        return open_one(source, until, pushed, partial(MasterConnection, guard=guard))
