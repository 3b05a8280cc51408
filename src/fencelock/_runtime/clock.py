"""The one clock of leases: monotonic, and going on while the machine sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

# ``now()`` returns seconds on a clock that only goes forward, suspension included. CLOCK_MONOTONIC
# stands still while a laptop or a virtual machine is suspended; the server's clock does not, so a
# lease would seem to last longer than it does. It is asked ten times for each acquisition, and a
# partial costs half of what a function does.
now: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)

# Timers of the system and of event loops do stand still. So no rest is longer than this without a
# look at the clock: a holder learns of its loss soon after the machine wakes up.
REST_SECONDS: float = 1.0
