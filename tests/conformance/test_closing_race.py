"""A request that is under way while its client is closed: its caller gets an error, no key stays.

The servers stand still until the test lets them go on, so it is certain which comes first.
"""

import contextlib

import pytest

from fencelock import ClientClosed, Poll
from tests.conformance.leftovers import leftovers
from tests.conformance.test_kept import port_of
from tests.kinds import MADE

HANDLES = MADE | {"try": MADE["lock"]}
KINDS = [
    "lock",
    pytest.param("try", marks=pytest.mark.nightly),
    pytest.param("semaphore", marks=[pytest.mark.nightly, pytest.mark.no_quorum]),
    pytest.param("multi", marks=[pytest.mark.nightly, pytest.mark.no_quorum]),
]
# A node of a quorum is not given up before the test goes on.
PATIENT = {"node_timeout": 5.0}


def servers(world):
    """Return the servers that grant locks."""
    server = world.server
    if hasattr(server, "master"):
        return [server.master]
    return getattr(server, "masters", None) or getattr(server, "nodes", [server])


def resume(world):
    for server in servers(world):
        server.resume()


@contextlib.contextmanager
def standing_still(world):
    for server in servers(world):
        server.pause()
    try:
        yield
    finally:
        resume(world)


def is_quorum(world):
    return hasattr(world.server, "nodes") and not hasattr(world.server, "masters")


def asks(client):
    """Return True if a request of a client waits for its answer."""
    port = port_of(client)
    return any(getattr(each, "pool", each).asking for each in (port, *port.nodes))


def refuses(client):
    """Return True if a grant that comes now is given back; of a quorum, by its first node."""
    port = port_of(client)
    return any(each.lines.closed for each in port.nodes or (port,))


def has_idle_connection(client):
    """Return True if a request can go out at once, none being used in the background."""
    pool = getattr(port_of(client), "pool", None)  # asyncio has one connection for all
    pools = [pool, *getattr(pool, "at", {}).values()]  # one for each node of a Cluster
    return pool is None or any(getattr(each, "free", ()) for each in pools)


async def connected(world, kind):
    """Return a client with a connection, a lock of it, and the same lock of another client."""
    client = world.client(**(PATIENT if is_quorum(world) else {}))
    async with HANDLES[kind](client):
        pass
    return client, HANDLES[kind](client), HANDLES[kind](world.client())


async def free_at_once(world, lock):
    """Wait until no server has the lock's key, and take it."""
    each = world.server.nodes if is_quorum(world) else [world.server]
    key = world.key("a")
    await world.until(lambda: not any(one.command("EXISTS", key) for one in each), "given back")
    assert await lock.acquire(blocking=False)
    await lock.release()


@pytest.mark.parametrize("release", [False, True], ids=["close", "release"])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_comes_while_the_client_is_closed(world, kind, release):
    """It is waited for, and what it granted is given back before the connections are gone."""
    client, lock, again = await connected(world, kind)
    with standing_still(world):
        job = world.start(lock.acquire(blocking=kind != "try"))
        await world.until(lambda: asks(client), "the request is under way")
        closing = world.start(client.aclose(release=release))
        await world.until(lambda: refuses(client), "the client is being closed")
        if release:  # which waits for longer than any test machine stalls
            for _ in range(10):
                await world.tick()
            assert not closing.done
        resume(world)
        with pytest.raises(ClientClosed, match="closed"):
            await job.result()
        await closing.result()
    await free_at_once(world, again)


@pytest.mark.parametrize("kind", [KINDS[0], *KINDS[2:]])
async def test_a_place_in_line_that_comes_while_the_client_is_closed(world, kind):
    """Its waiter was not there yet when the others in line had to leave."""
    client, lock, holding = await connected(world, kind)
    async with holding:
        with standing_still(world):
            job = world.start(lock.acquire())
            await world.until(lambda: asks(client), "the request is under way")
            closing = world.start(client.aclose())
            await world.until(lambda: refuses(client), "the client is being closed")
            resume(world)
            with pytest.raises(ClientClosed, match="closed"):
                await job.result()
            await closing.result()
    await free_at_once(world, holding)


@pytest.mark.no_quorum
@pytest.mark.parametrize("release", [False, True], ids=["close", "release"])
async def test_a_hand_over_to_nobody_while_the_client_is_closed(world, release):
    """Its error is that of all calls then: this candidate does not stay the leader."""
    client, other = world.client(), world.client()
    ann = client.election("a", candidate="ann")
    assert await ann.campaign()
    await world.until(lambda: has_idle_connection(client), "what it announces was sent")
    with standing_still(world):
        job = world.start(ann.hand_over("bob"))
        await world.until(lambda: asks(client), "the request is under way")
        closing = world.start(client.aclose(release=release))
        await world.until(lambda: refuses(client), "the client is being closed")
        resume(world)
        with pytest.raises(ClientClosed, match=r"'a'.*closed"):
            await job.result()
        await closing.result()
    assert not ann.is_leader
    bob = other.election("a", candidate="bob")
    assert await bob.campaign(timeout=5)  # the leadership was given back
    await bob.resign()


# Not a semaphore: its undo is longer than what a server reads at once, and a server that finds the
# connection closed when it answers the first request reads no further.
@pytest.mark.nightly
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[3]])
async def test_an_answer_that_comes_after_the_client_was_closed(world, kind):
    """What it grants is given back all the same."""
    client, lock, again = await connected(world, kind)
    with standing_still(world):
        job = world.start(lock.acquire(blocking=kind != "try"))
        await world.until(lambda: asks(client), "the request is under way")
        await client.aclose(release=True, timeout=0.1)
        resume(world)
        with pytest.raises(ClientClosed, match="closed"):
            await job.result()
    await free_at_once(world, again)


async def in_line(world, client, other):
    assert await other.lock("a").acquire()
    return client.lock("a").acquire()


async def in_its_cohort(world, client, other):
    assert await client.lock("a").acquire()
    return client.lock("a").acquire()


async def polls(world, client, other):
    assert await other.lock("a").acquire()
    return client.lock("a", wait=Poll()).acquire()


async def for_a_permit(world, client, other):
    assert await other.semaphore("a", 1).acquire()
    return client.semaphore("a", 1).acquire()


async def to_write(world, client, other):
    assert await other.rwlock("a").read.acquire()
    return client.rwlock("a").write.acquire()


async def for_several(world, client, other):
    assert await other.lock("b").acquire()
    return client.multi(["a", "b"]).acquire()


async def for_an_event(world, client, other):
    return client.event("a").wait()


async def for_a_latch(world, client, other):
    return client.latch("a", 1).wait()


async def at_a_barrier(world, client, other):
    return client.barrier("a", 2).wait()


async def to_be_elected(world, client, other):
    assert await other.election("a", candidate="bob").campaign()
    return client.election("a", candidate="ann").campaign()


WAITS = (in_line, in_its_cohort, polls, for_a_permit, to_write, for_several)
WAITS += (for_an_event, for_a_latch, at_a_barrier, to_be_elected)


@pytest.mark.filterwarnings("ignore:a handle of .* was dropped:ResourceWarning")
@pytest.mark.parametrize(
    "wait",
    [
        pytest.param(each, id=each.__name__, marks=() if each is in_line else pytest.mark.no_quorum)
        for each in WAITS
    ],
)
@pytest.mark.refcounts
async def test_a_client_that_is_closed_during_a_wait_keeps_nothing(world, wait):
    """I9, I10: no socket, thread, task, timer or table, whatever was waited for."""
    client, other = world.client(), world.client()
    job = world.start(await wait(world, client, other))
    port = port_of(client)
    lines = [each.lines for each in (port, *port.nodes)]
    await world.until(lambda: job.done or any(map(len, lines)) or wait is polls, "it waits")
    await world.tick()
    await client.aclose()
    with pytest.raises(ClientClosed):
        await job.result()
    await world.until(lambda: not leftovers(client, resources=True), "nothing is left")
