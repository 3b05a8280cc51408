"""fencelock for threads: thin faces over the flows of ``_core``."""

from fencelock.blocking.barrier import Barrier
from fencelock.blocking.client import Client
from fencelock.blocking.condition import Condition
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock, RLock
from fencelock.blocking.rwlock import ReadLock, RWLock, WriteLock
from fencelock.blocking.semaphore import BoundedSemaphore, Semaphore
from fencelock.blocking.signals import Event, Latch

__all__ = [
    "Barrier",
    "BoundedSemaphore",
    "Client",
    "Condition",
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
