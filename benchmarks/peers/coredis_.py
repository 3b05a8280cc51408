"""coredis: its Lock, which polls every 0.1 s."""

from __future__ import annotations

import asyncio

from contestants import TTL_SECONDS, Contestant, Pair
from coredis import Redis
from coredis.patterns.lock import Lock


class Tasks(Contestant):
    async def open(self) -> None:
        self._client = Redis(host=self.address.host, port=self.address.port)
        ready = asyncio.Event()
        self._stays_open = asyncio.create_task(self._serve(ready))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({self._stays_open, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if self._stays_open.done():
            self._stays_open.result()

    async def _serve(self, ready: asyncio.Event) -> None:
        """Keep the client open; the task that opens it has to be the one that closes it."""
        async with self._client:
            ready.set()
            await asyncio.Event().wait()

    def pair(self, name: str) -> Pair:
        lock = Lock(self._client, name, timeout=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)
