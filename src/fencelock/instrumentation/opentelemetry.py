"""Metrics and spans with OpenTelemetry."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from fencelock._core import events
from fencelock._core.events import LockEvent
from fencelock.instrumentation.metrics import (
    BUCKETS,
    GAUGE,
    MEASURES,
    SPAN,
    Add,
    Measure,
    MetricsHook,
    Sink,
)

SCOPE = "fencelock"
PORT = 6379  # where a URL names none


def hook(
    spans: bool,  # noqa: FBT001 - as the option
    meter_provider: Any,
    tracer_provider: Any,
    templates_max: int,
) -> MetricsHook | SpanHook:
    """Return the hook that keeps metrics, and with ``spans`` makes spans."""
    metrics: Any = import_module("opentelemetry.metrics")
    meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
    made = {measure: _instrument(meter, measure) for measure in MEASURES}

    def adder(measure: Measure, labels: tuple[str, ...]) -> Add:
        names = ("fencelock.template", "fencelock.object", f"fencelock.{measure.extra}")
        attributes = dict(zip(names, labels, strict=False))
        return partial(made[measure], attributes=attributes)

    measured = MetricsHook(Sink(adder), templates_max)
    return SpanHook(tracer_provider, measured) if spans else measured


def _instrument(meter: Any, measure: Measure) -> Any:
    about = {"name": measure.name, "unit": measure.unit, "description": measure.text}
    if measure.form == SPAN:
        made = meter.create_histogram(**about, explicit_bucket_boundaries_advisory=BUCKETS)
        return made.record
    if measure.form == GAUGE:
        return meter.create_up_down_counter(**about).add
    return meter.create_counter(**about).add


def server_attributes(server: str) -> dict[str, str | int]:
    """Return what the conventions say of a server: its host and port, or the path of its socket.

    Of several, as of a Cluster's or Sentinels', the first stands for all. What has no address, such
    as a quorum or the embedded server, is named as in errors.
    """
    scheme, found, rest = server.partition("://")
    if not found or " " in scheme:
        return {"server.address": server}
    if scheme == "unix":
        return {"server.address": rest.partition("?")[0]}
    first = rest.partition("/")[0].partition(",")[0]
    host, colon, port = first.rpartition(":")
    if not colon or first.endswith("]"):
        host, port = first, ""
    return {
        "server.address": host.strip("[]"),
        "server.port": int(port) if port.isdecimal() else PORT,
    }


# These end a span; all others are events of one.
_ENDING = frozenset({*events.ENDS, events.RELEASED, events.LOST})


def trace_id() -> str | None:
    """Return the id of the trace that the calling thread or task is in; None outside of one."""
    trace: Any = import_module("opentelemetry.trace")
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


class SpanHook:
    """Makes a span of each request and of each lease, and passes each event on."""

    def __init__(self, provider: Any, measured: MetricsHook) -> None:
        trace: Any = import_module("opentelemetry.trace")
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=provider)
        self._error = trace.StatusCode.ERROR
        self._measured = measured
        self._open: dict[int, Any] = {}  # by acquisition: its request's span, then its lease's

    def __call__(self, event: LockEvent, /) -> None:
        """Begin or end a span."""
        kind, number = event.kind, event.number
        self._measured(event)
        if kind == events.REQUESTED:
            self._open[number] = self._begin("wait", event)
        elif number in self._open and kind in _ENDING:
            self._end(self._open.pop(number), event)
            if kind == events.GRANTED:
                self._open[number] = self._begin("hold", event)
        elif number in self._open:
            self._open[number].add_event(kind, _words(event))

    def _begin(self, doing: str, event: LockEvent) -> Any:
        about = {
            "fencelock.name": event.name,
            "fencelock.template": event.template,
            "fencelock.object": event.object,
            **server_attributes(event.server),
        }
        return self._tracer.start_span(f"{doing} {event.template}", attributes=about)

    def _end(self, span: Any, event: LockEvent) -> None:
        span.set_attribute("fencelock.outcome", event.kind)
        for name, value in _words(event).items():
            span.set_attribute(name, value)
        if event.error is not None:
            span.record_exception(event.error)
        if event.kind in {events.LOST, events.FAILED, events.DEADLOCK}:
            why = event.reason or repr(event.error)
            span.set_status(self._error, f"{why}: {event.detail}" if event.detail else why)
        span.end()


def _words(event: LockEvent) -> dict[str, Any]:
    known = {"fencelock.fence": event.fence, "fencelock.reason": event.reason}
    words = {name: value for name, value in known.items() if value}
    return words if event.ahead is None else {**words, "fencelock.ahead": event.ahead}
