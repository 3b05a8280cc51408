"""What a Prometheus server scrapes: values, units in the names, and bounded labels."""

import pytest

from fencelock.instrumentation import get_hooks, prometheus_hook, set_hooks
from tests.waiting import until

prometheus = pytest.importorskip("prometheus_client")

LOCK = {"template": "order:{id}", "object": "lock"}


@pytest.fixture
def registry():
    return prometheus.CollectorRegistry()


@pytest.mark.usefixtures("patient")
def test_waits_holds_and_timeouts(client, registry):
    set_hooks([prometheus_hook(registry=registry)])
    lock = client.lock("order:1", template="order:{id}")
    with lock:
        assert registry.get_sample_value("fencelock_holds", LOCK) == 1
        assert not lock.acquire(timeout=0.05)
    value = registry.get_sample_value
    assert value("fencelock_holds", LOCK) == 0
    assert value("fencelock_waiters", LOCK) == 0
    assert value("fencelock_timeouts_total", LOCK) == 1
    assert value("fencelock_wait_seconds_count", {**LOCK, "outcome": "granted"}) == 1
    assert value("fencelock_wait_seconds_sum", {**LOCK, "outcome": "timed_out"}) >= 0.05
    assert value("fencelock_hold_seconds_sum", {**LOCK, "outcome": "released"}) >= 0.05
    assert b"order:1" not in prometheus.generate_latest(registry)


def test_losses_and_renewals(client, registry):
    set_hooks([prometheus_hook(registry=registry)])
    lost = client.lock("a", ttl=0.1, renew=False)
    assert lost.acquire()
    kept = client.lock("b", ttl=3)
    assert kept.acquire()
    value, labels = registry.get_sample_value, {"template": "lock", "object": "lock"}
    until(lambda: value("fencelock_lost_total", {**labels, "reason": "expired"}) == 1)
    until(lambda: value("fencelock_renewal_seconds_count", labels))
    kept.release()


def test_more_templates_than_are_kept_apart(client, registry):
    set_hooks([prometheus_hook(registry=registry, templates_max=2)])
    for number in range(5):
        with client.lock("a", template=f"t{number}"):
            pass
    count = "fencelock_wait_seconds_count"
    found = {
        sample.labels["template"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == count
    }
    assert found == {"t0": 1, "t1": 1, "(other)": 3}


def test_a_second_hook_of_a_registry_goes_on_with_its_metrics(client, registry):
    for _ in range(2):
        set_hooks([prometheus_hook(registry=registry)])
        with client.lock("a", template="order:{id}"):
            pass
    labels = {**LOCK, "outcome": "granted"}
    assert registry.get_sample_value("fencelock_wait_seconds_count", labels) == 2


def test_it_is_among_the_ready_hooks():
    set_hooks(None)
    assert [type(each).__name__ for each in get_hooks()][-1] == "MetricsHook"
