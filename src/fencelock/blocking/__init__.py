# Generated from aio/__init__.py by generate_blocking.py: change that, and run the script.
"""fencelock for threads: thin faces over the flows of ``_core``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

# What few programs use is imported when it is first asked for.
_FILES = {
    "Barrier": "fencelock.blocking.barrier",
    "BoundedSemaphore": "fencelock.blocking.semaphore",
    "Event": "fencelock.blocking.event_latch",
    "Latch": "fencelock.blocking.event_latch",
    "RWLock": "fencelock.blocking.rwlock",
    "ReadLock": "fencelock.blocking.rwlock",
    "Semaphore": "fencelock.blocking.semaphore",
    "WriteLock": "fencelock.blocking.rwlock",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as the classes

    found = globals()[name] = getattr(import_module(_FILES[name]), name)
    return found
