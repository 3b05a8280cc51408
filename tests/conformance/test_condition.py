"""Conditions: what they promise, through both faces and on every kind of server."""

import pytest

from fencelock import LeaseLost, NotHeld, OutcomeUnknown, Poll, ServerError
from fencelock._core.keys import ConditionKeys
from tests.conformance.world import needs_no_server

pytestmark = pytest.mark.no_quorum  # a quorum has none: see quorum_limits.py

WAITER = """
import sys, fencelock
url, prefix = sys.argv[1:]
condition = fencelock.Client(url, key_prefix=prefix).condition("a")
with condition:
    print("waits", flush=True)
    print(condition.wait(), flush=True)
"""


def condition_waiters(world, name="a"):
    """How many wait to be notified."""
    return world.server.command("ZCARD", ConditionKeys(world.keys(name)).condition)


async def wait_once(condition, log=None, number=0, **options):
    async with condition:
        notified = await condition.wait(**options)
        if log is not None:
            log.append(number)
        return notified


async def come(world, client, number, log=None, **options):
    """Let so many wait, one after the other."""
    jobs = []
    for count in range(number):
        condition = client.condition("a")
        jobs.append(world.start(wait_once(condition, log, count, **options)))
        await world.until(
            lambda count=count: condition_waiters(world) == count + 1, "one more waits"
        )
    return jobs


async def test_a_wait_gives_the_lock_back_and_has_it_again(world):
    client = world.client()
    condition = client.condition("a")
    async with condition as lease:
        first = lease.fence
    (job,) = await come(world, client, 1)
    assert world.holder("a") is None
    async with condition:
        await condition.notify()
        assert not job.done
        assert condition_waiters(world) == 0
        assert world.waiting("a") == 1
    assert await job.result() is True
    async with condition as lease:
        assert lease.fence > first
    assert world.holder("a") is None


async def test_notify_wakes_the_first_ones_in_order(world):
    client, log = world.client(), []
    jobs = await come(world, client, 4, log)
    condition = world.client().condition("a")
    async with condition:
        await condition.notify(2)
    for job in jobs[:2]:
        assert await job.result() is True
    assert log == [0, 1]
    assert condition_waiters(world) == 2
    async with condition:
        await condition.notify_all()
    for job in jobs[2:]:
        assert await job.result() is True
    assert log == [0, 1, 2, 3]


@pytest.mark.one_server  # in a Cluster it costs more, see docs/how-to/use-a-cluster.md
async def test_what_a_wait_costs(world):
    """One command to wait, one to notify; who is notified sends nothing for the lock."""
    client, other = world.client(), world.client().condition("a")
    (warm,) = await come(world, client, 1)
    async with other:
        await other.notify()
    await warm.result()
    with world.commands() as sent:
        (job,) = await come(world, client, 1)
    assert sent.scripts == 2, sent.counts  # acquire, wait
    with world.commands() as sent:
        async with other:
            await other.notify()
        await job.result()
    assert sent.scripts == 4, sent.counts  # acquire, notify, release, and the waiter's release


async def test_a_timeout_has_the_lock_again(world):
    condition = world.client().condition("a")
    async with condition:
        assert await condition.wait(0.05) is False
        assert await condition.lock.owned()
        assert await condition.wait(0) is False
        assert condition.lock.lease.remaining() > 0
    assert condition_waiters(world) == 0
    assert world.holder("a") is None


@pytest.mark.slow  # the wait must outlast a stall before the lock is taken
async def test_a_timed_out_wait_stands_in_line_for_the_lock(world):
    client = world.client()
    (job,) = await come(world, client, 1, timeout=4)
    async with client.lock("a"):
        await world.in_line("a", 1)
        assert not job.done
    assert await job.result() is False


async def test_all_entries_of_a_reentrant_lock_are_given_back_and_restored(world):
    client = world.client()
    lock = client.rlock("a")
    condition = client.condition(lock)

    async def nested():
        async with lock, lock, condition:
            assert await condition.wait() is True
            assert await lock.owned()
        return await lock.owned()

    job = world.start(nested())
    await world.until(lambda: condition_waiters(world) == 1)
    assert world.holder("a") is None
    other = world.client().condition("a")
    async with other:
        await other.notify()
    assert await job.result() is False
    assert world.holder("a") is None


async def test_wait_for(world):
    client, state = world.client(), []

    async def waits():
        condition = client.condition("a")
        async with condition:
            return await condition.wait_for(lambda: len(state) == 3 and "three")

    job = world.start(waits())
    condition = world.client().condition("a")
    for number in range(3):
        await world.until(lambda: condition_waiters(world) == 1)
        async with condition:
            state.append(number)
            await condition.notify()
    assert await job.result() == "three"
    async with condition:
        assert await condition.wait_for(lambda: state) == [0, 1, 2]
        assert await condition.wait_for(list, timeout=0.03) == []
    assert await condition.wait_for(lambda: 5) == 5  # nothing to wait for


async def test_several_conditions_of_one_lock(world):
    client = world.client()
    lock = client.lock("a")
    full, empty = client.condition(lock, name="full"), client.condition(lock, name="empty")
    jobs = []
    for condition in (full, empty):
        jobs.append(world.start(wait_once(condition)))
        await world.until(lambda: condition_waiters(world) == len(jobs))
    async with lock:
        await empty.notify_all()
    assert await jobs[1].result() is True
    assert condition_waiters(world) == 1
    async with lock:
        await full.notify()
    assert await jobs[0].result() is True


async def test_notify_with_nobody_waiting(world):
    condition = world.client().condition("a")
    async with condition:
        assert await condition.notify() is None
        assert await condition.notify_all() is None
        assert await condition.wait(0.02) is False


async def test_a_lock_that_is_not_held(world):
    condition = world.client().condition("a")
    for use in (condition.wait, condition.notify, condition.notify_all, condition.release):
        with pytest.raises(RuntimeError) as raised:
            await use()
        assert isinstance(raised.value, NotHeld)


async def test_a_lease_that_was_lost(world):
    client = world.client()
    condition = client.condition(client.lock("a", ttl=60))
    for use in (condition.notify, condition.wait):
        await condition.acquire()
        world.server.command("SET", world.key("a"), "another", "PX", 50)
        with pytest.raises(LeaseLost):
            await use()
        assert condition_waiters(world) == 0
        await world.until(lambda: world.holder("a") is None)
    with pytest.raises(LeaseLost):
        await condition.release()


async def test_a_dead_waiter_is_passed_over(world):
    client = world.client()
    with world.process(WAITER) as process:
        assert process.stdout.readline() == b"waits\n"
        await world.until(lambda: condition_waiters(world) == 1)
        entry = world.server.command("ZRANGE", ConditionKeys(world.keys("a")).condition, 0, 0)[0]
        process.kill()
    channel = entry.split()[3]
    await world.until(lambda: world.server.command("PUBSUB", "NUMSUB", channel)[1] == 0)
    job = world.start(wait_once(client.condition("a")))
    await world.until(lambda: condition_waiters(world) == 2)
    condition = client.condition("a")
    async with condition:
        await condition.notify()
    assert await job.result() is True


@pytest.mark.slow
async def test_a_waiter_that_dies_after_its_notification_passes_it_on(world):
    client = world.client()
    condition = client.condition("a")
    with world.process(WAITER) as process:
        assert process.stdout.readline() == b"waits\n"
        await world.until(lambda: condition_waiters(world) == 1)
        job = world.start(wait_once(client.condition("a")))
        await world.until(lambda: condition_waiters(world) == 2)
        async with condition:
            await condition.notify()
            channel = world.server.command("ZRANGE", world.keys("a").grant[2], 0, 0)[0].split()[2]
            process.kill()
            await world.until(lambda: world.server.command("PUBSUB", "NUMSUB", channel)[1] == 0)
    assert await job.result() is True


async def test_a_waiter_in_another_process(world):
    with world.process(WAITER) as process:
        assert process.stdout.readline() == b"waits\n"
        await world.until(lambda: condition_waiters(world) == 1)
        condition = world.client().condition("a")
        async with condition:
            await condition.notify()
        assert process.stdout.readline() == b"True\n"


@pytest.mark.one_server
async def test_a_lost_message_costs_a_look(world):
    server = world.alone()
    (job,) = await come(world, world.client(), 1)
    for kind in ("normal", "pubsub"):
        server.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    condition = world.client().condition("a")
    await world.until(lambda: condition_waiters(world) == 1)
    async with condition:
        await condition.notify()
    assert await job.result() is True


@pytest.mark.one_server
@pytest.mark.slow
async def test_a_restart_that_forgets_wakes_who_waits(world):
    """A notification may have been lost: better one too many."""
    server = world.alone()
    (job,) = await come(world, world.client(), 1)
    server.restart()
    assert await job.result() is True


@pytest.mark.one_server
async def test_a_server_that_is_gone(world):
    """I12: the wait ends with an error, and holds nothing."""
    server = world.alone()
    condition = world.client(server_timeout=0.3).condition("a")
    await condition.acquire()
    server.kill()
    with pytest.raises((ServerError, OutcomeUnknown)):
        await condition.wait()
    with pytest.raises(NotHeld):
        await condition.release()


@needs_no_server
async def test_mistakes_are_told_before_anything_is_sent(world):
    client = world.client("redis://127.0.0.1:1/0")
    with pytest.raises(TypeError, match="lock"):
        client.condition(5)
    with pytest.raises(ValueError, match="name"):
        client.condition("")
    with pytest.raises(TypeError, match="name"):
        client.condition("a", name=5)
    with pytest.raises(ValueError, match="Queue"):
        client.condition(client.lock("a", wait=Poll()))
    with pytest.raises(ValueError, match="owner"):
        client.condition(client.rlock("a", owner="me"))
    condition = client.condition("a")
    with pytest.raises(TypeError, match="timeout"):
        await condition.wait("1")
    for n, error in ((0, ValueError), (True, TypeError), (1.0, TypeError)):
        with pytest.raises(error, match="n must"):
            await condition.notify(n)


@pytest.mark.slow
async def test_many_wait_on_two_conditions_of_one_lock(world):
    """More than a script reads at a time: all of one are woken, and none of the other."""
    client = world.client()
    lock = client.lock("a")
    names = ["left", "right"] * 75
    jobs = [world.start(wait_once(client.condition(lock, name=name))) for name in names]
    await world.until(lambda: condition_waiters(world) == 150)
    async with lock:
        await client.condition(lock, name="right").notify_all()
    for job in jobs[1::2]:
        assert await job.result() is True
    assert condition_waiters(world) == 75
    async with lock:
        await client.condition(lock, name="left").notify(75)
    for job in jobs[::2]:
        assert await job.result() is True
