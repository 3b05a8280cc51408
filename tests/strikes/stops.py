"""Two threads, each stopped once at a line of the library: whatever both have done by then stands.

A line counts once in a thread, where it is reached first, outside the mutex: inside it no thread
waits for another.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import fencelock
from fencelock._runtime.mutex import inside
from tests.waiting import SOON, until

LIBRARY = str(Path(fencelock.__file__).parent)
STOPPED_SECONDS = 0.1  # at most, for what another thread does
LOOK_SECONDS = 0.001
STILL = 10  # looks at a thread that does not move
Line = tuple[str, int]

_kept: list[object] = []  # trace functions: Python 3.11 may call one that it has freed


@functools.cache
def is_ours(file: str) -> bool:
    return file.startswith(LIBRARY)


class Stop:
    """Stops the thread that runs inside it at a line, or at its nth one; never without either."""

    def __init__(self, at: Line | None = None, nth: int = 0) -> None:
        self._at, self._nth = at, nth
        self.lines: dict[Line, str] = {}  # that were reached, in this order; of which function
        self.where = ""
        self._news, self._go, self._over = (threading.Event() for _ in range(3))
        self._ident: int | None = None
        self._expected = False  # its thread was begun, and may not run yet
        _kept.append(self)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Watch what this thread calls."""
        self._ident, before = threading.get_ident(), sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            self.end()

    def expect(self) -> None:
        """Say that a thread comes: it is waited for, however late the machine begins it."""
        self._expected = True

    def end(self) -> None:
        """Say that nothing comes any more."""
        self._over.set()
        self._news.set()

    def is_over(self) -> bool:
        """Return True once nothing comes any more."""
        return self._over.is_set()

    def go_on(self) -> None:
        """Let the thread go on."""
        self._go.set()

    def until_stopped(self) -> bool:
        """Wait until it is stopped or over, or stands still by itself: then return False."""
        return self._until(self._news)

    def until_over(self) -> bool:
        """Wait until it is over, or stands still; return True if it is over."""
        return self._until(self._over)

    def until_ended(self) -> None:
        """Wait until it is over, if it ever began."""
        until(lambda: self._over.is_set() or not (self._expected or self._ident), "the call ends")

    def _until(self, news: threading.Event) -> bool:
        if self._expected:
            until(lambda: self._ident is not None or self._over.is_set(), "the call begins")
        seen, looks, end = None, 0, time.monotonic() + STOPPED_SECONDS
        while not news.wait(LOOK_SECONDS):
            frame = sys._current_frames().get(self._ident or 0)
            there = frame and (id(frame), frame.f_code, frame.f_lasti)
            looks, seen = looks + 1 if there == seen else 0, there
            if looks > STILL or time.monotonic() > end:
                return False
        return True

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        if self.where or not is_ours(frame.f_code.co_filename):
            return None
        return self._came

    def _came(self, frame: FrameType, event: str, arg: object) -> Any:
        if self.where:
            return None
        line = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and line not in self.lines and not inside():
            self.lines[line] = frame.f_code.co_name
            if line == self._at or len(self.lines) == self._nth:
                self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                self._news.set()
                self._go.wait(SOON)
                sys.settrace(None)
                return None
        return self._came
