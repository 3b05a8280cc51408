"""What people and programs read: tables and JSON on stdout, messages on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_EXACT_BELOW: Final = 10


def say(text: str) -> None:
    """Print a message on stderr."""
    print(f"fencelock: {visible(text)}", file=sys.stderr, flush=True)


def json_line(data: object, file: Any = None) -> None:
    """Print one JSON value on one line."""
    import json

    print(json.dumps(data, ensure_ascii=False, allow_nan=False), file=file, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, each as wide as its widest cell; the last one as it comes."""
    lines = [[visible(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def facts(pairs: Mapping[str, str]) -> None:
    """Print names and values, a pair a line; pairs without value are left out."""
    width = max(map(len, pairs)) + 2
    for name, value in pairs.items():
        if value:
            print(f"{name:{width}}{visible(value)}")


def visible(text: str) -> str:
    """Return text that cannot move a terminal's cursor: others chose names and labels."""
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
    """Return a span as people say it: ``0.3s``, ``27s``, ``3m12s``, ``2h05m``, ``4d03h``."""
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
