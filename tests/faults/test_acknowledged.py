"""Grants that a replica must acknowledge, on real servers: it is frozen, and comes back."""

import asyncio
import contextlib

import pytest

import fencelock
from fencelock._runtime.clock import now
from tests.faults.conftest import load
from tests.faults.proxy import Proxy
from tests.faults.world import FACES, View, held, outcome, spawn, wait_until
from tests.replication import follow, replicated
from tests.waiting import machine_seconds

pytestmark = pytest.mark.one_face

NAME = "lock"
WAIT_SECONDS = 0.3


@pytest.fixture(scope="module")
def pair():
    with replicated() as (master, replica):
        load(master)
        yield master, replica


@pytest.fixture
def master(pair):
    pair[0].flushall()
    return pair[0]


@pytest.fixture
def replica(pair):
    """The replica; whatever a test did to it is over."""
    yield pair[1]
    pair[1].resume()


@pytest.fixture
def view(master):
    return View(master, NAME)


def asked(**options):
    return {"replicas": 1, "replicas_timeout": WAIT_SECONDS, **options}


def acquired(lock):
    """Acquire; a replica on a busy machine may take longer than it is given."""
    wait_until(lambda: outcome(lock.acquire)[0] is True, what="it is acknowledged")


def test_a_frozen_replica_is_an_error_in_time_and_nothing_stays(connect, master, replica, view):
    lock = connect(master.url, **asked()).lock(NAME)
    acquired(lock)
    lock.release()
    replica.pause()
    error, took = outcome(lock.acquire)
    assert isinstance(error, fencelock.NotAcknowledged)
    assert not isinstance(error, fencelock.NotAcquired)
    assert (error.name, error.acknowledged, error.wanted) == (NAME, 0, 1)
    assert took < WAIT_SECONDS + 0.1 + machine_seconds()
    view.until_free()
    replica.resume()
    acquired(lock)
    lock.release()
    view.until_free()


def test_the_callers_timeout_ends_the_count(connect, master, replica, view):
    lock = connect(master.url, **asked(replicas_timeout=30)).lock(NAME)
    replica.pause()
    error, took = outcome(lock.acquire, timeout=0.4)
    assert isinstance(error, fencelock.NotAcknowledged)
    assert took < 0.4 + 0.1 + machine_seconds()
    view.until_free()


@pytest.mark.usefixtures("patient")
def test_contention_stays_contention(connect, master, view):
    lock = connect(master.url, **asked()).lock(NAME)
    with held(view):
        assert lock.acquire(timeout=0.2) is False
        assert lock.acquire(blocking=False) is False


def test_a_handed_over_grant_is_acknowledged_before_it_is_reported(connect, master, replica, view):
    """Another client wrote it; the next in line gets what was given back."""
    plain, counting = connect(master.url, cohort=None), connect(master.url, **asked())
    holder, waiter, last = plain.lock(NAME), counting.lock(NAME), plain.lock(NAME)
    assert holder.acquire()
    waits = spawn(outcome, waiter.acquire)
    view.until_waiting(1)
    behind = spawn(last.acquire)
    view.until_waiting(2)
    replica.pause()
    holder.release()
    error, _ = waits.result(20)
    assert isinstance(error, fencelock.NotAcknowledged)
    assert behind.result(20)
    last.release()
    view.until_free()


def test_a_master_that_became_a_replica_grants_nothing(connect):
    with replicated(2) as (master, other, _):
        lock = connect(master.url, server_timeout=1, **asked()).lock(NAME)
        acquired(lock)
        lock.release()
        other.command("REPLICAOF", "NO", "ONE")
        follow(master, other.port)
        assert isinstance(outcome(lock.acquire)[0], fencelock.ServerReadOnly)


def test_replicas_of_another_master_do_not_vouch(master):
    """The address leads to another master by the time that replicas are asked."""

    async def moved(other):
        with Proxy(master) as proxy:
            async with fencelock.AsyncClient(proxy.url, replicas=1) as client:
                lock = client.lock(NAME)
                assert not await lock.locked()  # connected
                proxy.server = other
                assert await lock.acquire()
                assert View(other, NAME).holder() == lock.lease.holder
                await lock.release()

    with replicated() as (other, _):
        asyncio.run(moved(other))


def test_a_hundred_tasks_share_their_waits(master):
    """One WAIT is under way at a time, and ordinary commands never stall behind it."""

    async def all_at_once():
        async with fencelock.AsyncClient(master.url, replicas=1) as client:
            locks = [client.lock(f"lock {number}") for number in range(100)]
            async with client.lock("first"):
                pass
            before = master.commandstats()["wait"]
            assert all(await asyncio.gather(*[lock.acquire() for lock in locks]))
            asked = master.commandstats()["wait"] - before
            await asyncio.gather(*[lock.release() for lock in locks])
            return asked

    assert asyncio.run(all_at_once()) <= 10


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
def test_tasks_cancelled_while_replicas_acknowledge_leave_nothing(master, replica, turns):
    """After so many turns of the loop; the connections are good for the next."""

    async def cancelled():
        async with fencelock.AsyncClient(master.url, **asked(replicas_timeout=5)) as client:
            async with client.lock("first"):
                pass
            replica.pause()
            tasks = [asyncio.create_task(client.lock(f"n{at}").acquire()) for at in range(30)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended)
            replica.resume()
            async with client.lock("n0", timeout=10):
                pass

    asyncio.run(cancelled())
    for at in range(30):
        View(master, f"n{at}").until_free()


def test_other_tasks_go_on_while_a_wait_lasts(master, replica):
    async def beside():
        async with fencelock.AsyncClient(master.url, replicas=1, replicas_timeout=30) as client:
            lock, other = client.lock("a"), client.lock("b")
            assert await lock.acquire()
            replica.pause()
            waits = asyncio.create_task(other.acquire())
            began = now()
            for _ in range(20):
                assert await lock.locked()
            took = now() - began
            assert not waits.done()
            await lock.release()
            waits.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waits
            return took

    assert asyncio.run(beside()) < 10
    View(master, "b").until_free()


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"replicas": -1}, ValueError, "replicas must be at least 0"),
        ({"replicas": 1.5}, TypeError, "replicas must be an int"),
        ({"replicas": True}, TypeError, "replicas must be an int"),
        ({"replicas": "2"}, TypeError, "replicas must be an int"),
        ({"replicas": 1, "replicas_timeout": 0}, ValueError, "replicas_timeout must be above 0"),
        ({"replicas": 1, "replicas_timeout": None}, TypeError, "replicas_timeout must be seconds"),
    ],
)
def test_bad_options_are_refused(face, options, error, said):
    client = fencelock.Client if face.name == "threads" else fencelock.AsyncClient
    with pytest.raises(error, match=said):
        client("redis://127.0.0.1:1", **options)


@pytest.mark.parametrize("nobody", [None, 0])
def test_nobody_must_acknowledge(nobody):
    with fencelock.Client("redis://127.0.0.1:1", replicas=nobody) as client:
        assert client._port.replicas is None
