"""Find wrong orders of locks before they deadlock, as the kernel's lockdep does.

Rules of this file:

- A single try does not wait, so it is no order. Once it was granted, its lock is held like any
  other, and later requests come after it.
- A request for another name of a class that the thread or task holds already is reported as well,
  unless the two names are in the order that ``ordered`` defines.
- Each circle is reported once. A hook must not block: the server is asked in a thread.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from types import FrameType
from typing import Any, NamedTuple

from fencelock._core import events
from fencelock._core.events import HookRefusal, LockEvent
from fencelock._runtime.log import log
from fencelock.instrumentation.order_graph import READ, WRITE, Circle, Order, OrderGraph, OrderStep
from fencelock.instrumentation.order_shared import SharedOrders

LINES_MAX = 3  # of the user's code, for each place
CLASSES_MAX = 1000
_PACKAGE = str(Path(__file__).parent.parent) + os.sep
_LIBRARY = str(Path(os.__file__).parent) + os.sep
# A thread or task may enter these again: that is no order.
_REENTRANT = frozenset(("rlock", "rwlock.read", "rwlock.write"))

NameOrder = Callable[[str], Any]


class OrderReport(NamedTuple):
    """Orders that can deadlock, in a circle: a step's second is the next one's first."""

    steps: tuple[OrderStep, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the templates, or the names of locks without one."""
        return tuple(step.first for step in self.steps)

    def __str__(self) -> str:
        """Return what happened, and what to do."""
        (first, *others) = self.classes
        if not others:
            head = f"two locks of the class {first!r} are held by one thread or task"
            cure = "take them with one multi, or give the checker their order (ordered=)"
        else:
            head = "locks are taken in different orders, which can deadlock"
            cure = "take them in one order everywhere, or with one multi"
        return "\n  ".join([f"{head}; {cure}:", *map(str, self.steps)])


class OrderViolation(HookRefusal):
    """A request would take locks in an order that can deadlock; raised by a strict checker.

    ``report`` says where each order was seen.
    """

    def __init__(self, report: OrderReport) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> Any:
        """Let it be copied and pickled."""
        return type(self), (self.report,)


class _Held(NamedTuple):
    """What a thread or task holds, or asks for."""

    unit: Hashable
    number: int
    group: int
    name: str
    lock_class: str
    mode: str
    object: str
    at: tuple[str, ...]


class OrderChecker:
    """A hook that learns in which order locks are taken, and reports orders that can deadlock.

    A report is logged as a warning, kept in ``reports`` and passed to ``on_report``. With
    ``strict`` the request that closes a circle, or takes a second lock of a class, raises
    OrderViolation before it is sent: for tests. ``ordered`` has for a template the function that
    returns, from a name, by what its locks are ordered, such as ``str``. With ``client``, a
    ``Client`` with the prefix of the locks, the orders are shared with other processes on its
    server, for a week; so two services are compared that never met.

    Raises:
        TypeError: an option of another type, or an ``AsyncClient``.
        ValueError: the client is one of a quorum.
    """

    def __init__(
        self,
        *,
        on_report: Callable[[OrderReport], object] | None = None,
        strict: bool = False,
        ordered: Mapping[str, NameOrder] | None = None,
        client: Any = None,
    ) -> None:
        _check_options(on_report, ordered)
        self._on_report = on_report
        self._strict = bool(strict)
        self._ordered = dict(ordered or {})
        self._lock = RLock()  # a finalizer may release while the graph changes
        self._graph = OrderGraph()
        self._held: dict[Hashable, list[_Held]] = {}
        self._asked: dict[int, _Held] = {}
        self._classes: set[str] = set()
        self._full = False  # there are more classes; that was logged
        self._twice: set[str] = set()  # classes that were reported because two of them were held
        self._reports: list[OrderReport] = []
        self._who = f"{socket.gethostname()}:{os.getpid()}"
        self._shared = None if client is None else SharedOrders(client, self._learn_from_others)

    @property
    def reports(self) -> tuple[OrderReport, ...]:
        """Return all reports so far."""
        return tuple(self._reports)

    def sync(self) -> None:
        """Exchange orders with the server now, instead of a moment later in a thread.

        Raises:
            ServerError, OutcomeUnknown: the server refuses, or no answer came.
        """
        if self._shared is not None:
            self._shared.exchange()

    def __call__(self, event: LockEvent, /) -> None:
        """Learn from an event."""
        if event.kind == events.REQUESTED:
            self._requested(event)
            return
        with self._lock:
            asked = self._asked.pop(event.number, None) if event.kind in events.ENDS else None
            if event.kind == events.GRANTED and asked is not None:
                self._held.setdefault(asked.unit, []).append(asked)
            elif event.kind in {events.RELEASED, events.LOST}:
                held = self._held.pop(event.unit, [])
                left = [each for each in held if each.number != event.number]
                if left:
                    self._held[event.unit] = left

    def _requested(self, event: LockEvent) -> None:
        lock_class = event.subject.template or event.name
        if event.unit is None or not self._known(lock_class):
            return
        mode = READ if event.object == "rwlock.read" else WRITE
        about = (event.unit, event.number, event.group, event.name)
        asked = _Held(*about, lock_class, mode, event.object, tuple(_places()))
        with self._lock:
            found = list(self._compared(asked)) if event.waits else []
            if not (self._strict and found):
                self._asked[event.number] = asked
        for report in found:
            self._tell(report)
        if found and self._strict:
            raise OrderViolation(found[0])

    def _known(self, lock_class: str) -> bool:
        """Return True if a class is compared: the first ``CLASSES_MAX`` are."""
        if len(self._classes) < CLASSES_MAX:
            self._classes.add(lock_class)
        elif lock_class not in self._classes and not self._full:
            self._full = True
            text = "more than %d classes of locks: further ones are not checked; use template="
            log.warning(text, CLASSES_MAX)
        return lock_class in self._classes

    def _compared(self, asked: _Held) -> Iterator[OrderReport]:
        """Learn the orders of a request; yield a report for each new one that can deadlock."""
        if asked.mode == WRITE and (circle := self._graph.write(asked.lock_class)):
            yield self._report(circle)
        for held in self._held.get(asked.unit, ()):
            yield from self._after(held, asked, by_name=False)
        if asked.group:
            for part in tuple(self._asked.values()):
                if part.group == asked.group:
                    yield from self._after(part, asked, by_name=True)

    def _after(self, held: _Held, asked: _Held, *, by_name: bool) -> Iterator[OrderReport]:
        """Learn that one class was held when the other was requested."""
        seen = OrderStep(held.lock_class, asked.lock_class, held.at, asked.at, self._who)
        order = Order(held.lock_class, asked.lock_class, held.mode, asked.mode, by_name)
        if order.first != order.second:
            if order not in self._graph.seen and self._shared is not None:
                self._shared.add(order, seen)
            if circle := self._graph.learn(order, seen):
                yield self._report(circle)
        elif not (by_name or self._in_order(held, asked) or order.first in self._twice):
            self._twice.add(order.first)
            yield OrderReport((seen,))

    def _in_order(self, held: _Held, asked: _Held) -> bool:
        """Return True if two locks of one class are in the order of their names."""
        if held.name == asked.name and asked.object in _REENTRANT:
            return True
        if held.mode == asked.mode == READ and asked.lock_class not in self._graph.written:
            return True
        by = self._ordered.get(asked.lock_class)
        return by is not None and bool(by(held.name) < by(asked.name))

    def _report(self, circle: Circle) -> OrderReport:
        return OrderReport(tuple(self._graph.seen[order] for order in circle))

    def _learn_from_others(self, order: Order, seen: OrderStep) -> None:
        """Learn an order that another process saw."""
        found = []
        with self._lock:
            for name, mode in ((order.first, order.held), (order.second, order.wanted)):
                if mode == WRITE:
                    found.append(self._graph.write(name))
            found.append(self._graph.learn(order, seen))
            reports = [self._report(circle) for circle in found if circle]
        for report in reports:
            self._tell(report)

    def _tell(self, report: OrderReport) -> None:
        self._reports.append(report)
        if not self._strict:  # else it is raised
            log.warning("%s", report)
        if self._on_report is not None:
            self._on_report(report)


def _check_options(on_report: object, ordered: object) -> None:
    if on_report is not None and not callable(on_report):
        raise TypeError(f"on_report must be a function of a report, not {on_report!r}")
    if ordered is not None and not isinstance(ordered, Mapping):
        raise TypeError(f"ordered must map templates to functions of a name, not {ordered!r}")
    for template, by in (ordered or {}).items():
        if not callable(by):
            raise TypeError(f"ordered[{template!r}] must be a function of a name, not {by!r}")


def _places() -> Iterator[str]:
    """Yield the innermost lines of the user's code; those of libraries if there are no others."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - traceback reads each source file
    own: list[str] = []
    others: list[str] = []
    while frame is not None and len(own) < LINES_MAX:
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, "<")):
            installed = file.startswith(_LIBRARY) or "-packages" + os.sep in file
            place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
            (others if installed else own).append(place)
        frame = frame.f_back
    yield from own or others[:LINES_MAX]
