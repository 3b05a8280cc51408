"""The points at which Python runs signal handlers, found by tracing: one is struck in each run.

Python looks for signals after a call, at the start of a function and at the end of a loop's turn.
A trace function sees every instruction, so it can raise right there, as a handler would. It raises
also after calls of Python functions, where only some versions look: no code should depend on that.

A point is an instruction and the calls that led there. Runs differ a little, as answers come sooner
or later, and so a number of points would miss some.
"""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType
from typing import Any

LOOKS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"}
_names: dict[CodeType, dict[int, str]] = {}
_kept: list[object] = []  # trace functions: Python 3.11 may call one that it has freed


def _named(code: CodeType) -> dict[int, str]:
    """Return the names of a function's instructions, by their offsets."""
    if code not in _names:
        _names[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
    return _names[code]


Point = tuple[tuple[CodeType, int], ...]


def _point(frame: FrameType) -> Point:
    """Return where the library is, from the innermost call outwards."""
    calls, outer = [], frame
    while not _ours(outer) and outer.f_back is not None:
        calls.append((outer.f_code, outer.f_lasti))
        outer = outer.f_back
    return tuple(calls)


def _ours(frame: FrameType) -> bool:
    """Return True if a frame is of a test."""
    return str(frame.f_globals.get("__name__", "")).startswith("tests.")


class Strike:
    """Raises KeyboardInterrupt once, at the first point inside the block that is not in ``tried``.

    It adds the point there.
    """

    def __init__(self, tried: set[Point]) -> None:
        self._tried = tried
        self.where = ""  # what was struck; nothing when there was no other point
        self._hook = self._called
        _kept.append(self._hook)

    def __enter__(self) -> None:
        """Begin to count."""
        self._before = sys.gettrace()
        sys.settrace(self._hook)

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        if self.where or _ours(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        names, before = _named(frame.f_code), ""

        def instruction(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal before
            if event == "opcode" and not self.where:
                looked, before = before in LOOKS, names.get(frame.f_lasti, "")
                point = _point(frame) if looked else ()
                if looked and point not in self._tried:
                    self._tried.add(point)
                    self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                    sys.settrace(None)  # Python 3.11 may crash where the error ends the tracing
                    raise KeyboardInterrupt
            return instruction

        return instruction
