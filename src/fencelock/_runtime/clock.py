"""The clock that all leases use: monotonic, and it keeps running while the machine is suspended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

# ``now()`` returns seconds on a clock that only goes forward, suspension included. CLOCK_MONOTONIC
# stops while a laptop or a virtual machine is suspended; the server's clock does not, so a lease
# would seem to last longer than it does. On macOS CLOCK_MONOTONIC_RAW goes on, and Python's own
# ``monotonic`` does not; on Windows that has steps of 16 ms before Python 3.13. ``now`` is called
# ten times for each acquisition, and a partial costs half as much as a function.
_KIND = "CLOCK_MONOTONIC_RAW" if sys.platform == "darwin" else "CLOCK_BOOTTIME"
now: Callable[[], float] = (
    partial(time.clock_gettime, getattr(time, _KIND))
    if hasattr(time, _KIND)
    else time.perf_counter
    if sys.platform == "win32"
    else time.monotonic
)

# Timers of the system and of event loops do stop during suspension. So no sleep is longer than
# this without reading the clock: a holder learns of its loss soon after the machine wakes up.
REST_SECONDS: float = 1.0
