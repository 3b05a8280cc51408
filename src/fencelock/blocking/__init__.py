"""fencelock for threads: thin faces over the flows of ``_core``."""

from fencelock.blocking.client import Client
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock, RLock

__all__ = ["Client", "Lease", "Lock", "RLock"]
