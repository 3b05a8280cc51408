"""The measurements, declared once for all systems that keep metrics.

Rules of this file:

- A label is a template or a word of a fixed set, never a name: names are without bound.
- The numbers of waiters and holders count only what this hook saw begin. So they never fall below
  zero, also if locks were held or waited for when it was set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fencelock._core import events
from fencelock._core.events import LockEvent

OTHER: Final = "(other)"  # the label of all templates beyond the limit
# From half a millisecond, a handoff on one host, to five minutes; in seconds.
BUCKETS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
SPAN, GAUGE, COUNTER = "span", "gauge", "counter"


class Measure(NamedTuple):
    """One measurement: its description for people, and its name in each system."""

    name: str  # of OpenTelemetry
    prometheus: str
    form: str
    unit: str  # of OpenTelemetry
    extra: str  # a further label; empty when there is none
    text: str


WAIT: Final = Measure(
    "fencelock.wait.duration", "fencelock_wait_seconds", SPAN, "s", "outcome",
    "How long requests took until they were granted, or ended otherwise.",
)  # fmt: skip
HOLD: Final = Measure(
    "fencelock.hold.duration", "fencelock_hold_seconds", SPAN, "s", "outcome",
    "How long leases were held until they were released or lost.",
)  # fmt: skip
WAITERS: Final = Measure(
    "fencelock.waiters", "fencelock_waiters", GAUGE, "{waiter}", "",
    "How many threads and tasks wait now.",
)  # fmt: skip
HOLDS: Final = Measure(
    "fencelock.holds", "fencelock_holds", GAUGE, "{lease}", "",
    "How many leases are held now.",
)  # fmt: skip
LOST: Final = Measure(
    "fencelock.lost", "fencelock_lost", COUNTER, "{lease}", "reason",
    "How many leases were lost.",
)  # fmt: skip
TIMEOUTS: Final = Measure(
    "fencelock.timeouts", "fencelock_timeouts", COUNTER, "{request}", "",
    "How many requests were not granted within their timeout.",
)  # fmt: skip
RENEWAL: Final = Measure(
    "fencelock.renewal.duration", "fencelock_renewal_seconds", SPAN, "s", "",
    "How long successful renewals took.",
)  # fmt: skip
RENEWAL_FAILURES: Final = Measure(
    "fencelock.renewal.failures", "fencelock_renewal_failures", COUNTER, "{renewal}", "",
    "How many renewals failed; they are retried while the lease lasts.",
)  # fmt: skip
RECALLS: Final = Measure(
    "fencelock.recalls", "fencelock_recalls", COUNTER, "{recall}", "",
    "How often other clients wanted a lease that this one may keep.",
)  # fmt: skip
DEADLOCKS: Final = Measure(
    "fencelock.deadlocks", "fencelock_deadlocks", COUNTER, "{request}", "",
    "How many requests were refused to end a deadlock.",
)  # fmt: skip
MEASURES: Final = (
    *(WAIT, HOLD, WAITERS, HOLDS, LOST, TIMEOUTS, RENEWAL),
    *(RENEWAL_FAILURES, RECALLS, DEADLOCKS),
)


# Events that are counted, and no more.
_COUNTED: Final = {
    events.RENEWAL_FAILED: RENEWAL_FAILURES,
    events.RECALLED: RECALLS,
    events.TIMED_OUT: TIMEOUTS,
    events.DEADLOCK: DEADLOCKS,
}


# What adds to a counter or gauge, or records a span; labels: template, object, the extra one.
Record = Callable[[Measure, float, tuple[str, ...]], object]


class MetricsHook:
    """Turns events into measurements."""

    def __init__(self, record: Record, templates_max: int) -> None:
        self._record = record
        self._templates_max = templates_max
        self._templates: set[str] = set()
        self._waiting: set[int] = set()  # acquisitions that are counted
        self._held: set[int] = set()

    def __call__(self, event: LockEvent, /) -> None:
        """Measure what an event tells."""
        kind = event.kind
        if kind == events.REQUESTED:  # measured when it ends
            return
        labels = self._template(event.template), event.subject.kind
        if kind in _COUNTED:
            self._record(_COUNTED[kind], 1, labels)
        if kind in events.ENDS:
            self._ended(WAITERS, self._waiting, event, labels)
            self._record(WAIT, event.waited, (*labels, kind))
            if kind == events.GRANTED:
                self._held.add(event.number)
                self._record(HOLDS, 1, labels)
        elif kind == events.WAITING:
            self._waiting.add(event.number)
            self._record(WAITERS, 1, labels)
        elif kind in {events.RELEASED, events.LOST}:
            self._ended(HOLDS, self._held, event, labels)
            self._record(HOLD, event.held, (*labels, kind))
            if kind == events.LOST:
                self._record(LOST, 1, (*labels, event.reason))
        elif kind == events.RENEWED:
            self._record(RENEWAL, event.took, labels)

    def _ended(
        self, gauge: Measure, counted: set[int], event: LockEvent, labels: tuple[str, str]
    ) -> None:
        if event.number in counted:
            counted.discard(event.number)
            self._record(gauge, -1, labels)

    def _template(self, template: str) -> str:
        """Return the template; ``(other)`` for those beyond ``templates_max``."""
        if template not in self._templates and len(self._templates) < self._templates_max:
            self._templates.add(template)
        return template if template in self._templates else OTHER
