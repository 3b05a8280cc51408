"""fencelock, by its public names and with its defaults."""

from __future__ import annotations

from contestants import TTL_SECONDS, Contestant, Pair
from wire import Address

import fencelock


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = fencelock.Client(address.url, key_prefix="")

    def pair(self, name: str) -> Pair:
        lock = self._client.lock(name, ttl=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)


class Tasks(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = fencelock.AsyncClient(address.url, key_prefix="")

    def pair(self, name: str) -> Pair:
        lock = self._client.lock(name, ttl=TTL_SECONDS)
        return Pair(lock.acquire, lock.release)
