"""Calls ``on_lost`` in threads: no callback waits for another, and no lease for any.

A thread goes on with the next callback as long as they are quick, so that a hundred thousand losses
are told by a few threads; each callback that blocks costs one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from fencelock._core.hold import Hold
from fencelock.log import log


class Teller:
    """Losses to tell, and the threads that do; they end with the last one."""

    def __init__(self) -> None:
        self._untold: deque[Hold] = deque()
        self._lock = threading.Lock()
        self._spare: set[threading.Thread] = set()  # threads that are in no callback

    def add(self, hold: Hold) -> None:
        """Have a loss told."""
        with self._lock:
            self._untold.append(hold)
            self._see_to_it()

    def _see_to_it(self) -> None:
        """Start a thread unless one is about to look. An interrupt may leave one unstarted."""
        if any(each.is_alive() for each in self._spare):
            return
        thread = threading.Thread(target=self._run, name="fencelock-on-lost", daemon=True)
        self._spare = {thread}
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("on_lost has to wait for a thread that is in one: %s", error)

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                self._spare.discard(me)
                if not self._untold:
                    return
                hold = self._untold.popleft()
                if self._untold:
                    self._see_to_it()
            _tell(hold)
            with self._lock:
                self._spare.add(me)


def _tell(hold: Hold) -> None:
    try:
        hold.want.terms.on_lost(hold.lease)
    except Exception:
        log.exception("on_lost of %r raised", hold.lease.name)


async def tell(on_lost: Callable[[Any], Any], hold: Hold) -> None:
    """Call what may be a coroutine function; what it raises is logged."""
    try:
        result = on_lost(hold.lease)
        if isinstance(result, Awaitable):
            await result
    except Exception:
        log.exception("on_lost of %r raised", hold.lease.name)
