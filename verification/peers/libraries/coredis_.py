"""coredis' Lock. `extend` by hand; nothing that says whether the lock is still held."""

from __future__ import annotations

from typing import Any

from coredis.patterns.lock import Lock as CoredisLock
from peers import coredis_

from verification.peers.libraries import SHARE_OF_TTL, Lock


class _Lock(Lock):
    renews = "extend"

    def make(self) -> None:
        self.lock = CoredisLock(
            self.library._client,
            self.name,
            timeout=self.use.ttl,
            blocking=self.use.timeout is not None,
            blocking_timeout=self.use.timeout,
        )

    async def acquire(self) -> Any:
        return bool(await self.lock.acquire())

    async def release(self) -> Any:
        await self.lock.release()

    async def extend(self) -> Any:
        return await self.lock.extend((self.use.ttl or 0) * SHARE_OF_TTL)  # it adds to what is left


class Tasks(coredis_.Tasks):
    lock = _Lock
