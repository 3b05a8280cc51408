"""The one clock of leases: monotonic, and going on while the machine sleeps."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):
    # CLOCK_MONOTONIC stands still while a laptop or a virtual machine is suspended; the server's
    # clock does not, so a lease would seem to last longer than it does.
    def now() -> float:
        """Return seconds on a clock that only goes forward, suspension included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        """Return seconds on a clock that only goes forward."""
        return time.monotonic()
