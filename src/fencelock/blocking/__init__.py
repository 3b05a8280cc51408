# Generated from aio/__init__.py by generate_blocking.py: change that, and run the script.
"""fencelock for threads: thin faces over the flows of ``_core``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencelock.blocking import factories
from fencelock.blocking.client import Client
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock, RLock

if TYPE_CHECKING:
    from fencelock.blocking.barrier import Barrier
    from fencelock.blocking.event_latch import Event, Latch
    from fencelock.blocking.rwlock import ReadLock, RWLock, WriteLock
    from fencelock.blocking.semaphore import BoundedSemaphore, Semaphore

__all__ = [
    "Barrier",
    "BoundedSemaphore",
    "Client",
    "Event",
    "Latch",
    "Lease",
    "Lock",
    "RLock",
    "RWLock",
    "ReadLock",
    "Semaphore",
    "WriteLock",
]


def __getattr__(name: str) -> Any:
    """Import a class when it is first used, as the factory that makes its objects does."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(factories, name).load()
    return found
