"""What a Prometheus server scrapes: values, units in the names, and bounded labels."""

import importlib
import os
import re
import subprocess
import sys

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


def test_a_second_hook_of_a_registry_goes_on_with_its_metrics(client, registry):
    for _ in range(2):
        set_hooks([prometheus_hook(registry=registry)])
        with client.lock("a", template="order:{id}"):
            pass
    labels = {**LOCK, "outcome": "granted"}
    assert registry.get_sample_value("fencelock_wait_seconds_count", labels) == 2


@pytest.mark.usefixtures("patient")
def test_it_exports_what_metrics_of_the_package_would(client, registry, monkeypatch):
    """They are used where several processes are scraped as one."""
    values, theirs = prometheus.values, prometheus.CollectorRegistry()
    hooks = [prometheus_hook(registry=each) for each in (registry, theirs)]
    hooks[0].hook()
    monkeypatch.setattr(values, "ValueClass", type("InFiles", (values.MutexValue,), {}))
    hooks[1].hook()
    set_hooks(hooks)
    lost = client.lock("b", ttl=0.1, renew=False)
    assert lost.acquire()
    labels, value = {"template": "lock", "object": "lock"}, registry.get_sample_value
    with client.lock("c", ttl=0.3):
        until(lambda: value("fencelock_renewal_seconds_count", labels))
    with client.lock("a"):
        until(lambda: value("fencelock_lost_total", {**labels, "reason": "expired"}))
        assert not client.lock("a", template="order:{id}").acquire(timeout=0.05)
        assert scraped(registry) == scraped(theirs)
    assert scraped(registry) == scraped(theirs)


def scraped(registry):
    """Return what a server reads, without the instants at which metrics were made."""
    text = prometheus.generate_latest(registry).decode()
    return [re.sub(r"(_created{.*}) .*", r"\1", line) for line in text.splitlines()]


def test_several_processes_are_scraped_as_one(server, registry, tmp_path):
    program = """
import sys, fencelock
from fencelock.instrumentation import prometheus_hook, set_hooks
set_hooks([prometheus_hook()])
with fencelock.Client(sys.argv[1]) as client, client.lock("a", template="order:{id}"):
    pass
"""
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program, server.url], env=env, check=True)
    importlib.import_module("prometheus_client.multiprocess").MultiProcessCollector(
        registry, tmp_path
    )
    released = {**LOCK, "outcome": "released"}
    assert registry.get_sample_value("fencelock_hold_seconds_count", released) == 2


def test_it_is_among_the_ready_hooks():
    set_hooks(None)
    assert [type(each).__name__ for each in get_hooks()][-1] == "MetricsHook"
