"""tooz: redis-py's lock under a coordinator, whose heartbeat is what renews."""

from __future__ import annotations

import os

from contestants import TTL_SECONDS, Contestant, Pair
from tooz.coordination import get_coordinator
from wire import Address


class Threads(Contestant):
    def __init__(self, address: Address) -> None:
        super().__init__(address)
        url = f"{address.url.removesuffix('/0')}?lock_timeout={TTL_SECONDS}"
        self._coordinator = get_coordinator(url, f"bench-{os.getpid()}".encode())
        self._coordinator.start()

    def pair(self, name: str) -> Pair:
        lock = self._coordinator.get_lock(name.encode())
        return Pair(lock.acquire, lock.release)
