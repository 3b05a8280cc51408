"""Metrics with ``prometheus_client``."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from fencelock.instrumentation.metrics import BUCKETS, GAUGE, MEASURES, SPAN, Measure, MetricsHook

# A registry refuses a second metric of one name: each has its metrics once, whatever is set.
_made: WeakKeyDictionary[Any, dict[Measure, Any]] = WeakKeyDictionary()


def hook(registry: Any, templates_max: int) -> MetricsHook:
    """Return the hook that keeps the metrics of a registry; None: of the package's own."""
    prometheus: Any = import_module("prometheus_client")
    registry = prometheus.REGISTRY if registry is None else registry
    if registry not in _made:
        _made[registry] = {each: _metric(prometheus, each, registry) for each in MEASURES}
    made = _made[registry]
    # What adds to each, by its name and labels, which are of a bounded number: to look it up in the
    # package takes longer than to add.
    known: dict[tuple[str, tuple[str, ...]], Any] = {}

    def record(measure: Measure, value: float, labels: tuple[str, ...]) -> None:
        key = measure.prometheus, labels
        if key not in known:
            metric = made[measure].labels(*labels)
            known[key] = metric.observe if measure.form == SPAN else metric.inc
        known[key](value)

    return MetricsHook(record, templates_max)


def _metric(prometheus: Any, measure: Measure, registry: Any) -> Any:
    labels = ("template", "object", measure.extra) if measure.extra else ("template", "object")
    about = (measure.prometheus, measure.text, labels)
    if measure.form == SPAN:
        return prometheus.Histogram(*about, buckets=BUCKETS, registry=registry)
    if measure.form == GAUGE:  # over several processes of one service: those that live, together
        return prometheus.Gauge(*about, multiprocess_mode="livesum", registry=registry)
    return prometheus.Counter(*about, registry=registry)
