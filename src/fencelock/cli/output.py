"""Output: tables and JSON on stdout, messages on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence

from fencelock._runtime.typed import Final

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_EXACT_BELOW: Final = 10
_GAP: Final = "  "
_CELL_MIN: Final = 24  # columns are left out before a cell is cut below this
_NUMBERS: Final = {"WHEN", "FOR", "HELD FOR", "LEASE", "WAITING", "KEPT FOR", "LONGEST WAIT", "#"}
_PADDED_MAX: Final = 40  # no cell is padded to more for programs


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


def has_terminal() -> bool:
    """Return True if we belong to a terminal, wherever stdin and stdout lead."""
    if os.name != "posix":  # Windows has no such file
        return sys.stderr.isatty()
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def did_you_mean(near: Sequence[str]) -> str:
    """Return the question whether one of these was meant; nothing without any."""
    return f"did you mean {' or '.join(near)}?" if near else ""


def json_line(data: object) -> None:
    """Print one JSON value on one line of stdout."""
    print(json_text(data), flush=True)


def json_text(data: object) -> str:
    """Return a value as JSON, on one line."""
    import json

    return json.dumps(data, allow_nan=False)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    less: Sequence[str] = (),
    wraps: bool = False,
) -> None:
    """Print columns; on a terminal they fit its width, see ``fitted``.

    With ``wraps`` the last one has sentences, which are not cut. What a program reads has all
    columns and whole cells, and a very long one pads no other line.
    """
    lines, longest = [[visible(cell) for cell in row] for row in (header, *rows)], _PADDED_MAX
    if sys.stdout.isatty():
        longest = 0
        last = [[line.pop()] if wraps else [] for line in lines]
        room = columns(1) - (_CELL_MIN + len(_GAP) if wraps else 0)
        lines = [line + end for line, end in zip(fitted(lines, room, less), last, strict=True)]
    widths = [min(width, longest or width) for width in _widths(lines)]
    for line in lines:
        padded = (cell + " " * (n - cells(cell)) for cell, n in zip(line, widths, strict=True))
        print(_GAP.join(padded).rstrip())


def fitted(lines: list[list[str]], width: int, less: Sequence[str] = ()) -> list[list[str]]:
    """Return the lines of a table, its header first, cut to a width.

    Columns of ``less`` are left out, the first ones first, until the others have enough room. Then
    the longest cells are cut in the middle: names differ at either end. Numbers stay whole.
    """
    for name in less:
        if sum(min(n, _CELL_MIN) + len(_GAP) for n in _widths(lines)) - len(_GAP) <= width:
            break
        if name in lines[0]:
            place = lines[0].index(name)
            lines = [line[:place] + line[place + 1 :] for line in lines]
    widths, names = _widths(lines), [n for n, each in enumerate(lines[0]) if each not in _NUMBERS]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        longest = max(names, key=lambda n: widths[n])
        if widths[longest] == 1:
            break
        widths[longest] -= 1
    return [[_cut(cell, n) for cell, n in zip(line, widths, strict=True)] for line in lines]


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """Return how wide the widest cell of each column is."""
    return [max(map(cells, column)) for column in zip(*lines, strict=True)]


def _cut(text: str, width: int) -> str:
    """Return a text whose middle is left out so that it fits."""
    if cells(text) <= width:
        return text
    head, tail = text[: len(text) // 2], text[len(text) // 2 :]
    while cells(head) + 1 + cells(tail) > width and (head or tail):
        if cells(head) > cells(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes: a Chinese character takes two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def facts(pairs: Mapping[str, str]) -> None:
    """Print names and values, a pair a line; pairs without value are left out."""
    shown = {name: value for name, value in pairs.items() if value}
    width = max(map(len, shown), default=0) + 2
    for name, value in shown.items():
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
