"""Locks that Java programs with Redisson share: ``RLock`` and ``RFencedLock``, for both faces.

    lock = fencelock.compat.redisson.Lock(client, "orders")   # redisson.getLock("orders")

``Lock`` and ``FencedLock`` take a ``fencelock.Client``, their twins an ``AsyncClient``.
"""

from __future__ import annotations

from typing import Final

from fencelock.aio.redisson import AsyncRedissonFencedLock as AsyncFencedLock
from fencelock.aio.redisson import AsyncRedissonLock as AsyncLock
from fencelock.blocking.redisson import RedissonFencedLock as FencedLock
from fencelock.blocking.redisson import RedissonLock as Lock

__all__ = ["AsyncFencedLock", "AsyncLock", "FencedLock", "Lock"]

# What Redisson has besides, and what to use instead.
_ELSEWHERE: Final = {
    "FairLock": "its line is kept by the clocks of its clients; client.lock() has one",
    "ReadWriteLock": "client.rwlock() is ours",
    "ReadLock": "client.rwlock() is ours",
    "WriteLock": "client.rwlock() is ours",
    "MultiLock": "client.multi() is ours",
    "RedLock": "a client of a quorum is ours",
    "SpinLock": "its release notifies no waiter; use Lock in both languages",
    "Semaphore": "client.semaphore() is ours",
    "CountDownLatch": "client.latch() is ours",
}


def __getattr__(name: str) -> object:
    """Raise AttributeError; for a lock that Redisson has, with what to use instead."""
    instead = _ELSEWHERE.get(name.removeprefix("Async"))
    reason = "" if instead is None else f": Redisson's is not shared; {instead}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{reason}")
