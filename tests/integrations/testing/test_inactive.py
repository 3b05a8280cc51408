"""``inactive()``: no server is needed, and threads and tasks exclude each other all the same."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time

import pytest

import fencelock
from fencelock.testing import inactive
from tests.threads.state import ended, thread
from tests.waiting import until

NOWHERE = "redis://127.0.0.1:1/0"  # nothing listens there
SOURCES = {
    "url": NOWHERE,
    "cluster": "redis+cluster://127.0.0.1:1",
    "sentinel": "redis+sentinel://127.0.0.1:1/service/0",
}


@pytest.fixture
def active():
    with inactive():
        yield


@pytest.mark.parametrize("kind", SOURCES)
def test_threads_exclude_each_other(active, kind):
    source = SOURCES[kind]
    with fencelock.Client(source) as client, fencelock.Client(source) as other:
        fences, inside, most = [], [], []

        def works(lock):
            for _ in range(5):
                with lock as lease:
                    inside.append(1)
                    most.append(len(inside))
                    fences.append(lease.fence)
                    inside.pop()

        threads = [thread(works, each.lock("a")) for each in (client, client, other)]
        for each in threads:
            ended(each)
    assert max(most) == 1
    assert len(fences) == 15
    assert fences == sorted(set(fences))


def test_tasks_exclude_each_other(active):
    async def main():
        async with fencelock.AsyncClient(NOWHERE) as client:
            lock, inside = client.lock("a"), []

            async def works():
                async with lock:
                    inside.append(1)
                    await asyncio.sleep(0)
                    assert inside == [1]
                    inside.pop()

            await asyncio.gather(*[works() for _ in range(5)])

    asyncio.run(main())


def test_all_objects(active):
    with fencelock.Client(NOWHERE) as client:
        with client.rlock("r"), client.semaphore("s", 2), client.multi(["x", "y"]):
            assert client.lock("x").locked()
        with client.rwlock("w").read, fencelock.Client(NOWHERE) as other:
            assert not other.rwlock("w").write.acquire(blocking=False)
        assert client.once("job", within=60).run(lambda: 1).ran
        assert not client.once("job", within=60).run(lambda: 1).ran
        event = client.event("e")
        event.set()
        assert event.wait(timeout=1)
        with client.election("chief", candidate="me") as lease:
            assert lease.fence


def test_a_quorum_is_one(active):
    urls = [f"redis://127.0.0.1:{port}/0" for port in (1, 2, 3)]
    with fencelock.Client(urls) as client, client.lock("a") as lease:
        lease.check()
        assert not client.lock("a").acquire(blocking=False)


def test_replicas_are_not_asked(active):
    with fencelock.Client(NOWHERE, replicas=2) as client, client.lock("a"):
        pass


def test_a_client_that_was_made_before():
    """As a program makes it at import; afterwards it leads to its server again."""
    client = fencelock.Client(NOWHERE, server_timeout=0.2)
    with inactive(), client.lock("a"):
        pass
    with pytest.raises(fencelock.ServerUnreachable):
        client.lock("a").acquire()
    client.close()


def test_each_time_all_is_free():
    with inactive():
        left = fencelock.Client(NOWHERE)
        lock = left.lock("a", renew=False)
        lock.acquire()
    with inactive(), fencelock.Client(NOWHERE) as client, client.lock("a", timeout=1):
        pass
    left.close()


def test_it_decorates_a_test():
    @inactive()
    def test():
        with fencelock.Client(NOWHERE) as client, client.lock("a"):
            return True

    assert test()


def test_twice_is_refused(active):
    with pytest.raises(RuntimeError, match="active already"), inactive():
        pass
    with fencelock.Client(NOWHERE) as client, client.lock("a"):
        pass


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fakeredis", None)
    with pytest.raises(ImportError, match=r"fencelock\[testing\]"), inactive():
        pass
    with pytest.raises(fencelock.ServerUnreachable):
        fencelock.Client(NOWHERE, server_timeout=0.2).lock("a").acquire()


def test_no_thread_is_left():
    with inactive(), fencelock.Client(NOWHERE) as client, client.lock("a"):
        pass
    until(lambda: "fencelock-bridge" not in {each.name for each in threading.enumerate()})


def test_it_decorates_functions_and_coroutine_functions():
    @inactive()
    def blocking(name):
        with fencelock.Client(NOWHERE) as client, client.lock(name) as lease:
            return lease.fence

    @inactive()
    async def in_loop(name):
        async with fencelock.AsyncClient(NOWHERE) as client, client.lock(name) as lease:
            return lease.fence

    assert blocking("a") > 0
    assert inspect.iscoroutinefunction(in_loop)
    assert asyncio.run(in_loop("a")) > 0
    assert asyncio.run(in_loop("a")) > 0


def test_it_refuses_to_decorate_what_runs_after_its_call():
    def fixture():
        yield

    async def fixture_in_loop():
        yield

    for each in (fixture, fixture_in_loop):
        with pytest.raises(TypeError, match="with inactive"):
            inactive()(each)


def test_a_faked_clock_changes_no_lease_and_no_timeout(server, monkeypatch):
    """As freezegun does it, which the testing page speaks of."""
    with fencelock.Client(server.url) as client, client.lock("a", ttl=600) as lease:
        for name in ("time", "monotonic", "perf_counter"):
            monkeypatch.setattr(time, name, lambda: 1e10)
        assert 500 < lease.remaining() <= 600
        assert not client.lock("a").acquire(timeout=0.01)
        lease.check()
        monkeypatch.undo()


def test_a_faked_clock_is_that_of_the_server_inside_the_process(monkeypatch):
    """So the page says."""
    with inactive(), fencelock.Client(NOWHERE) as client:
        held = client.lock("a", ttl=600)
        assert held.acquire()
        monkeypatch.setattr(time, "time", lambda: 1e10)
        assert client.status("a").holder is None
        monkeypatch.undo()
        with pytest.raises(fencelock.LeaseLost, match="expired"):
            held.release()
