"""Checks what hooks are told in one run: each request ends once, and each grant ends once.

A hook may raise anything without an effect, so what is wrong is kept, and told at the end of the
schedule. A process that crashed reports nothing more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fencelock._core import events
from fencelock._core.events import LockEvent
from fencelock._core.lock.hold import Hold
from verification.simulator.monitor import Violation
from verification.simulator.network import World

INVARIANT = "E"
_OVER = (events.RELEASED, events.LOST)


class EventMonitor:
    """What was reported so far, by acquisition."""

    def __init__(self) -> None:
        self._wrong: list[str] = []
        self._open: dict[int, LockEvent] = {}  # requests that have not ended
        self._waiting: set[int] = set()
        self._held: dict[int, LockEvent] = {}  # grants that have not ended
        self._ends: dict[int, str] = {}  # how each grant ended

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Be a hook for as long as the block runs."""
        events.install(self)
        try:
            yield
        finally:
            events.uninstall(self)

    def __call__(self, event: LockEvent, /) -> None:
        """Compare an event with those before it."""
        number, kind = event.number, event.kind
        if not number:
            return
        if event.waited < 0 or event.held < 0:
            self._complain(event, "a span is negative")
        if kind == events.REQUESTED:
            self._open[number] = event
        elif kind == events.WAITING:
            if number not in self._open or number in self._waiting:
                self._complain(event, "it waits already, or does not ask")
            self._waiting.add(number)
        elif kind in events.ENDS:
            self._request_ended(event)
        elif number not in self._held:
            self._complain(event, "no lease of it is known")
        elif kind in _OVER:
            self._ends[number] = kind
            del self._held[number]

    def _request_ended(self, event: LockEvent) -> None:
        if self._open.pop(event.number, None) is None:
            self._complain(event, "the request ended before")
        if event.kind == events.GRANTED:
            self._held[event.number] = event

    def _complain(self, event: LockEvent, why: str) -> None:
        self._wrong.append(f"{event!r}: {why}")

    def end(self, world: World) -> None:
        """Check what must be over when a schedule is."""
        living = {each.port.client_channel for each in world.clients if each.alive}
        holds = dict(_known(world))
        for event in self._open.values():
            if event.client in living:
                self._complain(event, "its end was not reported")
        for number, event in self._held.items():
            if event.client in living and not _lasts(holds.get(number)):
                self._complain(event, "the end of its lease was not reported")
        for number, kind in self._ends.items():
            hold = holds.get(number)
            if hold is not None and (kind == events.LOST) != (hold.loss is not None):
                self._wrong.append(f"{hold!r} ended as {kind}")
        if self._wrong:
            raise Violation(INVARIANT, "; ".join(self._wrong))


def _known(world: World) -> Iterator[tuple[int, Hold]]:
    """Yield the leases whose request was reported, by the numbers of their acquisitions."""
    for _, attempt in getattr(world.monitor, "requests", ()):
        if attempt.event is not None and attempt.held:
            yield attempt.event.number, attempt


def _lasts(hold: Hold | None) -> bool:
    """Return True for a lease that is still held."""
    return hold is not None and hold.loss is None and not hold.released
