"""Have the first ``try`` of a function begin at its first instruction.

CPython looks for signals as a function starts, at an instruction before its first line, which no
``try`` in it covers. A signal that came in a short body is handled right there: in a loop of
``with lock: pass`` a third of all Ctrl-C came as ``__exit__`` began, and left the lock held.

The instructions that a ``try`` covers stand in a table of the code: entries of their start, their
length, the handler, and what is left on the stack. Each number is in digits of 6 bits, the highest
first; bit 6 says that another digit follows, and bit 7 that an entry begins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

KNOWN = (3, 11) <= sys.version_info < (3, 16) and sys.implementation.name == "cpython"
DIGIT, MORE, ENTRY = 0x3F, 0x40, 0x80


def from_first_instruction(function: Function) -> Function:
    """Decorate a function whose body is one ``try``; elsewhere than in CPython nothing changes."""
    if not KNOWN or not isinstance(function, FunctionType):
        return function
    code = function.__code__
    table = code.co_exceptiontable
    if not table or not table[0] & ENTRY:  # it has another form
        return function
    start, at = _number(table, 0)
    length, at = _number(table, at)
    moved = _digits(0, ENTRY) + _digits(start + length, 0) + table[at:]
    function.__code__ = code.replace(co_exceptiontable=moved)
    return function


def _number(table: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins there, and where the next one does."""
    value = table[at] & DIGIT
    while table[at] & MORE:
        at += 1
        value = value << 6 | table[at] & DIGIT
    return value, at + 1


def _digits(value: int, mark: int) -> bytes:
    """Return a number as it stands in a table."""
    digits = [value & DIGIT]
    while value := value >> 6:
        digits.append(value & DIGIT | MORE)
    digits[-1] |= mark
    return bytes(reversed(digits))
