"""fencelock for asyncio: thin faces over the flows of ``_core``."""

from fencelock.aio.client import AsyncClient
from fencelock.aio.lease import AsyncLease
from fencelock.aio.lock import AsyncLock, AsyncRLock

__all__ = ["AsyncClient", "AsyncLease", "AsyncLock", "AsyncRLock"]
