"""The lock as it stands in a frozen keyspace: what a script would read of it."""

from __future__ import annotations

import functools
from typing import NamedTuple

from fencelock.scripts.layout import words_of
from verification.simulator.keyspace import NEVER, Frozen
from verification.simulator.network import NEVER_US


class Entry(NamedTuple):
    """A place in line."""

    waiter: bytes
    holder: bytes
    channel: bytes
    arrived_us: float


class View(NamedTuple):
    """The lock on the server at one instant."""

    holder: bytes | None
    end_us: int  # by the server's clock: the first instant without the key
    fence: int
    line: tuple[Entry, ...]
    owner_holds: frozenset[bytes]


NO_LINE: tuple[Entry, ...] = ()


@functools.lru_cache(maxsize=100_000)
def read(state: Frozen) -> View:
    """Return the lock in a frozen keyspace, whatever the time."""
    holder, end_us, fence, line, holds = None, 0, 0, NO_LINE, frozenset[bytes]()
    for key, (value, end_ms) in state:
        if isinstance(value, tuple) and key.endswith(b"~queue"):
            line = tuple(_entry(text, score) for score, text in value)
        elif isinstance(value, frozenset):
            holds = value
        elif key.endswith(b"~record"):
            fence = int(value.partition(b" ")[0])  # of any kind
        elif isinstance(value, bytes) and b"~" not in key:
            holder, end_us = value, NEVER_US if end_ms == NEVER else (end_ms + 1) * 1000
    return View(holder, end_us, fence, line, holds)


@functools.lru_cache(maxsize=100_000)
def at(state: Frozen, now_us: int) -> View:
    """Return the lock in a frozen keyspace at an instant: a lease that ended holds nothing."""
    view = read(state)
    return view if view.end_us > now_us else view._replace(holder=None)


def _entry(text: bytes, arrived_us: float) -> Entry:
    words = words_of("entry", text)
    return Entry(words["waiter"], words["holder"], words["channel"], arrived_us)
