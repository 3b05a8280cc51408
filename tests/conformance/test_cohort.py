"""Cohorts: waiters of one client take turns without asking the server."""

import asyncio
import json
import subprocess
import sys

import pytest

from fencelock import ClientClosed, Cohort, LeaseLost
from tests.local_lines import waiting_locally

pytestmark = [
    pytest.mark.no_quorum,  # each fence of a quorum needs a majority first
]

LONG = Cohort(turns=100, seconds=60)


async def waiters(world, lock, number, order, client=""):
    """Start waiters that come one after the other; return their jobs."""
    jobs = []
    before = world.waiting("a")

    async def wait(place):
        async with lock as lease:
            order.append((client, place, lease.fence))

    for place in range(number):
        jobs.append(world.start(wait(place)))
        await world.in_line("a", before + place + 1)
    return jobs


def command(world, *words):
    """Run a command of the shell; return what it prints."""
    where = ["--url", world.server.url, "--prefix", world.prefix]
    ran = [sys.executable, "-m", "fencelock", *words, *where]
    return subprocess.run(ran, check=True, stdout=subprocess.PIPE, text=True).stdout


async def shown_by(world, *words):
    """Return what a command prints that asks the clients of the test: these must go on."""
    if world.blocking:
        return command(world, *words)
    return await asyncio.to_thread(command, world, *words)


def revoke(world, name):
    command(world, "revoke", name, "--yes", "--reason", "a test")


async def all_of(jobs):
    for job in jobs:
        await job.result()


async def test_turns_of_one_client_cost_no_command(world):
    """I5, I3: one acquire and one release for all; each turn has a fence of its own that grows."""
    lock = world.client().lock("a", cohort=LONG)
    await lock.acquire()
    first, order = lock.lease.fence, []
    jobs = await waiters(world, lock, 10, order)
    with world.commands() as sent:
        await lock.release()
        await all_of(jobs)
        await world.until(lambda: world.holder("a") is None)
    assert [place for _, place, _ in order] == list(range(10))
    assert [fence for *_, fence in order] == [first + n + 1 for n in range(10)]
    # By the server each turn would cost two.
    assert sent.scripts < 1 + 5


async def test_the_fence_that_was_used_last_is_written_back(world):
    """I3: the next client's fence is above it, even when the server's clock was set back."""
    lock, order = world.client().lock("a", cohort=LONG), []
    await lock.acquire()
    jobs = await waiters(world, lock, 3, order)
    await lock.release()
    await all_of(jobs)
    await world.until(lambda: world.holder("a") is None)
    record = world.server.command("GET", world.keys("a").grant[1])
    assert int(record.split()[0]) == order[-1][2]


@pytest.mark.parametrize("bound", [Cohort(turns=3, seconds=60), Cohort(turns=100, seconds=1e-6)])
async def test_beyond_the_bound_the_others_come_first(world, bound):
    """I5: the line has its turn, and this client's next waiter is in it by its arrival."""
    ours, theirs = world.client(), world.client(cohort=None)
    lock, order = ours.lock("a", cohort=bound), []
    await lock.acquire()
    jobs = await waiters(world, lock, 2, order, "ours")
    jobs += await waiters(world, theirs.lock("a"), 1, order, "theirs")
    jobs += await waiters(world, lock, 2, order, "ours, later")
    await lock.release()
    await all_of(jobs)
    wanted = ["ours", "ours", "theirs", *["ours, later"] * 2]
    assert [client for client, *_ in order] == wanted, order  # with fences: who was granted when
    fences = [fence for *_, fence in order]
    assert fences == sorted(set(fences))


async def test_a_turn_over_the_bound_costs_two_commands(world):
    """I5: the release takes the next place in line with the same command."""
    ours, theirs = world.client(), world.client(cohort=None)
    lock, other, order = ours.lock("a", cohort=Cohort(turns=1)), theirs.lock("a"), []
    await other.acquire()
    jobs = await waiters(world, lock, 4, order)
    with world.commands() as sent:
        await other.release()
        await all_of(jobs)
        await world.until(lambda: world.holder("a") is None)
    # Alone, the acquires of three that come later would cost three more; listening costs some.
    assert sent.scripts < 1 + 4 + 3


async def test_one_that_gives_up_locally_sends_nothing(world):
    """I9: it has asked nobody for anything."""
    lock = world.client().lock("a")
    async with lock:
        with world.commands() as sent:
            assert not await lock.acquire(timeout=0.05)
        assert sent.scripts == 0
    assert not waiting_locally(world.keys("a").lock)


@pytest.mark.parametrize("options", [{}, {"renew": False}, {"max_hold": 20}])
async def test_a_turn_lasts_as_long_as_its_own_holder_asked_for(world, options):
    """As found: the next turn began with the ten minutes for which the one before was renewed."""
    lock, lengths = world.client().lock("a", ttl=10, cohort=LONG, **options), []

    async def second():
        async with lock as lease:
            lengths.append((lease.remaining(), world.pttl("a") / 1000))

    await lock.acquire()
    job = world.start(second())
    await world.in_line("a", 1)
    await lock.lease.renew(600)
    await lock.release()
    await job.result()
    assert max(max(each) for each in lengths) <= 10


async def test_a_turn_has_the_options_of_its_own_handle(world):
    """A turn that another handle passed on: its own ``on_lost`` is called, and no other."""
    client, lost = world.client(), []
    first, second = (
        client.lock("a", cohort=LONG, on_lost=lambda _, name=name: lost.append(name))
        for name in ("first", "second")
    )
    await first.acquire()
    job = world.start(second.acquire())
    await world.in_line("a", 1)
    await first.release()
    assert await job.result()
    revoke(world, "a")
    await world.until(lambda: lost)
    assert lost == ["second"]
    with pytest.raises(LeaseLost):
        await second.release()


async def test_a_revoked_lease_ends_the_turns_of_all(world):
    """I8: an operator takes the lock from the cohort, and its next waiter asks again."""
    client, order = world.client(), []
    lock = client.lock("a", cohort=LONG)
    await lock.acquire()
    lease = lock.lease
    jobs = await waiters(world, lock, 2, order)
    revoke(world, "a")
    await all_of(jobs)
    assert lease.lost
    with pytest.raises(LeaseLost):
        await lock.release()


async def test_people_see_how_many_take_turns(world):
    """A cohort has one place in the server's line: `show` says for how many it is."""
    order, other = [], world.client(cohort=None).lock("a")
    lock = world.client().lock("a", cohort=Cohort(turns=1))
    await lock.acquire()
    theirs = world.start(other.acquire())
    await world.in_line("a", 1)
    jobs = await waiters(world, lock, 3, order)
    await lock.release()  # theirs now, and the first of ours asked for three
    await theirs.result()
    shown = json.loads(await shown_by(world, "show", "a", "--json"))
    assert shown["waiting"] == 3
    first, *inside = shown["waiters"]
    assert first.get("others", 0) + len(inside) == 2  # listed if their client answered in time
    assert inside or "and 2 more in turns" in await shown_by(world, "show", "a")
    await other.release()
    await all_of(jobs)


async def test_different_terms_are_different_cohorts(world):
    """A lease of another length is another's: each has a place in the server's line."""
    client = world.client()

    async def wait(ttl):
        async with client.lock("a", ttl=ttl):
            pass

    async with client.lock("a"):
        jobs = [world.start(wait(ttl)) for ttl in (10, 20, None)]
        await world.in_line("a", 3)
        assert waiting_locally(world.keys("a").lock) == 1
    await all_of(jobs)


async def test_a_closed_client_has_no_waiters(world):
    """I9: those that wait for others of their client get an error, and leave nothing."""
    client, other = world.client(), world.client()
    async with other.lock("a"):
        jobs = [world.start(client.lock("a").acquire()) for _ in range(3)]
        await world.in_line("a", 3)
        await client.aclose()
        for job in jobs:
            with pytest.raises(ClientClosed):
                await job.result()
        await world.in_line("a", 0)
