"""pottery's Redlock on one master. `extend` by hand, as often as asked; `locked()` asks."""

from __future__ import annotations

from typing import Any, ClassVar

from peers import pottery_
from pottery import AIORedlock, Redlock

from verification.peers.libraries import Lock

OFTEN = 1000  # its default allows three extensions of a lock


class _Lock(Lock):
    renews = "extend"
    kind: ClassVar[type]

    def make(self) -> None:
        options: dict[str, Any] = {"key": self.name, "masters": self.library._masters}
        if self.use.ttl is not None:
            options["auto_release_time"] = self.use.ttl
        if self.use.renew:
            options["num_extensions"] = OFTEN
        self.lock = self.kind(**options)

    def acquire(self) -> Any:
        if self.use.timeout is None:
            return self.lock.acquire(blocking=False)
        return self.lock.acquire(timeout=self.use.timeout)

    def release(self) -> Any:
        return self.lock.release()

    def extend(self) -> Any:
        return self.lock.extend()


class ThreadsLock(_Lock):
    kind = Redlock

    def asks(self) -> Any:
        return self.lock.locked() > 0


class TasksLock(_Lock):
    kind = AIORedlock

    async def asks(self) -> Any:
        return await self.lock.locked() > 0


class Threads(pottery_.Threads):
    lock = ThreadsLock


class Tasks(pottery_.Tasks):
    lock = TasksLock
