"""The mutex, in one section of which something comes: a finalizer, say, or a signal handler."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fencelock._runtime import mutex


class Interrupted:
    """The mutex, which calls ``strike`` inside a section once it is armed for that one."""

    def __init__(self, strike: Callable[[], object]) -> None:
        self._lock = threading.RLock()
        self._strike, self._at = strike, 0
        self.sections = 0

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have all clients of this test use it."""
        monkeypatch.setattr(mutex, "_lock", self)
        monkeypatch.setattr(mutex, "owned", self._lock._is_owned)

    def arm(self, number: int) -> int:
        """Strike in the section so many from here, of any thread; return how many there were.

        Under the mutex: the renewal thread may begin a section at any moment.
        """
        with self._lock:
            self._at = self.sections + number
            return self.sections

    def disarm(self) -> int:
        """Strike no more; return how many sections there were."""
        with self._lock:
            self._at = 0
            return self.sections

    def __enter__(self) -> None:
        self._lock.acquire()
        self.sections += 1
        if self.sections == self._at:
            self._strike()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
