"""The reentrant lock."""

import subprocess
import sys

import pytest

from fencelock import LeaseLost, NotHeld

# Another process of the same owner: enters, tells its count, and leaves if told to.
VISITOR = """
import sys, fencelock
url, prefix, owner, leave = sys.argv[1:]
with fencelock.Client(url, key_prefix=prefix) as client:
    lock = client.rlock("a", owner=owner, ttl=20, renew=False)
    assert lock.acquire(blocking=False)
    print(lock.lease.fence, lock.release() if leave else "stays")
    lock = None
"""


def visit(world, owner: str, *, leave: bool) -> tuple[int, str]:
    """Run another process that enters as this owner; return the fence and what release told."""
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", VISITOR]
    where = [world.server.url, world.prefix, owner, "x" if leave else ""]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fence, told = done.stdout.split()
    return int(fence), told


async def test_the_holder_enters_again_and_others_wait(world):
    """As often as it likes; others are refused until it has left as often."""
    lock = world.client().rlock("a")
    for _ in range(3):
        assert await lock.acquire()
    assert await world.start(lock.acquire(blocking=False)).result() is False
    assert [await lock.release(), await lock.release()] == [2, 1]
    assert await world.start(lock.acquire(timeout=0.02)).result() is False
    assert await lock.release() == 0
    assert world.holder("a") is None


async def test_reentry_by_the_holder_sends_nothing(world):
    """A renewed lease needs no command to be entered again, nor to be left but once."""
    lock = world.client().rlock("a")
    async with lock as outer:
        with world.commands() as sent:
            async with lock as inner:
                assert inner.fence == outer.fence
                assert await lock.acquire(blocking=False)
                assert await lock.release() == 2
        assert sent.scripts == 0, sent.counts
        assert await lock.owned()
    assert world.holder("a") is None


async def test_reentry_renews_a_fixed_lease(world):
    """Where nothing else renews, entering again does, and the fence stays."""
    lock = world.client().rlock("a", ttl=20, renew=False)
    async with lock as lease:
        world.server.command("PEXPIRE", world.key("a"), 2_000)
        async with lock as again:
            assert world.pttl("a") > 18_000
            assert again.fence == lease.fence


async def test_release_tells_three_outcomes_apart(world):
    """Not the owner, still held with a count, released."""
    lock = world.client().rlock("a")
    with pytest.raises(NotHeld):
        await lock.release()
    await lock.acquire()
    await lock.acquire()
    with pytest.raises(NotHeld):
        await world.start(lock.release()).result()
    assert await lock.release() == 1
    assert await lock.release() == 0
    with pytest.raises(NotHeld):
        await lock.release()


async def test_a_lost_lease_cannot_be_entered_again(world):
    """I8: entering again without the lock would be worse than an error."""
    lock = world.client().rlock("a", ttl=0.3, renew=False)
    await lock.acquire()
    await world.until(lambda: lock.lease.lost)
    with pytest.raises(LeaseLost):
        await lock.acquire()
    with pytest.raises(LeaseLost):
        await lock.release()
    async with lock:
        pass


async def test_one_handle_serves_many(world):
    """Each thread or task has a hold of its own on one handle, one after the other."""
    lock = world.client().rlock("a")
    inside, fences = [], []

    async def enter(number: int) -> None:
        async with lock as lease, lock:
            assert lock.lease.fence == lease.fence
            inside.append(number)
            await world.tick()
            assert inside.pop() == number
            fences.append(lease.fence)

    jobs = [world.start(enter(number)) for number in range(6)]
    for job in jobs:
        await job.result()
    assert len(fences) == 6
    assert fences == sorted(set(fences))


@pytest.mark.no_quorum  # explicit owners are one server's
async def test_an_owner_id_owns_across_handles(world):
    """With an owner id all its handles own together; the count is on the server."""
    client, away = world.client(), world.client()
    one, two = client.rlock("a", owner="job 7"), client.rlock("a", owner="job 7")
    three, stranger = away.rlock("a", owner="job 7"), away.rlock("a", owner="job 8")
    for lock in (one, two, three):
        assert await lock.acquire(blocking=False)
    assert await world.start(three.acquire(blocking=False)).result()
    assert world.server.command("SCARD", world.keys("a").grant[4]) == 4
    assert await stranger.acquire(blocking=False) is False
    assert len({lock.lease.fence for lock in (one, two, three)}) == 1
    assert await three.release() == 3
    assert await three.release() == 2
    assert await one.release() == 1
    assert await two.owned()
    assert await two.release() == 0
    for lock in (one, two, three, stranger):
        with pytest.raises(NotHeld):
            await lock.release()
    assert await stranger.acquire(blocking=False)
    assert await stranger.release() == 0


@pytest.mark.no_quorum  # explicit owners are one server's
async def test_an_owner_id_travels_between_processes(world):
    """Another process enters, is counted, and can leave for all."""
    lock = world.client().rlock("a", owner="é {x} 1")
    await lock.acquire()
    fence = lock.lease.fence
    assert visit(world, "é {x} 1", leave=True) == (fence, "1")
    assert visit(world, "é {x} 1", leave=False) == (fence, "stays")
    assert await lock.release() == 1
    again = world.client().rlock("a", owner="é {x} 1")
    assert await again.release() == 0  # on behalf of the process that stayed
    assert world.holder("a") is None


@pytest.mark.no_quorum  # explicit owners are one server's
async def test_reentry_of_an_owner_renews(world):
    """Every entry is a full lease."""
    client = world.client()
    one = client.rlock("a", owner="o", ttl=20, renew=False)
    two = client.rlock("a", owner="o", ttl=20, renew=False)
    await one.acquire()
    world.server.command("PEXPIRE", world.key("a"), 2_000)
    world.server.command("PEXPIRE", world.keys("a").grant[4], 2_000)
    await two.acquire()
    assert world.pttl("a") > 18_000
    assert world.server.command("PTTL", world.keys("a").grant[4]) > 18_000
    assert [await two.release(), await one.release()] == [1, 0]


@pytest.mark.no_quorum  # explicit owners are one server's
@pytest.mark.slow
async def test_an_owner_that_waits_gets_in_when_its_own_handle_does(world):
    """An entry that waits in line is not kept out by its own owner."""
    client = world.client()
    stranger = client.lock("a")
    first, second = client.rlock("a", owner="o"), client.rlock("a", owner="o")
    await stranger.acquire()
    jobs = [world.start(first.acquire()), world.start(second.acquire())]
    await world.in_line("a", 2)
    await stranger.release()
    for job in jobs:
        assert await job.result() is True
    assert world.waiting("a") == 0
    assert [await first.release(), await second.release()] == [1, 0]
    assert world.holder("a") is None


@pytest.mark.no_quorum  # explicit owners are one server's
async def test_what_an_expired_owner_left_does_not_count(world):
    """A new tenure begins with a count of one."""
    client = world.client()
    gone = client.rlock("a", owner="gone", ttl=0.3, renew=False)
    await gone.acquire()
    await gone.acquire()
    await world.until(lambda: world.holder("a") is None)
    lock = client.rlock("a", owner="new")
    await lock.acquire()
    assert await lock.release() == 0
    for _ in range(2):
        with pytest.raises(LeaseLost):
            await gone.release()
