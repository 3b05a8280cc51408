"""Calls ``on_lost`` in threads: no callback waits for another, and no renewal for a callback.

A thread goes on with the next callback as long as they are quick, so that a few threads notify of a
hundred thousand losses; each callback that blocks costs one thread.
"""

from __future__ import annotations

import threading
from collections import deque

from fencelock._core.lock.hold import Hold
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex, started


class LossCallbacks:
    """Losses to notify of, and the threads that do it; the threads end with the last loss.

    They are started outside the mutex: a starting thread may collect garbage, and need the mutex.
    """

    def __init__(self) -> None:
        self._untold: deque[Hold] = deque()
        self._lock = mutex()
        self._spare: set[threading.Thread] = set()  # threads outside a callback
        self._busy: set[threading.Thread] = set()  # threads inside a callback

    def add(self, hold: Hold) -> None:
        """Have the holder notified of a loss."""
        with self._lock:
            self._untold.append(hold)
        self._see_to_it()

    def _see_to_it(self) -> None:
        """Start a thread unless one is about to run. An interrupt may leave one unstarted.

        If none can be started, call ``on_lost`` here, unless a thread inside a callback goes on.
        """
        thread = threading.Thread(target=self._run, name="fencelock-on-lost", daemon=True)
        with self._lock:
            if any(each.is_alive() for each in self._spare):
                return
            self._spare = {thread}
        trouble = started(thread)
        if trouble is None:
            return
        with self._lock:
            others = any(each.is_alive() for each in self._busy)
            holds = () if others else tuple(self._untold)
            if not others:
                self._untold.clear()
        what = "waits for another on_lost" if others else "delays its caller"
        log.warning("no thread can be started: on_lost %s: %s", what, trouble)
        for hold in holds:
            _notify(hold)

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                self._spare.discard(me)
                if not self._untold:
                    return
                hold = self._untold.popleft()
                self._busy.add(me)
                more = bool(self._untold)
            if more:
                self._see_to_it()
            _notify(hold)
            with self._lock:
                self._busy.discard(me)
                self._spare.add(me)


def _notify(hold: Hold) -> None:
    try:
        hold.terms.options.on_lost(hold)
    except Exception:
        log.exception("on_lost of %r raised", hold.name)
