"""The clock that all leases use: monotonic, and it keeps running while the machine is suspended."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

# ``now()`` returns seconds on a clock that only goes forward, suspension included. CLOCK_MONOTONIC
# stops while a laptop or a virtual machine is suspended; the server's clock does not, so a lease
# would seem to last longer than it does. ``now`` is called ten times for each acquisition, and a
# partial costs half as much as a function.
now: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)

# Timers of the system and of event loops do stop during suspension. So no sleep is longer than
# this without reading the clock: a holder learns of its loss soon after the machine wakes up.
REST_SECONDS: float = 1.0
