"""fencelock for asyncio: thin faces over the flows of ``_core``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencelock.aio import factories
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


def __getattr__(name: str) -> Any:
    """Import a class when it is first used, as the factory that makes its objects does."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(factories, name).load()
    return found
