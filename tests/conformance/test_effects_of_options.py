"""An option is tested where it acts: for each object that takes it, and each way to pass it."""

from __future__ import annotations

import contextlib

import pytest

from fencelock import LeaseLost, Poll
from fencelock._runtime.clock import now
from tests.waiting import machine_seconds


def lock(client, **options):
    return client.lock("a", **options)


def rlock(client, **options):
    return client.rlock("a", **options)


def polled(client, **options):
    return client.lock("a", wait=Poll(), **options)


def semaphore(client, **options):
    return client.semaphore("a", 2, **options)


def bounded_semaphore(client, **options):
    return client.bounded_semaphore("a", 2, **options)


def reads(client, ttl=None, **options):
    return client.rwlock("a", **options, **({} if ttl is None else {"read_ttl": ttl})).read


def writes(client, ttl=None, **options):
    return client.rwlock("a", **options, **({} if ttl is None else {"write_ttl": ttl})).write


def multi(client, **options):
    return client.multi(["a"], **options)


def election(client, **options):
    return client.election("a", candidate="ann", **options)


LOCKS = (lock, rlock)
SHARES = (semaphore, bounded_semaphore, reads, writes)
# What a quorum has of these.
EVERYWHERE = (lock, multi)


def of(*kinds):
    """Enumerate kinds of objects."""
    marked = [
        pytest.param(each, id=each.__name__, marks=() if each is lock else pytest.mark.no_quorum)
        for each in kinds
    ]
    return pytest.mark.parametrize("kind", marked)


ALL = of(*LOCKS, *SHARES, multi, election)
FROM = pytest.mark.parametrize("of_client", [False, True], ids=["handle", "client"])


@FROM
@ALL
async def test_the_ttl_is_how_long_the_server_keeps_it(world, kind, of_client):
    given = {"ttl": 7.0}
    client = world.client(**(given if of_client else {}))
    async with kind(client, **({} if of_client else given)) as lease:
        assert 5 < lease.remaining() < 7
        (holder,) = (await client.status("a")).holders
        assert 5 < holder.remaining <= 7


@FROM
@ALL
async def test_the_label_is_shown(world, kind, of_client):
    given = {"label": "ann's"}
    client = world.client(**(given if of_client else {}))
    async with kind(client, **({} if of_client else given)):
        (holder,) = (await client.status("a")).holders
        assert holder.label == "ann's"


@ALL
async def test_on_lost_is_called(world, kind):
    """Once, with the lease, and for the reason that its LeaseLost has."""
    told = []
    client = world.client()
    with contextlib.suppress(LeaseLost):
        async with kind(client, on_lost=told.append) as lease:
            await world.client().revoke("a", reason="why not")
            await world.until(lambda: told, "on_lost")
            with pytest.raises(LeaseLost) as lost:
                lease.check()
            assert (lost.value.reason, lost.value.detail) == ("revoked", "why not")
    assert len(told) == 1
    assert told[0].lost


@of(*LOCKS, *SHARES, multi)
async def test_max_hold_limits_the_first_lease(world, kind):
    async with kind(world.client(), ttl=20, max_hold=4.0) as lease:
        assert 2 < lease.remaining() < 4


@of(*LOCKS, polled, *SHARES, multi)
async def test_without_renewal_it_ends_by_itself(world, kind):
    """The lease ends at the deadline that it gave, and its holder is notified in time."""
    told = []
    with pytest.raises(LeaseLost) as lost:  # noqa: PT012 - the end of the block raises
        async with kind(world.client(), ttl=0.4, renew=False, on_lost=told.append) as lease:
            end = lease.deadline
            await world.until(lambda: told, "on_lost")
            assert lease.deadline == end
    assert (lost.value.reason, lost.value.since) == ("expired", end)


@of(*LOCKS, *SHARES, multi)
async def test_the_handle_s_timeout_bounds_a_with(world, kind):
    """The errors are tested elsewhere: here, when they come."""
    other = world.client().rwlock("a").write if kind in {reads, writes} else None
    other = other or kind(world.client())
    if kind in {semaphore, bounded_semaphore}:
        await other.acquire(permits=2)
    else:
        await other.acquire()
    began = now()
    with pytest.raises(TimeoutError):
        async with kind(world.client(), timeout=0.2):
            raise AssertionError("it was entered")
    assert 0.19 <= now() - began < 0.3 + machine_seconds()
    assert world.waiting("a") == 0
    await (other.release(2) if kind in {semaphore, bounded_semaphore} else other.release())


@of(*LOCKS, *SHARES)
async def test_server_timeout_acts_in_each_call(world, kind):
    """I13: a client that says how long a silent server is asked, waits no longer."""
    server = world.alone()
    client = world.client(server_timeout=0.3)
    handle = kind(client)
    async with handle:
        pass
    server.pause()
    began = now()
    with pytest.raises(ConnectionError):
        await handle.acquire()
    assert 0.2 < now() - began < 3 + machine_seconds()
    server.resume()
