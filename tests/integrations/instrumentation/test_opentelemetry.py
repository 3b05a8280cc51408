"""Metrics and spans as OpenTelemetry's SDK keeps them in memory."""

import json
import threading

import pytest

from fencelock.instrumentation import opentelemetry_hook, set_hooks
from fencelock.instrumentation.opentelemetry import server_attributes
from tests.waiting import until

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def tracers(spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider


def metrics(reader):
    """Return the metrics by name."""
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "fencelock"
    return {metric.name: metric for metric in scope.metrics}


def test_names_units_and_attributes(client, reader):
    set_hooks([opentelemetry_hook(meter_provider=MeterProvider([reader]))])
    with client.lock("order:1", template="order:{id}"):
        pass
    found = metrics(reader)
    wait = found["fencelock.wait.duration"]
    assert (wait.unit, wait.data.data_points[0].count) == ("s", 1)
    assert dict(wait.data.data_points[0].attributes) == {
        "fencelock.template": "order:{id}",
        "fencelock.object": "lock",
        "fencelock.outcome": "granted",
    }
    assert found["fencelock.hold.duration"].unit == "s"
    assert [point.value for point in found["fencelock.holds"].data.data_points] == [0]


def test_spans_and_the_trace_that_operators_see(client, spans, tracers):
    provider = MeterProvider([])
    set_hooks([opentelemetry_hook(spans=True, meter_provider=provider, tracer_provider=tracers)])
    with tracers.get_tracer("a test").start_as_current_span("a request") as request:
        trace = f"{request.get_span_context().trace_id:032x}"
        with client.lock("a", label="me"):
            who = client.status("a").holder
            assert (who.trace, who.label) == (trace, "me")
            assert trace in who.called
    names = [each.name for each in spans.get_finished_spans()]
    assert names == ["wait lock", "hold lock", "a request"]
    assert {each.context.trace_id for each in spans.get_finished_spans()} == {int(trace, 16)}
    told = json.loads(spans.get_finished_spans()[1].to_json())["attributes"]
    assert told["fencelock.fence"] > 0
    assert told["server.address"] not in {"", None}


@pytest.mark.parametrize(
    ("server", "address", "port"),
    [
        ("redis://db.example:6380/0", "db.example", 6380),
        ("redis://db.example", "db.example", 6379),
        ("rediss://[::1]:7000/1", "::1", 7000),
        ("redis://[::1]", "::1", 6379),
        ("redis+cluster://a:7001,b:7002", "a", 7001),
        ("redis+sentinel://s1:26379,s2:26379/orders/0", "s1", 26379),
        ("unix:///run/redis.sock?db=1", "/run/redis.sock", None),
        ("the embedded server", "the embedded server", None),
        ("a quorum of redis://a:1, redis://b:2", "a quorum of redis://a:1, redis://b:2", None),
    ],
)
def test_the_server_is_named_by_the_conventions(server, address, port):
    named = {"server.address": address} | ({"server.port": port} if port else {})
    assert server_attributes(server) == named


def test_a_loss_is_an_error_of_its_span(client, spans, tracers):
    provider = MeterProvider([])
    set_hooks([opentelemetry_hook(spans=True, meter_provider=provider, tracer_provider=tracers)])
    lock = client.lock("a", ttl=0.05, renew=False)
    assert lock.acquire()
    until(lambda: len(spans.get_finished_spans()) == 2)
    held = spans.get_finished_spans()[1]
    assert not held.status.is_ok
    assert held.status.description == "expired: it was not renewed, as requested"


def test_a_suspected_deadlock_ends_no_span(client, spans, tracers):
    """The request goes on: its span ends with it, and that of its lease begins.

    It looks twice before its time is up: at first its client may not hear probes.
    """
    provider = MeterProvider([])
    set_hooks([opentelemetry_hook(spans=True, meter_provider=provider, tracer_provider=tracers)])
    both = threading.Barrier(2)

    def hold_and_ask(held, asked, seconds):
        held, asked = (client.lock(name, deadlock_after=0.05) for name in (held, asked))
        assert held.acquire()
        both.wait(10)
        if asked.acquire(timeout=seconds):
            asked.release()
        held.release()

    threads = [
        threading.Thread(target=hold_and_ask, args=args) for args in (("a", "b", 3), ("b", "a", 10))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    ended = spans.get_finished_spans()
    assert sorted(each.attributes["fencelock.outcome"] for each in ended) == [
        *["granted"] * 3,
        *["released"] * 3,
        "timed_out",
    ]
    told = {event.name for each in ended for event in each.events}
    assert "suspected_deadlock" in told
