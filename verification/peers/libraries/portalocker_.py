"""portalocker's RedisLock: held while its subscription lasts, so that it has no ttl to be set.

It calls back when a lock is lost, and `lost` asks nobody. It would interrupt the main thread, too,
which has other work here.
"""

from __future__ import annotations

from typing import Any

from peers import portalocker_
from portalocker.exceptions import AlreadyLocked
from portalocker.redis import RedisLock

from verification.peers.libraries import Lock


class _Lock(Lock):
    renews = "itself"

    def make(self) -> None:
        if not self.use.renew:
            raise NotImplementedError("it has no ttl: a lock lasts as long as its connection")
        self.lock = RedisLock(
            self.name,
            self.library._client,
            on_lost=lambda _lock: self.told(),
            interrupt_on_lost=False,
        )

    def acquire(self) -> Any:
        try:
            if self.use.timeout is None:
                self.lock.acquire(fail_when_locked=True)
            else:
                self.lock.acquire(timeout=self.use.timeout)
        except AlreadyLocked:
            return False
        return True

    def release(self) -> Any:
        self.lock.release()

    def says(self) -> bool | None:
        return not self.lock.lost


class Threads(portalocker_.Threads):
    lock = _Lock
