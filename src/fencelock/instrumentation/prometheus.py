"""Metrics with ``prometheus_client``.

Rules of this file:

- What an operation records is appended to a deque, in one step: no lock is taken, so a finalizer or
  signal handler may record, too. It is added up when the registry is read, and now and then.
- What is exported is what the package's own metrics would export, which are used in its
  multiprocess mode: there each value is in a file, and a collector's is not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from importlib import import_module
from itertools import accumulate
from threading import Lock
from time import time
from typing import Any
from weakref import WeakKeyDictionary

from fencelock.instrumentation.metrics import (
    BUCKETS,
    GAUGE,
    HOLDS,
    MEASURES,
    SPAN,
    WAITERS,
    Add,
    Measure,
    MetricsHook,
    Sink,
)

# A registry refuses a second metric of one name: each has its metrics once, whatever is set.
_made: WeakKeyDictionary[Any, Cells | OwnMetrics] = WeakKeyDictionary()


def hook(registry: Any, templates_max: int) -> MetricsHook:
    """Return the hook that keeps the metrics of a registry; None: of the package's own."""
    core: Any = import_module("prometheus_client.core")
    values: Any = import_module("prometheus_client.values")
    registry = core.REGISTRY if registry is None else registry
    if registry not in _made:
        kind = Cells if values.ValueClass is values.MutexValue else OwnMetrics
        _made[registry] = kind(core, registry)
    return MetricsHook(_made[registry], templates_max)


def _labels(measure: Measure) -> tuple[str, ...]:
    return ("template", "object", measure.extra) if measure.extra else ("template", "object")


class OwnMetrics(Sink):
    """The package's own metrics."""

    def __init__(self, core: Any, registry: Any) -> None:
        super().__init__(self._child)
        self._made = {each: self._metric(core, each, registry) for each in MEASURES}

    @staticmethod
    def _metric(core: Any, measure: Measure, registry: Any) -> Any:
        about = (measure.prometheus, measure.text, _labels(measure))
        if measure.form == SPAN:
            return core.Histogram(*about, buckets=BUCKETS, registry=registry)
        if measure.form == GAUGE:  # of several processes: those that live, together
            return core.Gauge(*about, multiprocess_mode="livesum", registry=registry)
        return core.Counter(*about, registry=registry)

    def _child(self, measure: Measure, labels: tuple[str, ...]) -> Add:
        metric = self._made[measure].labels(*labels)
        add: Add = metric.observe if measure.form == SPAN else metric.inc
        return add


class _Cell:
    """What was noted of one measurement with its labels."""

    def __init__(self) -> None:
        self.new: deque[float] = deque()  # not added up yet
        self.total = 0.0
        self.counts = [0.0] * (len(BUCKETS) + 1)  # of spans, by the first bound that is not below
        self.created = time()

    def settle(self) -> None:
        """Add up; no two threads at a time."""
        for _ in range(len(self.new)):  # and nothing that comes meanwhile: it would never end
            value = self.new.popleft()
            self.total += value
            self.counts[bisect_left(BUCKETS, value)] += 1


class Cells(Sink):
    """A collector of the registry."""

    def __init__(self, core: Any, registry: Any) -> None:
        super().__init__(self._note)
        self._core = core
        self._lock = Lock()
        self._cells: dict[Measure, dict[tuple[str, ...], _Cell]] = {each: {} for each in MEASURES}
        self._gauges: dict[Measure, dict[tuple[str, ...], set[int]]] = {WAITERS: {}, HOLDS: {}}
        registry.register(self)

    def _note(self, measure: Measure, labels: tuple[str, ...]) -> Add:
        return self._cells[measure].setdefault(labels, _Cell()).new.append

    def gauge(self, measure: Measure, labels: tuple[str, ...]) -> set[int]:
        """Return the gauge with these labels: it is as high as there are members."""
        return self._gauges[measure].setdefault(labels, set())

    def settle(self) -> None:
        """Add up what was noted, unless another thread does."""
        if not self._lock.locked():
            with self._lock:
                self._settle()

    def _settle(self) -> None:
        for cells in self._cells.values():
            for cell in tuple(cells.values()):
                cell.settle()

    def describe(self) -> list[Any]:
        """Return the metrics without values."""
        core = self._core
        forms = {SPAN: core.HistogramMetricFamily, GAUGE: core.GaugeMetricFamily}
        return [
            forms.get(each.form, core.CounterMetricFamily)(
                each.prometheus, each.text, labels=_labels(each)
            )
            for each in MEASURES
        ]

    def collect(self) -> list[Any]:
        """Return the metrics, as those of the package would be."""
        families = self.describe()
        # The package exports when a metric was made, unless it is not to.
        (probe,) = self._core.Counter("probe", "", registry=None).collect()
        dated = any(each.name == "probe_created" for each in probe.samples)
        with self._lock:
            self._settle()
            for measure, family in zip(MEASURES, families, strict=True):
                self._fill(family, measure, dated=dated)
        return families

    def _fill(self, family: Any, measure: Measure, *, dated: bool) -> None:
        for labels, members in tuple(self._gauges.get(measure, {}).items()):
            family.add_metric(labels, float(len(members)))
        for labels, cell in tuple(self._cells[measure].items()):
            if measure.form == SPAN:
                bounds = zip([*map(str, BUCKETS), "+Inf"], accumulate(cell.counts), strict=True)
                family.add_metric(labels, [*bounds], cell.total)
            else:
                family.add_metric(labels, cell.total)
            if dated:
                named = dict(zip(_labels(measure), labels, strict=True))
                family.add_sample(f"{measure.prometheus}_created", named, cell.created)
