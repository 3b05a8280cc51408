"""redis-py's Lock. `extend` by hand; `owned()` asks the server."""

from __future__ import annotations

from typing import Any

from peers import redis_py

from verification.peers.libraries import Lock


class _Lock(Lock):
    renews = "extend"

    def make(self) -> None:
        self.lock = self.library._client.lock(self.name, timeout=self.use.ttl)

    def acquire(self) -> Any:
        if self.use.timeout is None:
            return self.lock.acquire(blocking=False)
        return self.lock.acquire(blocking_timeout=self.use.timeout)

    def release(self) -> Any:
        return self.lock.release()

    def extend(self) -> Any:
        return self.lock.extend(self.use.ttl, replace_ttl=True)

    def asks(self) -> Any:
        return self.lock.owned()


class Threads(redis_py.Threads):
    lock = _Lock


class Tasks(redis_py.Tasks):
    lock = _Lock
