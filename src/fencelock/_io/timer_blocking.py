"""Call something later, in a thread that exists only until then."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fencelock._runtime.mutex import started


def later(seconds: float, call: Callable[[], None]) -> bool:
    """Call a function after so many seconds; return False if no thread can be started."""
    timer = threading.Timer(seconds, call)
    timer.name, timer.daemon = "fencelock-later", True
    return started(timer) is None
