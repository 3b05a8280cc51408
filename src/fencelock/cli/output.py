"""Output: tables and JSON on stdout, messages on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_EXACT_BELOW: Final = 10
_NAME_MIN: Final = 24  # a name is not cut below this


def say(text: str) -> None:
    """Print a message on stderr."""
    to_stderr(f"fencelock: {visible(text)}\n")


def to_stderr(text: str) -> None:
    """Write a message for people on stderr.

    A stderr that fails (its reader or its terminal is gone, its disk is full) stops no command:
    what runs under a lock matters more than messages about it.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def json_line(data: object) -> None:
    """Print one JSON value on one line of stdout."""
    print(_json(data), flush=True)


def json_to_stderr(data: object) -> None:
    """Print one JSON value on one line of stderr."""
    to_stderr(_json(data) + "\n")


def _json(data: object) -> str:
    import json

    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, each as wide as its widest cell; the last one as it comes.

    On a terminal the first column, the name, is cut when the lines would be too long for it. What a
    program reads has the names whole.
    """
    lines = [[visible(cell) for cell in row] for row in (header, *rows)]
    if sys.stdout.isatty():
        _cut_names(lines, columns(1))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def _cut_names(lines: Sequence[list[str]], width: int) -> None:
    """Cut the first cell of each line so that all cells fit in a width, if that leaves enough."""
    others = [max(map(len, column)) for column in list(zip(*lines, strict=True))[1:]]
    room = max(_NAME_MIN, width - sum(others) - 2 * len(others))
    for line in lines:
        if len(line[0]) > room:
            line[0] = line[0][: room - 1] + "…"


def facts(pairs: Mapping[str, str]) -> None:
    """Print names and values, a pair a line; pairs without value are left out."""
    width = max(map(len, pairs)) + 2
    for name, value in pairs.items():
        if value:
            print(f"{name:{width}}{visible(value)}")


def visible(text: str) -> str:
    """Return text that cannot move a terminal's cursor: other users chose names and labels."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def columns(standard: int) -> int:
    """Return how wide the terminal is that stdout or stderr leads to; 80 when it leads to none."""
    try:
        return os.get_terminal_size(standard).columns or 80
    except OSError:
        return 80


def human(seconds: float) -> str:
    """Return a span for people: ``0.3s``, ``27s``, ``3m12s``, ``2h05m``, ``4d03h``."""
    if seconds < _EXACT_BELOW:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"
