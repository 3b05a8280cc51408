"""The measurements, declared once for all systems that keep metrics.

Rules of this file:

- A label is a template or a word of a fixed set, never a name: names are without bound.
- The numbers of waiters and holders count only what this hook saw begin. So they never fall below
  zero, also if locks were held or waited for when it was set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from fencelock._core import events
from fencelock._core.events import LockEvent, Subject

# After so many events what was only noted is added up: that takes a tenth of a millisecond.
SETTLED_AFTER: Final = 500
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


# A measurement with its further label, if it has one: the measure's name first.
Key = tuple[str, ...]
# Events that end a span, or are one.
_SPANS: Final[dict[str, Key]] = {
    **{kind: (WAIT.name, kind) for kind in events.ENDS},
    **{kind: (HOLD.name, kind) for kind in (events.RELEASED, events.LOST)},
    events.RENEWED: (RENEWAL.name,),
}
_GRANTED, _RELEASED = _SPANS[events.GRANTED], _SPANS[events.RELEASED]
# Events that are counted, and no more.
_COUNTED: Final[dict[str, Key]] = {
    events.RENEWAL_FAILED: (RENEWAL_FAILURES.name,),
    events.RECALLED: (RECALLS.name,),
    events.TIMED_OUT: (TIMEOUTS.name,),
    events.DEADLOCK: (DEADLOCKS.name,),
}
_MEASURED: Final = frozenset({*_SPANS, *_COUNTED, events.WAITING})
_WAITERS: Final[Key] = (WAITERS.name,)
_HOLDS: Final[Key] = (HOLDS.name,)

_BY_NAME: Final = {measure.name: measure for measure in MEASURES}

Add = Callable[[float], object]  # to a counter or gauge; a histogram records a span


class Members:
    """The acquisitions that a gauge counts, of a system that takes differences."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._numbers: set[int] = set()

    def add(self, number: int) -> None:
        """Count one more."""
        self._numbers.add(number)
        self._add(1)

    def discard(self, number: int) -> None:
        """Count one less, if it was counted."""
        if number in self._numbers:
            self._numbers.discard(number)
            self._add(-1)


class Sink:
    """Where measurements go; the labels are template, object, and the extra one."""

    def __init__(self, adder: Callable[[Measure, tuple[str, ...]], Add]) -> None:
        self.adder = adder

    def gauge(self, measure: Measure, labels: tuple[str, ...]) -> Members | set[int]:
        """Return the gauge with these labels."""
        return Members(self.adder(measure, labels))

    def settle(self) -> None:
        """Add up what was only noted so far."""


class _Row(dict[Key, Any]):
    """What measures one template and object, made when first needed."""

    def __init__(self, sink: Sink, *labels: str) -> None:
        self._sink, self._labels = sink, labels

    def __missing__(self, key: Key) -> Any:
        measure, labels = _BY_NAME[key[0]], (*self._labels, *key[1:])
        make: Any = self._sink.gauge if measure.form == GAUGE else self._sink.adder
        return self.setdefault(key, make(measure, labels))


class MetricsHook(events.OwnHook):
    """Turns events into measurements. Most are taken before an event is built."""

    def __init__(self, sink: Sink, templates_max: int) -> None:
        self._sink = sink
        self._templates_max = templates_max
        self._templates: set[str] = set()
        self._rows: dict[tuple[str, str], _Row] = {}  # by template and object
        self._until_settled = SETTLED_AFTER

    def __ways__(self) -> Mapping[str, events.Way]:
        """Return what measures what: a pair without an event."""
        return {
            **dict.fromkeys(_MEASURED, (self, None)),
            events.GRANTED: (self, self._granted),
            events.RELEASED: (self, self._released),
        }

    def __call__(self, event: LockEvent, /) -> None:
        """Measure what an event tells."""
        kind, subject = event.kind, event.subject
        if kind == events.GRANTED:
            self._granted(subject, event.waited)
        elif kind == events.RELEASED:
            self._released(subject, event.held)
        elif kind in _MEASURED:
            self._measure(self._row(subject), event)

    def _granted(self, subject: Subject, waited: float) -> bool:
        row = self._rows.get((subject.template, subject.kind)) or self._row(subject)
        number = subject.number
        if _WAITERS in row:
            row[_WAITERS].discard(number)
        row[_GRANTED](waited)
        row[_HOLDS].add(number)
        return False

    def _released(self, subject: Subject, held: float) -> bool:
        row = self._rows.get((subject.template, subject.kind)) or self._row(subject)
        row[_RELEASED](held)
        row[_HOLDS].discard(subject.number)
        self._until_settled -= 1
        if self._until_settled < 0:
            self._settle()
        return False

    def _settle(self) -> None:
        self._until_settled = SETTLED_AFTER
        self._sink.settle()

    def _measure(self, row: _Row, event: LockEvent) -> None:
        kind, number = event.kind, event.number
        if kind == events.WAITING:
            row[_WAITERS].add(number)
        elif kind == events.RENEWED:
            row[_SPANS[kind]](event.took)
        elif kind in events.ENDS:
            if _WAITERS in row:
                row[_WAITERS].discard(number)
            row[_SPANS[kind]](event.waited)
        elif kind == events.LOST:
            row[_SPANS[kind]](event.held)
            row[LOST.name, event.reason](1)
            row[_HOLDS].discard(number)
        if kind in _COUNTED:
            row[_COUNTED[kind]](1)
        self._until_settled -= 1
        if self._until_settled < 0:
            self._settle()

    def _row(self, subject: Subject) -> _Row:
        """Return what measures a template; ``(other)`` beyond ``templates_max``."""
        template = subject.template or subject.kind
        known = template in self._templates or len(self._templates) < self._templates_max
        if known:
            self._templates.add(template)
        labels = template if known else OTHER, subject.kind
        row = self._rows.setdefault(labels, _Row(self._sink, *labels))
        if known:
            self._rows[subject.template, subject.kind] = row
        return row
