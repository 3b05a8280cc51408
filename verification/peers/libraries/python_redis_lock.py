"""python-redis-lock. `auto_renewal=True` where renewal is asked for; `get_owner_id()` asks."""

from __future__ import annotations

from typing import Any

import redis_lock
from redis import Redis
from verification.peers.libraries import Lock
from wire import Address


class _Lock(Lock):
    renews = "itself"

    def make(self) -> None:
        self.lock = redis_lock.Lock(
            self.library.client, self.name, expire=self.use.ttl, auto_renewal=self.use.renew
        )

    def acquire(self) -> Any:
        if self.use.timeout is None:
            return self.lock.acquire(blocking=False)
        return self.lock.acquire(timeout=int(self.use.timeout))

    def release(self) -> Any:
        return self.lock.release()

    def asks(self) -> Any:
        return self.lock.get_owner_id() == self.lock.id


class Threads:
    lock = _Lock

    def __init__(self, address: Address) -> None:
        self.client = Redis(host=address.host, port=address.port)
