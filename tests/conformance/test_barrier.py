"""Barriers: what they promise, through both faces and on every kind of server."""

import asyncio
import contextlib
import threading

import pytest

from fencelock import BarrierBroken, ServerUnsuitable
from fencelock._core.keys import SignalKeys
from fencelock._runtime.clock import now
from tests.conformance.world import needs_no_server, straight
from tests.waiting import machine_seconds

pytestmark = pytest.mark.no_quorum  # a quorum has none: see options.py

PARTY = """
import sys, fencelock
url, prefix = sys.argv[1:]
barrier = fencelock.Client(url, key_prefix=prefix).barrier("a", 2)
print("waits", flush=True)
try:
    print(barrier.wait(), flush=True)
except fencelock.BarrierBroken as broken:
    print(broken.reason, flush=True)
"""


async def come(world, barrier, number, **options):
    """Start parties one after the other; return their jobs."""
    jobs = []
    for count in range(1, number + 1):
        jobs.append(world.start(barrier.wait(**options)))
        await waiting(world, count)
    return jobs


async def waiting(world, number, name="a"):
    def waits():
        return int(world.server.command("HGET", world.key(name), "count") or 0) == number

    await world.until(waits, f"{number} wait")


def left(world, name="a"):
    """How many are told of the end of this generation."""
    return world.server.command("ZCARD", SignalKeys(world.prefix, name).watch[1])


async def test_all_go_on_when_the_last_one_comes(world):
    barrier, last = world.client().barrier("a", 3), world.client().barrier("a", 3)
    jobs = await come(world, barrier, 2)
    assert await barrier.n_waiting == 2
    assert await last.wait() == 2
    assert [await job.result() for job in jobs] == [0, 1]
    assert await barrier.n_waiting == 0
    assert await barrier.broken is False
    assert barrier.parties == 3
    assert left(world) == 0


async def test_it_is_ready_for_the_next_time(world):
    client, indices = world.client(), []

    async def turns():
        barrier = client.barrier("a", 3)
        for _ in range(5):
            index = await barrier.wait()
            indices.append(index)

    jobs = [world.start(turns()) for _ in range(3)]
    for job in jobs:
        await job.result()
    for start in range(0, 15, 3):
        assert sorted(indices[start : start + 3]) == [0, 1, 2]


async def test_a_party_costs_one_command(world):
    barrier = world.client().barrier("a", 3)
    jobs = await come(world, barrier, 2)
    with world.commands() as sent:
        await barrier.wait()
        for job in jobs:
            await job.result()
    assert sent.scripts == 1


@pytest.mark.one_server  # counts commands: in a Cluster who waited long asks again
async def test_parties_that_come_at_once_cost_one_command_each(world):
    client = world.client()
    assert await client.barrier("b{1}", 1).wait() == 0  # the server has the script from here on
    barrier = client.barrier("a{1}", 10)

    with world.commands() as sent:
        jobs = [world.start(barrier.wait()) for _ in range(10)]
        assert sorted([await job.result() for job in jobs]) == list(range(10))
    assert sent.scripts == 10


async def test_a_barrier_as_a_context(world):
    barrier = world.client().barrier("a", 1)
    async with barrier as index:
        assert index == 0


async def test_a_timeout_breaks_it_for_all(world):
    barrier = world.client().barrier("a", 3)
    (job,) = await come(world, barrier, 1)
    with pytest.raises(BarrierBroken) as raised:
        await barrier.wait(0.05)
    assert raised.value.reason == "timeout"
    with pytest.raises(BarrierBroken, match="timeout of a party ended"):
        await job.result()
    assert await barrier.broken is True
    with pytest.raises(BarrierBroken):
        await world.client().barrier("a", 3).wait()
    assert left(world) == 0


async def test_the_last_to_come_needs_no_time(world):
    barrier = world.client().barrier("a", 2)
    (job,) = await come(world, barrier, 1)
    assert await barrier.wait(0) == 1
    assert await job.result() == 0
    with pytest.raises(BarrierBroken):
        await barrier.wait(0)


async def test_the_errors_are_also_those_of_the_standard_library(world):
    barrier = world.client().barrier("a", 2, timeout=0.01)
    theirs = threading.BrokenBarrierError if world.blocking else asyncio.BrokenBarrierError
    with pytest.raises(theirs) as raised:
        await barrier.wait()
    assert isinstance(raised.value, BarrierBroken)
    assert isinstance(raised.value, RuntimeError)
    assert raised.value.name == "a"


async def test_abort_and_reset(world):
    barrier, other = world.client().barrier("a", 2), world.client().barrier("a", 2)
    (job,) = await come(world, barrier, 1)
    await other.abort()
    with pytest.raises(BarrierBroken, match="aborted"):
        await job.result()
    assert await barrier.broken is True
    await other.reset()
    assert await barrier.broken is False
    (job,) = await come(world, barrier, 1)
    await other.reset()
    with pytest.raises(BarrierBroken, match="reset"):
        await job.result()
    assert await barrier.broken is False
    (job,) = await come(world, barrier, 1)
    assert await other.wait() == 1
    assert await job.result() == 0


def action_of(world, work):
    """Return what does some work as this face calls it."""
    return (lambda: straight(work())) if world.blocking else work


async def test_one_party_runs_the_action_before_all_go_on(world):
    ran = []
    barrier = world.client().barrier("a", 3, lambda: ran.append(len(ran)))
    jobs = await come(world, barrier, 2)
    assert ran == []
    assert await barrier.wait() == 2
    assert ran == [0]
    assert [await job.result() for job in jobs] == [0, 1]
    assert ran == [0]


async def test_an_action_that_raises_breaks_it(world):
    def fails():
        raise ZeroDivisionError

    barrier = world.client().barrier("a", 2, fails)
    (job,) = await come(world, barrier, 1)
    with pytest.raises(ZeroDivisionError):
        await barrier.wait()
    with pytest.raises(BarrierBroken, match="aborted"):
        await job.result()
    assert await barrier.broken is True


async def test_who_comes_while_the_action_runs_is_for_the_next_time(world):
    going, go = [], []
    client = world.client()

    async def holds():
        going.append(True)
        await world.until(lambda: go)

    barrier = client.barrier("a", 2, action_of(world, holds))
    first = await come(world, barrier, 1)
    first.append(world.start(barrier.wait()))
    await world.until(lambda: going, "the action runs")
    early = world.start(world.client().barrier("a", 2).wait())
    await world.until(lambda: left(world) == 2, "the early one waits for the next time")
    go.append(True)
    assert [await job.result() for job in first] == [0, 1]
    await waiting(world, 1)
    assert not early.done
    assert await world.client().barrier("a", 2).wait() == 1
    assert await early.result() == 0


@pytest.mark.parametrize("timeout", [0.1, 0.3])
async def test_a_timeout_bounds_the_whole_wait_at_a_barrier_that_is_full(world, timeout):
    """The wait for the next time to begin counts, and so does the wait within it."""
    go = []

    async def slow():
        await world.until(lambda: go, "the test goes on")

    acting = world.client().barrier("a", 1, action_of(world, slow))
    job = world.start(acting.wait())
    await waiting(world, 1)
    began = now()
    with pytest.raises(BarrierBroken) as raised:
        await world.client().barrier("a", 1).wait(timeout)
    assert timeout <= now() - began < timeout + 0.1 + machine_seconds()
    assert (raised.value.name, raised.value.reason) == ("a", "timeout")
    go.append(True)
    with contextlib.suppress(BarrierBroken):
        await job.result()


@pytest.mark.daily
@pytest.mark.slow  # a second timeout must stand out from a stall
async def test_a_timeout_bounds_both_halves_of_a_wait_together(world):
    """A party that came while the barrier was full waits in the next time for what is left."""
    go = []

    async def slow():
        await world.until(lambda: go, "the test goes on")

    acting = world.client().barrier("a", 2, action_of(world, slow))
    first = [world.start(acting.wait()), world.start(acting.wait())]
    await waiting(world, 2)
    began = now()
    early = world.start(world.client().barrier("a", 2).wait(2.0))
    await world.until(lambda: left(world) == 2, "the early one waits for the next time")
    await world.until(lambda: now() > began + 1.8, "most of its time")
    go.append(True)
    for job in first:
        await job.result()
    with pytest.raises(BarrierBroken) as raised:
        await early.result()
    assert raised.value.reason == "timeout"
    assert 2.0 <= now() - began < 2.1 + machine_seconds()


@pytest.mark.slow
async def test_a_party_that_dies_breaks_it(world):
    barrier = world.client().barrier("a", 3)
    (job,) = await come(world, barrier, 1)
    with world.process(PARTY.replace('("a", 2)', '("a", 3)')) as process:
        assert process.stdout.readline() == b"waits\n"
        await waiting(world, 2)
        process.kill()
    with pytest.raises(BarrierBroken) as raised:
        await job.result()
    assert raised.value.reason == "dead"


async def test_parties_in_two_processes(world):
    with world.process(PARTY) as process:
        assert process.stdout.readline() == b"waits\n"
        await waiting(world, 1)
        assert await world.client().barrier("a", 2).wait() == 1
        assert process.stdout.readline() == b"0\n"


@pytest.mark.one_server
async def test_a_party_outlives_its_connection(world):
    server = world.alone()
    barrier = world.client().barrier("a", 2)
    (job,) = await come(world, barrier, 1)
    for kind in ("normal", "pubsub"):
        server.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    assert await world.client().barrier("a", 2).wait() == 1
    assert await job.result() == 0


@pytest.mark.one_server
async def test_a_restart_that_forgets_breaks_it(world):
    server = world.alone()
    barrier = world.client().barrier("a", 2)
    (job,) = await come(world, barrier, 1)
    server.restart()
    with pytest.raises(BarrierBroken) as raised:
        await job.result()
    assert raised.value.reason == "lost"


async def test_another_number_of_parties_is_an_error_once_some_have_come(world):
    first = world.client().barrier("a", 2)
    job = world.start(first.wait())
    await waiting(world, 1)
    other = world.client().barrier("a", 3)
    for use in (other.wait, other.reset, other.abort):
        with pytest.raises(ServerUnsuitable, match="a barrier of 2 parties, not of 3"):
            await use()
    with pytest.raises(ServerUnsuitable):
        await other.n_waiting
    assert await first.wait() == 1
    assert await job.result() == 0


async def test_an_idle_barrier_takes_another_number_of_parties(world):
    client = world.client()
    before, after = client.barrier("a", 1), client.barrier("a", 2)
    assert await before.wait() == 0
    assert await after.n_waiting == 0
    job = world.start(after.wait())
    await waiting(world, 1)
    assert await after.wait() == 1
    assert await job.result() == 0
    assert await before.wait() == 0


async def test_an_idle_barrier_stays_broken_whatever_its_parties(world):
    client = world.client()
    await client.barrier("a", 2).abort()
    with pytest.raises(BarrierBroken, match="aborted"):
        await client.barrier("a", 3).wait()


async def test_a_deleted_barrier_breaks_for_those_who_wait_and_begins_anew(world):
    client = world.client()
    barrier = client.barrier("a", 2)
    job = world.start(barrier.wait())
    await waiting(world, 1)
    await client.barrier("a", 3).delete()
    with pytest.raises(BarrierBroken, match="deleted"):
        await job.result()
    assert await client.barrier("a", 1).wait() == 0
    await barrier.abort()
    await barrier.delete()
    assert await barrier.broken is False


async def test_what_a_barrier_keeps_does_not_end_while_an_action_runs(world):
    """An action may take long, with nobody there that looks."""
    client, pttls = world.client(), []

    async def reads():
        keys = SignalKeys(world.prefix, "a").all
        pttls.extend(world.server.command("PTTL", key) for key in (keys[0], *keys[2:]))

    assert await client.barrier("a", 1, action_of(world, reads), idle_ttl=60).wait() == 0
    assert min(pttls) > 3_600_000


@needs_no_server
async def test_mistakes_are_told_before_anything_is_sent(world):
    client = world.client("redis://127.0.0.1:1/0")
    for parties, error in ((0, ValueError), (True, TypeError), (2.0, TypeError)):
        with pytest.raises(error, match="parties"):
            client.barrier("a", parties)
    with pytest.raises(TypeError, match="action"):
        client.barrier("a", 2, 5)
    with pytest.raises(TypeError, match="timeout"):
        client.barrier("a", 2, timeout="1")
    with pytest.raises(ValueError, match="idle_ttl"):
        client.barrier("a", 2, idle_ttl=0)
