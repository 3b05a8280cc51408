"""What ``close(release=True)`` gives back, in which order, and what its holders learn."""

import time

import pytest

import fencelock
from fencelock import ClientClosed, LeaseLost, NotHeld
from tests.conformance.test_kept import port_of
from tests.kinds import RIVALS
from tests.waiting import stalls

HELD = RIVALS | {"fixed": lambda client: client.lock("a", renew=False)}
NOT_ON_QUORUM = [
    pytest.param(each, marks=pytest.mark.no_quorum)
    for each in ("owner", "semaphore", "write", "multi", "poll")
]


async def is_free(client, name):
    """See that a lock can be had at once; a waiter that gave up may have its last word first."""
    lock = client.lock(name)
    assert await lock.acquire(blocking=False)
    await lock.release()


@pytest.mark.parametrize("kind", ["lock", "rlock", "fixed", *NOT_ON_QUORUM])
async def test_what_is_held_is_given_back(world, kind):
    """The next client has it at once, and the holder knows that it lost it."""
    client, other = world.client(), world.client()
    handle = HELD[kind](client)
    assert await handle.acquire()
    lease = handle.lease

    await client.aclose(release=True)

    assert lease.lost
    with pytest.raises(LeaseLost, match="closed"):
        lease.check()
    again = HELD[kind](other)
    assert await again.acquire(blocking=False)
    await again.release()
    with pytest.raises((LeaseLost, NotHeld)):
        await handle.release()


async def test_without_release_it_stays_until_its_end(world):
    client, other = world.client(), world.client()
    lock = client.lock("a", ttl=30)
    assert await lock.acquire()
    await client.aclose()
    assert not await other.lock("a").acquire(blocking=False)
    with pytest.raises(LeaseLost, match="closed"):
        await lock.release()


async def test_the_next_in_line_is_granted(world):
    """While it waits: it is handed over."""
    client, other = world.client(), world.client()
    lock, theirs = client.lock("a"), other.lock("a")
    assert await lock.acquire()
    waiter = world.start(theirs.acquire())
    await world.in_line("a", 1)

    await client.aclose(release=True)

    assert await waiter.result()
    assert lock.lease.lost
    await theirs.release()


@pytest.mark.one_server  # the nodes of a Cluster have their parts at the same time
async def test_the_latest_acquired_is_given_back_first(world):
    """Of locks taken one inside the other, the inner one."""
    client, other = world.client(), world.client()
    names = ["x", "m", "a", "z"]
    locks = [client.lock(name) for name in names]
    for lock in locks:
        assert await lock.acquire()
    fences, waiters = {}, []

    async def takes(name):
        lock = other.lock(name)
        await lock.acquire()
        fences[name] = lock.lease.fence
        await lock.release()

    for name in names:
        waiters.append(world.start(takes(name)))
        await world.in_line(name, 1)
    await client.aclose(release=True)
    for each in waiters:
        await each.result()

    # A fence is the server's time at the grant.
    assert sorted(fences, key=fences.get) == names[::-1]
    assert all(lock.lease.lost for lock in locks)


async def test_the_waiters_of_the_client_end_with_an_error(world):
    """Those in line at the server, and those that wait for their cohort; none is granted."""
    client, other = world.client(), world.client()
    mine, theirs = client.lock("a"), other.lock("b")
    assert await mine.acquire()
    assert await theirs.acquire()
    waiters = [world.start(client.lock(name).acquire()) for name in ("a", "a", "b")]
    await world.in_line("a", 2)
    await world.in_line("b", 1)

    await client.aclose(release=True)

    for each in waiters:
        with pytest.raises(ClientClosed, match="closed"):
            await each.result()
    await is_free(other, "a")
    await theirs.release()
    await is_free(other, "b")


@pytest.mark.no_quorum
async def test_an_election_is_handed_over(world):
    """To the next candidate; those that watch learn of it."""
    client, other = world.client(), world.client()
    leads = client.election("chief", candidate="first")
    assert await leads.campaign()
    next_one = other.election("chief", candidate="second")
    waiter = world.start(next_one.campaign())
    await world.in_line("chief", 1)

    await client.aclose(release=True)

    assert await waiter.result()
    assert not leads.is_leader
    assert (await next_one.leader()).candidate == "second"
    await next_one.resign()


async def test_holders_are_told_before_another_is_granted(world):
    """Once, by ``on_lost``; and a body ends with the loss."""
    client, other = world.client(), world.client()
    told = []
    lock = client.lock("a", on_lost=lambda lease: told.append((lease.name, lease.lost)))

    began = []

    async def body():
        async with lock as lease:
            began.append(lease)
            await world.until(lambda: told)

    running = world.start(body())
    await world.until(lambda: began)
    await client.aclose(release=True)
    with pytest.raises(LeaseLost, match="closed"):
        await running.result()
    assert told == [("a", True)]
    await is_free(other, "a")


async def test_others_of_the_process_keep_what_they_hold(world):
    client, other = world.client(), world.client()
    mine, theirs = client.lock("a"), other.lock("b")
    assert await mine.acquire()
    assert await theirs.acquire()
    await client.aclose(release=True)
    theirs.lease.check()
    await theirs.release()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frozen", "dead"])
@pytest.mark.prompt
async def test_it_ends_in_time_whatever_the_server_does(world, kind, caplog):
    """I13; what was not given back is named."""
    server = world.alone()
    client = world.client()
    locks = [client.lock(f"{number}", ttl=60) for number in range(3)]
    for lock in locks:
        assert await lock.acquire()
    if kind == "frozen":
        server.pause()
    else:
        server.kill()

    began = time.monotonic()
    await client.aclose(release=True, timeout=0.5)
    took = time.monotonic() - began - stalls().seconds
    assert took < 0.5 + 4  # less than the 5 s that it has by default

    assert all(lock.lease.lost for lock in locks)
    assert "3 lease(s) were not confirmed to be given back in time" in caplog.text
    if kind == "frozen":
        server.resume()


async def test_a_bad_timeout_is_refused_before_anything_is_done(world):
    client = world.client()
    lock = client.lock("a")
    assert await lock.acquire()
    with pytest.raises(ValueError, match="timeout"):
        await client.aclose(release=True, timeout=0)
    lock.lease.check()
    await lock.release()


async def test_nothing_is_tried_again_afterwards(world, caplog):
    """The body's release sends nothing; a second close does nothing."""
    client = world.client()
    lock = client.lock("a")
    assert await lock.acquire()
    await client.aclose(release=True)
    with pytest.raises(LeaseLost):
        await lock.release()
    await client.aclose(release=True)
    assert "clean-up" not in caplog.text
    assert port_of(client).closing


async def test_a_grant_that_comes_while_the_client_is_closed_is_given_back(world, monkeypatch):
    """Its caller gets the error of a closed client, and not a lease that is lost already."""
    client = world.client()
    lock = client.lock("a")
    async with lock:
        pass
    port = port_of(client)
    attend = port.attend

    def closes(hold, when):
        attend(hold, when)
        port.lines.closed = port.closing = True

    monkeypatch.setattr(port, "attend", closes)
    with pytest.raises(ClientClosed, match="closed"):
        await lock.acquire()
    await world.until(lambda: world.holder("a") is None, "it is given back")


@pytest.mark.one_server
@pytest.mark.one_play  # it closes all clients of this process
@pytest.mark.one_face
@pytest.mark.parametrize("frozen", [0, 1], ids=["the first", "the last"])
async def test_a_shutdown_is_only_as_good_as_that_of_its_worst_client(world, frozen):
    if not world.blocking:
        pytest.skip("a loop ends its own clients")
    servers = [world.alone(), world.alone()]
    locks = [world.client(each.tcp_url).lock("a", ttl=60) for each in servers]
    for lock in locks:
        assert await lock.acquire()
    servers[frozen].pause()
    try:
        assert fencelock.shutdown(timeout=0.5) is False
    finally:
        servers[frozen].resume()
    assert servers[1 - frozen].command("EXISTS", world.key("a")) == 0
