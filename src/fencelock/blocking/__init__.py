"""fencelock for threads: thin faces over the flows of ``_core``."""

from fencelock.blocking.barrier import Barrier
from fencelock.blocking.client import Client
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock, RLock
from fencelock.blocking.signals import Event, Latch

__all__ = ["Barrier", "Client", "Event", "Latch", "Lease", "Lock", "RLock"]
