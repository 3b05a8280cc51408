"""A relay to a far server: each byte takes half a round trip either way, and nothing is lost."""

import asyncio
import threading

from tests.waiting import SOON


class End(asyncio.Protocol):
    """One end of a connection, which passes on what it hears half a round trip later."""

    def __init__(self, far, other=None):
        self.far = far
        self.other = other
        self.due = 0.0
        self.transport = None
        self.early = []

    def connection_made(self, transport):
        self.transport = transport
        self.far.ends.add(self)
        loop = self.far.loop
        if self.other is None:
            self.due = loop.time() + self.far.trip  # TCP's own
            self.other = End(self.far, self)
            loop.create_task(loop.create_connection(lambda: self.other, "127.0.0.1", self.far.to))
        for action in self.early:
            action()

    def data_received(self, data):
        self.pass_on(lambda: self.other.transport.write(data))

    def connection_lost(self, exc):
        self.far.ends.discard(self)
        self.pass_on(lambda: self.other.transport.close())  # noqa: PLW0108 - it may have none yet

    def pass_on(self, action):
        self.due = max(self.due, self.far.loop.time() + self.far.trip / 2)
        self.far.loop.call_at(self.due, self.other.take, action)

    def take(self, action):
        if self.transport is None:
            self.early.append(action)
        else:
            action()


class Far:
    """Listens on a free TCP port of this host; ``trip`` may be changed at any time."""

    def __init__(self, port, trip):
        self.trip = trip
        self.to = port
        self.ends = set()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._call(self._listen())
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SOON)

    async def _listen(self):
        self._server = await self.loop.create_server(lambda: End(self), "127.0.0.1", 0, backlog=512)
        return self._server.sockets[0].getsockname()[1]

    def drop_all(self):
        """Close every connection, as a balancer does that was restarted."""
        self._call(self._drop())

    async def _drop(self):
        for end in tuple(self.ends):
            end.transport.abort()

    def close(self):
        self._call(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SOON)
        self.loop.close()

    async def _close(self):
        self._server.close()
        self.trip = 0.0
        await self._drop()
        await asyncio.sleep(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
