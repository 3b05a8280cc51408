"""redlock-ng: Redlock, with one master or five; polls at random intervals, without bound."""

from __future__ import annotations

from typing import Any

from contestants import TTL_SECONDS, Contestant, Pair
from redlock import AsyncRedlock, Redlock
from wire import Address

FOR_EVER = 10**9
TTL_MS = TTL_SECONDS * 1000


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = Redlock([node.url for node in address.nodes], retry_count=FOR_EVER)

    def pair(self, name: str) -> Pair:
        client, held = self._client, None

        def acquire() -> None:
            nonlocal held
            held = client.acquire(name, TTL_MS, blocking=True)

        def release() -> None:
            client.release(held)

        return Pair(acquire, release)


class Tasks(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = AsyncRedlock([node.url for node in address.nodes], retry_count=FOR_EVER)

    def pair(self, name: str) -> Pair:
        client = self._client
        held: Any = None

        async def acquire() -> None:
            nonlocal held
            held = await client.acquire(name, TTL_MS, blocking=True)

        async def release() -> None:
            await client.release(held)

        return Pair(acquire, release)
