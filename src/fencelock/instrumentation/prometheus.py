"""Metrics with ``prometheus_client``."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from fencelock.instrumentation.metrics import BUCKETS, GAUGE, MEASURES, SPAN, Measure

# A registry refuses a second metric of one name: each has its metrics once, whatever is set.
_made: WeakKeyDictionary[Any, PrometheusInstruments] = WeakKeyDictionary()


def instruments(registry: Any = None) -> PrometheusInstruments:
    """Return the metrics in a registry; None: the package's own."""
    prometheus: Any = import_module("prometheus_client")
    where = prometheus.REGISTRY if registry is None else registry
    if where not in _made:
        _made[where] = PrometheusInstruments(prometheus, where)
    return _made[where]


class PrometheusInstruments:
    """The metrics in one registry."""

    def __init__(self, prometheus: Any, registry: Any) -> None:
        self._made: dict[Measure, Any] = {
            each: _metric(prometheus, each, registry) for each in MEASURES
        }

    def record(self, measure: Measure, value: float, labels: tuple[str, ...]) -> None:
        """Add to a counter or gauge, or record a span."""
        metric = self._made[measure].labels(*labels)
        if measure.form == SPAN:
            metric.observe(value)
        else:
            metric.inc(value)


def _metric(prometheus: Any, measure: Measure, registry: Any) -> Any:
    labels = ("template", "object", measure.extra) if measure.extra else ("template", "object")
    about = (measure.prometheus, measure.text, labels)
    if measure.form == SPAN:
        return prometheus.Histogram(*about, buckets=BUCKETS, registry=registry)
    if measure.form == GAUGE:  # over several processes of one service: those that live, together
        return prometheus.Gauge(*about, multiprocess_mode="livesum", registry=registry)
    return prometheus.Counter(*about, registry=registry)
