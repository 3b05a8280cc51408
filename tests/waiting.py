"""How long a test waits for a state, and how much later than promised something may come.

A machine may be busy: then a thread wakes up late, and for moments the whole machine stands still.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from fencelock._runtime.clock import now

SOON = 8.0
TICK = 0.004
# Of the time that a look at a state takes, no more counts: for the rest others had the processor.
LOOK_SECONDS = 0.02
# Beyond the 100 ms of I13: what a loaded machine with few cores adds to a thread's wake-up.
BUSY_SECONDS = 1.0
# A thread that wakes up so much later was on a machine that stood still.
STALL_SECONDS = 0.2


class Patience:
    """The time that a wait for a state may take: what others had the machine for does not count."""

    def __init__(self, what: str = "", seconds: float = SOON) -> None:
        self._what = what or "the state"
        self._seconds = self._left = seconds
        self._before = now()

    def spend(self) -> None:
        """Count the time since the last look; fail when none is left."""
        current = now()
        self._left -= min(current - self._before, LOOK_SECONDS)
        self._before = current
        assert self._left > 0, f"{self._what}: not within {self._seconds} s"


def until(
    condition: Callable[[], Any], what: str = "", seconds: float = SOON, *, tick: float = TICK
) -> Any:
    """Return the condition's first true value; fail when there is none in time."""
    patience, pause = Patience(what, seconds), threading.Event()
    while not (value := condition()):
        patience.spend()
        pause.wait(tick)
    return value


class Stalls:
    """Adds up for how long this machine stood still, as a thread with a short sleep sees it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        threading.Thread(target=self._watch, name="tests-stalls", daemon=True).start()

    def _watch(self) -> None:
        pause, before = threading.Event(), now()
        while True:
            pause.wait(0.02)
            current = now()
            if current - before > STALL_SECONDS:
                self.seconds += current - before
            before = current


stalls = functools.cache(Stalls)  # tests/conftest.py begins it, and each test at zero


def machine_seconds() -> float:
    """Return how much later than promised something may be seen in a test so far."""
    return BUSY_SECONDS + stalls().seconds
