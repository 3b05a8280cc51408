"""fencelock for asyncio: thin faces over the flows of ``_core``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencelock.aio.client import AsyncClient
from fencelock.aio.lease import AsyncLease
from fencelock.aio.lock import AsyncLock, AsyncRLock

if TYPE_CHECKING:
    from fencelock.aio.barrier import AsyncBarrier
    from fencelock.aio.event_latch import AsyncEvent, AsyncLatch
    from fencelock.aio.rwlock import AsyncReadLock, AsyncRWLock, AsyncWriteLock
    from fencelock.aio.semaphore import AsyncBoundedSemaphore, AsyncSemaphore

__all__ = [
    "AsyncBarrier",
    "AsyncBoundedSemaphore",
    "AsyncClient",
    "AsyncEvent",
    "AsyncLatch",
    "AsyncLease",
    "AsyncLock",
    "AsyncRLock",
    "AsyncRWLock",
    "AsyncReadLock",
    "AsyncSemaphore",
    "AsyncWriteLock",
]

# What few programs use is imported when it is first asked for.
_FILES = {
    "AsyncBarrier": "fencelock.aio.barrier",
    "AsyncBoundedSemaphore": "fencelock.aio.semaphore",
    "AsyncEvent": "fencelock.aio.event_latch",
    "AsyncLatch": "fencelock.aio.event_latch",
    "AsyncRWLock": "fencelock.aio.rwlock",
    "AsyncReadLock": "fencelock.aio.rwlock",
    "AsyncSemaphore": "fencelock.aio.semaphore",
    "AsyncWriteLock": "fencelock.aio.rwlock",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as the classes

    found = globals()[name] = getattr(import_module(_FILES[name]), name)
    return found
