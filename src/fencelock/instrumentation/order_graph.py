"""The orders in which locks are taken, and the circles in them. Pure: nothing is asked or sent.

Rules of this file:

- A *class* is a template, or the name of a lock without one. An order "A before B" is learnt when
  a thread or task that holds A asks for B and may wait; each is checked once, when it is new.
- Several orders that lead back to where they began can deadlock, though nothing deadlocked yet.
- Readers do not exclude each other. So a reader that waits for readers counts only if some place
  writes the class: a writer that waits between the two holds up the later reader.
- The orders within a multi are those of the names. A circle of these alone cannot deadlock.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

READ, WRITE = "read", "write"


class Order(NamedTuple):
    """One class is held in a mode when another one is requested in a mode."""

    first: str
    second: str
    held: str = WRITE
    wanted: str = WRITE
    by_name: bool = False  # within a multi, which sorts


class OrderStep(NamedTuple):
    """One order of a report: the second was requested while the first was held.

    Both places are lines of the user's code, the innermost first, as ``file:line in function``.
    ``who`` is the process.
    """

    first: str
    second: str
    held_at: tuple[str, ...]
    wanted_at: tuple[str, ...]
    who: str

    def __str__(self) -> str:
        """Return it in three lines: what happened, and where either lock was requested."""
        head = f"{self.second!r} was requested while {self.first!r} was held; process {self.who}"
        here = str(Path.cwd()) + os.sep
        lines = [head]
        for name, places in ((self.first, self.held_at), (self.second, self.wanted_at)):
            at = ", called at ".join(each.removeprefix(here) for each in places)
            lines.append(f"    {name!r} at {at}")
        return "\n".join(lines)


Circle = tuple[Order, ...]


class OrderGraph:
    """The orders that are known."""

    def __init__(self) -> None:
        self.seen: dict[Order, OrderStep] = {}
        self.written: set[str] = set()  # classes that were requested in write mode
        self._after: dict[str, list[Order]] = {}
        self._known: set[frozenset[str]] = set()  # circles that were found, by their classes

    def learn(self, order: Order, seen: OrderStep) -> Circle | None:
        """Note an order; return the circle that it closes, if that is new."""
        if order in self.seen:
            return None
        self.seen[order] = seen
        self._after.setdefault(order.first, []).append(order)
        return self._new(order)

    def write(self, name: str) -> Circle | None:
        """Note that a class is written; return a circle of its readers that can deadlock now."""
        if name in self.written:
            return None
        self.written.add(name)
        waits = [order for order in self.seen if order.second == name]
        return next((found for order in waits if (found := self._new(order))), None)

    def _new(self, order: Order) -> Circle | None:
        """Return the shortest circle that an order is part of, if that is new."""
        paths: deque[Circle] = deque([(order,)])
        reached: set[tuple[str, str, bool]] = set()
        while paths:
            path = paths.popleft()
            for after in self._after.get(path[-1].second, ()):
                if not self._blocks(path[-1], after):
                    continue
                longer = (*path, after)
                by_name = all(each.by_name for each in longer)
                if after.second == order.first and self._blocks(after, order) and not by_name:
                    classes = frozenset(each.first for each in longer)
                    if classes in self._known:
                        return None
                    self._known.add(classes)
                    return longer
                state = (after.second, after.wanted, by_name)
                if state not in reached:
                    reached.add(state)
                    paths.append(longer)
        return None

    def _blocks(self, waits: Order, holds: Order) -> bool:
        """Return True if a request for a class may have to wait for a holder of that class."""
        both_read = waits.wanted == holds.held == READ
        return not both_read or waits.second in self.written
