"""What strikes a call: Ctrl-C at a point, or a cancellation at a suspension; one in each run.

Python looks for signals after a call, at the start of a function and at the end of a loop's turn.
Whoever watches each instruction can raise right there, as a handler would. It raises also after
calls of Python functions, where only some versions look: no code should depend on that.

A point is an instruction and the calls that led there. Runs differ a little, as answers come sooner
or later, and so a number of points would miss some. A suspension is known by its number.
"""

from __future__ import annotations

import asyncio
import dis
import gc
import itertools
import sys
import threading
import time
from collections.abc import Coroutine, Generator, Iterator
from types import CodeType, FrameType
from typing import Any

LOOKS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME"}
TURN = "JUMP_BACKWARD"
STORY_SECONDS = 60.0  # many times what a story takes with a core for itself
Calls = tuple[tuple[int, int], ...]  # functions by their id: to hash their code takes long
Point = tuple[int, Calls]

_offsets: dict[CodeType, set[int]] = {}
_kept: list[object] = []  # trace functions: Python 3.11 may call one that it has freed


def _points(code: CodeType) -> set[int]:
    """Return the offsets of a function's instructions at which Python may have looked."""
    if code not in _offsets:
        found, looked = set(), False
        for each in dis.get_instructions(code):
            if looked:
                found.add(each.offset)
            if each.opname == TURN:
                found.add(each.argval)
            looked = each.opname in LOOKS
        _offsets[code] = found
    return _offsets[code]


def _ours(frame: FrameType) -> bool:
    """Return True if a frame is of a test."""
    return str(frame.f_globals.get("__name__", "")).startswith("tests.")


def _calls(frame: FrameType) -> Calls:
    """Return which calls led to a function of the library, and that function."""
    calls, outer = [(id(frame.f_code), 0)], frame.f_back
    while outer is not None and not _ours(outer):
        calls.append((id(outer.f_code), outer.f_lasti))
        outer = outer.f_back
    return tuple(calls)


class Signal:
    """Raises KeyboardInterrupt once, at the first point inside the block that is not in ``tried``.

    It adds the point there.

    Python collects no garbage meanwhile: that comes anywhere, and each place would be a new point.
    """

    def __init__(self, tried: set[Point]) -> None:
        self._tried = tried
        self._thread = threading.get_ident()
        self.where = ""  # what was struck; nothing when there was no other point
        _kept.append(self)

    def __enter__(self) -> None:
        """Begin to watch."""
        gc.disable()
        if sys.version_info < (3, 12):
            self._before, self._hook = sys.gettrace(), self._called
            sys.settrace(self._hook)
            return
        watch = sys.monitoring
        watch.use_tool_id(watch.PROFILER_ID, "strike")
        watch.register_callback(watch.PROFILER_ID, watch.events.INSTRUCTION, self._comes)
        watch.set_events(watch.PROFILER_ID, watch.events.INSTRUCTION)

    def __exit__(self, *_: object) -> None:
        """Watch no more."""
        gc.enable()
        if sys.version_info < (3, 12):
            sys.settrace(self._before)
            return
        watch = sys.monitoring
        watch.set_events(watch.PROFILER_ID, 0)
        watch.register_callback(watch.PROFILER_ID, watch.events.INSTRUCTION, None)
        watch.free_tool_id(watch.PROFILER_ID)

    def _comes(self, code: CodeType, offset: int) -> Any:
        """Take an instruction of any thread (Python 3.12 and later)."""
        if offset not in _points(code):
            return sys.monitoring.DISABLE if sys.version_info >= (3, 12) else None
        frame = sys._getframe(1)
        if threading.get_ident() == self._thread and not _ours(frame):
            self._look(frame, _calls(frame))
        return None

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        """Take a call of this thread (Python 3.11)."""
        if self.where or _ours(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        offsets, calls = _points(frame.f_code), _calls(frame)

        def instruction(frame: FrameType, event: str, arg: object) -> Any:
            if self.where:
                frame.f_trace_opcodes = False
            elif event == "opcode" and frame.f_lasti in offsets:
                self._look(frame, calls)
            return instruction

        return instruction

    def _look(self, frame: FrameType, calls: Calls) -> None:
        """Strike at a point, unless it was tried."""
        point = frame.f_lasti, calls
        if self.where or point in self._tried:
            return
        self._tried.add(point)
        self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
        if sys.version_info < (3, 12):
            sys.settrace(None)  # Python 3.11 may crash where the error ends the tracing
        raise KeyboardInterrupt

    async def over(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Await a call that is struck."""
        with self:
            return await call


class Suspension:
    """Cancels the task that awaits a call, at the call's n-th suspension.

    ``late``: when what the call awaits there is there, and the call goes on next.
    """

    def __init__(self, nth: int, *, late: bool) -> None:
        self._nth = nth
        self._late = late
        self._call: Coroutine[Any, Any, Any]
        self.where = ""  # what was struck; nothing when there was no such suspension

    async def over(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Await a call that is struck."""
        self._call = call
        try:
            return await self
        finally:
            if self.where and (task := asyncio.current_task()):
                task.uncancel()

    def __await__(self) -> Generator[Any, Any, Any]:
        inner, error = self._call.__await__(), None
        for number in itertools.count(1):
            try:
                future = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as stop:
                return stop.value
            error = None
            try:
                self._strikes(number, late=False)
                yield future
                if self._strikes(number, late=True):
                    yield None  # where it is raised
            except BaseException as raised:  # noqa: BLE001 - whatever it is, it is for the call
                error = raised

    def _strikes(self, number: int, *, late: bool) -> bool:
        """Cancel the task if this is the suspension."""
        task = asyncio.current_task()
        if task is None or (number, late) != (self._nth, self._late):
            return False
        self.where = f"suspension {number}, late: {late}"
        return task.cancel()


Strike = Signal | Suspension


def signals() -> Iterator[Signal]:
    """Yield what strikes a story at each of its points, until there is no other.

    A play in which another thread came too early has no point left, so the last one is played
    again. What a machine cannot play in a minute is left out.
    """
    tried, end, left = set[Point](), time.monotonic() + STORY_SECONDS, 2
    while left and time.monotonic() < end:
        yield (strike := Signal(tried))
        left = 2 if strike.where else left - 1


def suspensions() -> Iterator[Suspension]:
    """Yield what strikes a story at each suspension of its call, early and late."""
    for late in (False, True):
        for nth in itertools.count(1):
            yield (strike := Suspension(nth, late=late))
            if not strike.where:
                break
