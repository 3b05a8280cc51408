"""python-redis-lock. `auto_renewal=True` where renewal is asked for; `get_owner_id()` asks."""

from __future__ import annotations

from typing import Any

import redis_lock
from peers import python_redis_lock

from verification.peers.libraries import Lock


class _Lock(Lock):
    renews = "itself"

    def make(self) -> None:
        self.lock = redis_lock.Lock(
            self.library._client,
            self.name,
            expire=self.use.ttl,
            auto_renewal=self.use.renew and self.use.ttl is not None,
        )

    def acquire(self) -> Any:
        if self.use.timeout is None:
            return self.lock.acquire(blocking=False)
        return self.lock.acquire(timeout=int(self.use.timeout))

    def release(self) -> Any:
        return self.lock.release()

    def asks(self) -> Any:
        return self.lock.get_owner_id() == self.lock.id


class Threads(python_redis_lock.Threads):
    lock = _Lock
