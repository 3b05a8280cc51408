"""aioredlock: Redlock on aioredis 1, with one master or five; polls at random intervals."""

from __future__ import annotations

from typing import Any

from aioredlock import Aioredlock
from contestants import TTL_SECONDS, Contestant, Pair

FOR_EVER = 10**9


class Tasks(Contestant):
    async def open(self) -> None:
        nodes = self.address.nodes
        connections = [{"host": node.host, "port": node.port} for node in nodes]
        self._client = Aioredlock(connections, retry_count=FOR_EVER)

    def pair(self, name: str) -> Pair:
        client = self._client
        held: Any = None

        async def acquire() -> None:
            nonlocal held
            held = await client.lock(name, lock_timeout=TTL_SECONDS)

        async def release() -> None:
            await client.unlock(held)

        return Pair(acquire, release)
