"""Private connections and threads, as the rules of the topologies use them.

These coroutines block and never suspend; see ``_topology/io.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable

from fencelock._core.types import Args, Reply
from fencelock._io.connection_blocking import Connection
from fencelock._io.threads import run_blocking
from fencelock._io.wire import with_source
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import started
from fencelock._topology.io import Flow

ASKING = (b"ASKING",)


class BlockingLatch(mutexes.OneShotLatch):
    """Implements ``_topology.io.Latch`` for threads."""

    async def wait_until(self, until: float) -> bool:
        """Wait until it opens, or until the instant; return True if it is open."""
        while not self.is_open and (left := until - now()) > 0:
            self.wait(min(left, REST_SECONDS))
        return self.is_open


class BlockingIo:
    """Implements ``_topology.io.Io`` for threads."""

    now = staticmethod(now)

    @property
    def mutex(self) -> threading.RLock:
        """Guard the tables against other threads; see mutex.py."""
        return mutexes.mutex()

    def caller(self) -> Hashable:
        """Return an identity of this thread."""
        return threading.get_ident()

    async def run(
        self, connection: Connection, packed: bytes, until: float, *, asking: bool = False
    ) -> Reply:
        """Run a packed request: a script with its source after ASKING, which counts once."""
        if asking:
            connection.command(ASKING, until)
            packed = with_source(packed)
        return connection.run(packed, until)

    async def command(self, connection: Connection, args: Args, until: float) -> Reply:
        """Run a plain command."""
        return connection.command(args, until)

    async def subscribe(
        self,
        connection: Connection,
        channel: bytes,
        until: float,
        word: bytes,
        *,
        asking: bool,
    ) -> None:
        """Listen to a channel."""
        if asking:
            connection.command(ASKING, until)
        connection.subscribe(channel, until, word)

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a thread; False when none can be started."""
        thread = threading.Thread(target=_run, args=(flow, name), name=name, daemon=True)
        trouble = started(thread)
        if trouble is not None:
            log.warning("%s waits until a thread can be started: %s", name, trouble)
        return trouble is None

    def latch(self) -> BlockingLatch:
        """Return a new latch."""
        return BlockingLatch()


def _run(flow: Flow, name: str) -> None:
    try:
        run_blocking(flow())
    except Exception:
        log.exception("%s failed", name)
