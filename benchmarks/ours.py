"""fencelock, by its public names and with its defaults."""

from __future__ import annotations

from typing import Any, ClassVar

from contestants import TTL_SECONDS, Contestant, Pair
from floors import asked
from monitor import monitored
from wire import Address

import fencelock
from fencelock.instrumentation import logging_hook, prometheus_hook, set_hooks

LINGER_SECONDS = 0.05
PERMITS = 10  # of a semaphore; which number it is costs nothing


class Threads(Contestant):
    options: ClassVar[dict[str, Any]] = {}  # of its locks

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = fencelock.Client(address.url, key_prefix="")

    def pair(self, name: str) -> Pair:
        lock = self._client.lock(name, ttl=TTL_SECONDS, **self.options)
        return Pair(lock.acquire, lock.release)


class Tasks(Contestant):
    options: ClassVar[dict[str, Any]] = {}  # of its locks

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = fencelock.AsyncClient(address.url, key_prefix="")

    def pair(self, name: str) -> Pair:
        lock = self._client.lock(name, ttl=TTL_SECONDS, **self.options)
        return Pair(lock.acquire, lock.release)


class StrictThreads(Threads):
    """A lock whose waiters stand in line one by one, also those of one client."""

    options: ClassVar[dict[str, Any]] = {"cohort": None}


class StrictTasks(Tasks):
    """A lock whose waiters stand in line one by one, also those of one client."""

    options: ClassVar[dict[str, Any]] = {"cohort": None}


class LingerThreads(Threads):
    """A lock whose lease stays with the client after each release."""

    options: ClassVar[dict[str, Any]] = {"linger": LINGER_SECONDS}


class LingerTasks(Tasks):
    """A lock whose lease stays with the client after each release."""

    options: ClassVar[dict[str, Any]] = {"linger": LINGER_SECONDS}


class RedissonThreads(Threads):
    """A member of Redisson's lock, renewed as its watchdog does."""

    def pair(self, name: str) -> Pair:
        from fencelock.compat import redisson  # noqa: PLC0415 - older trees, to compare with, lack it

        lock = redisson.Lock(self._client, name)
        return Pair(lock.acquire, lock.release)


class SemaphoreThreads(Threads):
    """One permit, which nobody else wants."""

    def pair(self, name: str) -> Pair:
        semaphore = self._client.semaphore(name, PERMITS, ttl=TTL_SECONDS)
        return Pair(semaphore.acquire, semaphore.release)


class SemaphoreTasks(Tasks):
    """One permit, which nobody else wants."""

    def pair(self, name: str) -> Pair:
        semaphore = self._client.semaphore(name, PERMITS, ttl=TTL_SECONDS)
        return Pair(semaphore.acquire, semaphore.release)


class ReaderThreads(Threads):
    """The read side, while nobody else reads or writes."""

    def pair(self, name: str) -> Pair:
        side = self._client.rwlock(name, read_ttl=TTL_SECONDS).read
        return Pair(side.acquire, side.release)


class ReaderTasks(Tasks):
    """The read side, while nobody else reads or writes."""

    def pair(self, name: str) -> Pair:
        side = self._client.rwlock(name, read_ttl=TTL_SECONDS).read
        return Pair(side.acquire, side.release)


class HookedThreads(Threads):
    """A lock while all that happens is counted, logged and kept: hooks are of the whole process."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        set_hooks([prometheus_hook(), logging_hook()])
        self._client = fencelock.Client(address.url, key_prefix="", history=True)


class HookedTasks(Tasks):
    """A lock while all that happens is counted, logged and kept: hooks are of the whole process."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        set_hooks([prometheus_hook(), logging_hook()])
        self._client = fencelock.AsyncClient(address.url, key_prefix="", history=True)


class Bytes(Contestant):
    """The two commands of a lock's pair, as the server saw them, without the client around them."""

    def pair(self, name: str) -> Pair:
        with fencelock.Client(self.address.url, key_prefix="") as client:
            lock = client.lock(name, ttl=TTL_SECONDS)
            for _ in range(2):  # the first also loads the scripts
                with monitored(self.address) as seen, lock:
                    pass
        take, give = seen.latest()
        return asked(self.address, take, give, b"$")
