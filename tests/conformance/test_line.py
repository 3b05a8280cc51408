"""Waiting in line (I5 to I7, I9)."""

import pytest

from fencelock import LeaseLost
from tests.conformance.world import SOON

pytestmark = pytest.mark.strict  # for waiters of one client: test_cohort.py

# Another process that waits in line; it says so, and tells when it was granted.
WAITER = """
import sys, threading, fencelock
client = fencelock.Client(sys.argv[1], key_prefix=sys.argv[2])
lock = client.lock("a")
print("asks", flush=True)
lock.acquire()
print("granted", flush=True)
sys.stdin.read()
"""


async def queue_up(world, clients, number):
    """Line up waiters that come one after the other; return their jobs and the order of grants."""
    order = []

    async def wait(place: int) -> None:
        async with clients[place % len(clients)].lock("a"):
            order.append(place)

    jobs = []
    for place in range(number):
        jobs.append(world.start(wait(place)))
        await world.in_line("a", place + 1)
    return jobs, order


async def test_first_come_first_served(world):
    """I5: ten waiters of two clients get the lock in the order in which they came."""
    clients = [world.client(), world.client()]
    holder = clients[0].lock("a")
    await holder.acquire()
    jobs, order = await queue_up(world, clients, 10)
    await holder.release()
    for job in jobs:
        await job.result()
    assert order == list(range(10))
    assert world.waiting("a") == 0
    assert world.holder("a") is None


@pytest.mark.no_quorum  # it asks five servers
async def test_a_turn_costs_two_commands(world):
    """I5: nobody polls; to stand in line and to hand over, however many wait."""
    clients = [world.client(), world.client()]
    holder = clients[0].lock("a")
    await holder.acquire()
    with world.commands() as sent:
        jobs, order = await queue_up(world, clients, 10)
        await holder.release()
        for job in jobs:
            await job.result()
    assert len(order) == 10
    # 10 to stand in line, 11 releases; rarely a proof of life, where the machine is slow.
    assert sent.scripts <= 21 + 4, sent.counts


@pytest.mark.no_quorum  # a release hands over on one node, then the others are asked
async def test_a_release_names_the_next_holder(world):
    """The lock passes over in the release itself; nobody can come between."""
    client, waiter = world.client(), world.client().lock("a")
    holder = client.lock("a")
    await holder.acquire()
    job = world.start(waiter.acquire())
    await world.in_line("a", 1)
    entry = in_order(world)[0]
    await holder.release()
    assert world.holder("a") == entry.split()[1]
    assert world.waiting("a") == 0
    assert await client.lock("a").acquire(blocking=False) is False
    assert await job.result() is True
    assert waiter.lease.holder == entry.split()[1]
    await waiter.release()


@pytest.mark.slow  # what ends while others line up must outlast a stall
async def test_one_that_tries_once_does_not_jump_the_line(world):
    """While others are in line, a free instant is theirs."""
    client = world.client()
    holder = client.lock("a", ttl=5, renew=False)
    await holder.acquire()
    jobs, order = await queue_up(world, [client, world.client()], 2)
    prober = client.lock("a")
    got = []

    async def probe():
        while len(order) < 2:
            if await prober.acquire(blocking=False):
                got.append(len(order))
                await prober.release()
            await world.tick()

    probing = world.start(probe())
    for job in jobs:
        await job.result(5 + SOON)
    await probing.result()
    assert order == [0, 1]
    assert 0 not in got, "it was granted before those in line"
    with pytest.raises(LeaseLost):
        await holder.release()


@pytest.mark.no_quorum  # a release hands over on one node, then the others are asked
async def test_a_waiter_whose_process_died_is_skipped(world):
    """I7: the release itself goes past the dead, to the next who lives."""
    holder, following = world.client().lock("a"), world.client().lock("a")
    await holder.acquire()
    with world.process(WAITER) as process:
        assert process.stdout.readline() == b"asks\n"
        await world.in_line("a", 1)
        process.kill()
    job = world.start(following.acquire())
    await world.in_line("a", 2)
    dead, living = (entry.split() for entry in in_order(world))
    await world.until(lambda: world.server.command("PUBSUB", "NUMSUB", dead[2])[1] == 0)
    await holder.release()
    assert world.holder("a") == living[1]
    assert await job.result() is True
    await following.release()
    assert world.waiting("a") == 0


def in_order(world) -> list[str]:
    """Return the entries of those in line, first come first."""
    return world.server.command("ZRANGE", world.keys("a").grant[2], 0, -1)


@pytest.mark.one_server
async def test_a_waiter_outlives_its_connection(world):
    """I6, I7: it comes back to its place; those behind it stay behind it."""
    server = world.alone()
    clients = [world.client(), world.client(), world.client()]
    holder = clients[0].lock("a")
    await holder.acquire()
    jobs, order = await queue_up(world, clients[1:], 3)
    for kind in ("normal", "pubsub"):
        server.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    channels = {entry.split()[2] for entry in in_order(world)}
    await world.until(
        lambda: server.command("PUBSUB", "NUMSUB", *channels)[1::2] == [1] * len(channels)
    )
    assert world.waiting("a") == 3
    await holder.release()
    for job in jobs:
        await job.result()
    assert order == [0, 1, 2]


async def test_a_handed_over_lease_grows_to_its_ttl(world):
    """I7: it may start short, so that a frozen waiter cannot stop the line; then it is renewed."""
    holder, waiter = world.client().lock("a", ttl=30), world.client().lock("a", ttl=30)
    await holder.acquire()
    job = world.start(waiter.acquire())
    await world.in_line("a", 1)
    await holder.release()
    assert await job.result() is True
    assert waiter.lease.remaining() > 0
    await world.until(lambda: world.pttl("a") > 20_000, "a full lease")
    await world.until(lambda: waiter.lease.remaining() > 20)
    await waiter.release()


@pytest.mark.no_quorum  # each node logs for itself
async def test_a_wait_that_lasts_is_one_line_of_the_log(world, caplog):
    caplog.set_level("INFO", "fencelock")
    holder, client = world.client(label="holder"), world.client(log_waits_after=0.1)

    async def wait():
        async with client.lock("a"):
            pass

    def lines():
        return [each for each in caplog.messages if " wait for 'a', the first for " in each]

    async with holder.lock("a"):
        waiting = [world.start(wait()) for _ in range(3)]
        await world.until(lambda: len(lines()) == 2)
    for each in waiting:
        await each.result()
    assert lines()[-1].startswith("3 wait for 'a'")
    assert "holder) for at least " in lines()[-1]
