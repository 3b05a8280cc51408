"""The points at which Python runs signal handlers: one is struck in each run.

Python looks for signals after a call, at the start of a function and at the end of a loop's turn.
Whoever watches each instruction can raise right there, as a handler would. It raises also after
calls of Python functions, where only some versions look: no code should depend on that.

A point is an instruction and the calls that led there. Runs differ a little, as answers come sooner
or later, and so a number of points would miss some.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from tests.threads.state import ended, thread

LOOKS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME"}
TURN = "JUMP_BACKWARD"
STOPPED_SECONDS = 0.05
Point = tuple[tuple[CodeType, int], ...]

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


def _point(frame: FrameType) -> Point:
    """Return where the library is, from the innermost call outwards."""
    calls, outer = [], frame
    while not _ours(outer) and outer.f_back is not None:
        calls.append((outer.f_code, outer.f_lasti))
        outer = outer.f_back
    return tuple(calls)


class Strike:
    """Raises KeyboardInterrupt once, at the first point inside the block that is not in ``tried``.

    It adds the point there. With ``instead`` it calls that, and the block goes on.
    """

    def __init__(self, tried: set[Point], instead: Callable[[], object] | None = None) -> None:
        self._tried = tried
        self._instead = instead
        self._thread = threading.get_ident()
        self.where = ""  # what was struck; nothing when there was no other point
        _kept.append(self)

    def __enter__(self) -> None:
        """Begin to watch."""
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
            self._look(frame)
        return None

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        """Take a call of this thread (Python 3.11)."""
        if self.where or _ours(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        offsets = _points(frame.f_code)

        def instruction(frame: FrameType, event: str, arg: object) -> Any:
            if event == "opcode" and frame.f_lasti in offsets:
                self._look(frame)
            return instruction

        return instruction

    def _look(self, frame: FrameType) -> None:
        """Strike at a point, unless it was tried."""
        point = _point(frame)
        if self.where or point in self._tried:
            return
        self._tried.add(point)
        self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
        if self._instead is not None:
            self._instead()
            return
        if sys.version_info < (3, 12):
            sys.settrace(None)  # Python 3.11 may crash where the error ends the tracing
        raise KeyboardInterrupt


class Meanwhile:
    """What another thread does while a call is stopped at a point: once, and to its end.

    The call goes on before that end only if it is in the way.
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._thread: threading.Thread | None = None

    def __call__(self) -> None:
        """Begin, and wait for a moment."""
        self._thread = thread(self._act)
        self._thread.join(STOPPED_SECONDS)

    def end(self) -> None:
        """Begin unless that was done; wait for the end."""
        if self._thread is None:
            self()
        if self._thread is not None:
            ended(self._thread)
