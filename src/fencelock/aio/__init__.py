"""fencelock for asyncio: thin faces over the flows of ``_core``."""

from fencelock.aio.barrier import AsyncBarrier
from fencelock.aio.client import AsyncClient
from fencelock.aio.event_latch import AsyncEvent, AsyncLatch
from fencelock.aio.lease import AsyncLease
from fencelock.aio.lock import AsyncLock, AsyncRLock
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
