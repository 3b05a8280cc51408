"""Semaphores: permits are leases, granted first come, first served, never more than the limit."""

import pytest

import fencelock
from fencelock import AcquireTimeout, LeaseLost, NotHeld, OverReleased, ServerUnsuitable
from tests.conformance.world import needs_no_server

pytestmark = pytest.mark.no_quorum  # a quorum has none: see options.py


async def test_no_more_permits_than_the_limit(world):
    """I1: the third of two waits until one came back."""
    client, other = world.client(), world.client()
    first, second, third = (each.semaphore("a", 2) for each in (client, other, other))
    assert await first.acquire()
    assert await second.acquire()
    assert await third.acquire(blocking=False) is False
    assert (await third.locked(), await third.available()) == (True, 0)
    assert "limit=2 held=1" in repr(getattr(first, "inner", first))
    waits = world.start(third.acquire())
    await world.in_line("a", 1)
    await first.release()
    assert await waits.result() is True
    fences = [each.lease.fence for each in (second, third)]
    assert fences == sorted(set(fences))
    await second.release()
    await third.release()
    assert (await first.locked(), await first.available()) == (False, 2)


@pytest.mark.one_server  # in a Cluster who does not listen in the slot yet tries first
async def test_a_turn_costs_two_commands(world):
    """I5: to stand in line and to hand over, however many wait."""
    client = world.client()
    with world.commands() as alone:
        async with client.semaphore("a", 2):
            pass
    assert alone.scripts == 2

    async def turn() -> None:
        async with client.semaphore("a", 2):
            pass

    holder = client.semaphore("a", 2)
    await holder.acquire(permits=2)
    with world.commands() as sent:
        jobs = [world.start(turn()) for _ in range(10)]
        await world.in_line("a", 10)
        await holder.release(2)
        for job in jobs:
            await job.result()
    assert sent.scripts <= 21 + 4, sent.counts


async def test_many_permits_at_once_and_back_in_parts(world):
    """One lease of three permits; each part that comes back is granted at once."""
    client = world.client()
    semaphore, other = client.semaphore("a", 4), world.client().semaphore("a", 4)
    assert await semaphore.acquire(permits=3)
    assert await other.acquire(permits=2, timeout=0) is False
    waits = world.start(other.acquire(permits=2))
    await world.in_line("a", 1)
    await semaphore.release()
    assert await waits.result() is True
    assert await semaphore.available() == 0
    await semaphore.release(2)
    assert await semaphore.available() == 2
    assert await semaphore.owned() is False
    assert await other.owned() is True
    await other.release(2)


async def test_a_large_request_is_not_overtaken(world):
    """No small one slips past it, neither a newcomer in line nor one that tries once."""
    client, other = world.client(), world.client()
    holder = client.semaphore("a", 3)
    await holder.acquire()
    large, small = other.semaphore("a", 3), other.semaphore("a", 3)
    first = world.start(large.acquire(permits=3))
    await world.in_line("a", 1)
    second = world.start(small.acquire())
    await world.in_line("a", 2)
    assert await client.semaphore("a", 3).acquire(blocking=False) is False
    assert await client.semaphore("a", 3).locked() is True
    await holder.release()
    assert await first.result() is True
    assert world.waiting("a") == 1
    await large.release(3)
    assert await second.result() is True
    await small.release()


async def test_a_release_grants_to_all_who_fit(world):
    """One script lets in as many as there are permits, in the order in which they came."""
    client, order = world.client(), []

    async def enter(place: int) -> None:
        semaphore = client.semaphore("a", 3)
        await semaphore.acquire()
        order.append(place)
        await world.until(lambda: len(order) == 3, "all three at once")
        await semaphore.release()

    holder = client.semaphore("a", 3)
    await holder.acquire(permits=3)
    jobs = []
    for place in range(3):
        jobs.append(world.start(enter(place)))
        await world.in_line("a", place + 1)
    await holder.release(3)
    for job in jobs:
        await job.result()
    assert sorted(order) == [0, 1, 2]


async def test_a_permit_comes_back_when_its_lease_ends(world):
    """Each permit has a lease of its own; a waiter gets it as soon as the first one ends."""
    client, other = world.client(), world.client()
    short, long = client.semaphore("a", 2, ttl=0.3, renew=False), client.semaphore("a", 2)
    assert await short.acquire()
    assert await long.acquire()
    third = other.semaphore("a", 2)
    assert await third.acquire(timeout=3) is True
    with pytest.raises(LeaseLost):
        await short.release()
    assert long.lease.lost is False
    await long.release()
    await third.release()


@pytest.mark.one_server  # counts the commands: who waits for replicas begins later than the others
async def test_permits_are_renewed_together(world):
    """One command for all leases of a client, each by its own holder id."""
    client = world.client()
    semaphores = [client.semaphore("a", 50, ttl=3) for _ in range(20)]
    for each in semaphores:
        assert await each.acquire()
    ends = {each.lease.deadline for each in semaphores}
    with world.commands() as sent:
        await world.until(lambda: not ends & {each.lease.deadline for each in semaphores})
    assert sent.calls["shares_renew"] < 20, "twenty leases were renewed one by one"
    for each in semaphores:
        await each.release()


async def test_a_release_takes_first_what_its_own_thread_or_task_holds(world):
    """Also the older one, with unlike numbers of permits; then what others of the handle hold."""
    semaphore = world.client().semaphore("a", 9)
    await semaphore.acquire(permits=3)
    mine, gate = semaphore.lease.holder, []

    async def hold() -> str:
        await semaphore.acquire(permits=2)
        gate.append(semaphore.lease.holder)
        await world.until(lambda: len(gate) > 1)
        await semaphore.release()

    other = world.start(hold())
    await world.until(lambda: gate, "the other one holds")
    theirs = gate[0]

    def held() -> dict[str, int]:
        flat = world.server.command("HGETALL", world.keys("a").grant[4])
        return {flat[at]: int(flat[at + 1].split()[0]) for at in range(0, len(flat), 2)}

    await semaphore.release()
    assert held() == {mine: 2, theirs: 2}
    gate.append("go on")
    await other.result()
    assert held() == {mine: 2, theirs: 1}
    await semaphore.acquire(permits=4)
    newest = semaphore.lease.holder
    await semaphore.release(5)
    assert held() == {mine: 1, theirs: 1}
    assert newest not in held()
    await semaphore.release(2)
    assert held() == {}


async def test_release_of_what_is_not_held(world):
    """NotHeld; in the bounded form a ValueError too, as threading has it. Nothing is given back."""
    client = world.client()
    plain, bounded = client.semaphore("a", 2), client.bounded_semaphore("b", 2)
    with pytest.raises(NotHeld) as raised:
        await plain.release()
    assert not isinstance(raised.value, ValueError)
    await plain.acquire()
    await bounded.acquire()
    with pytest.raises(ValueError) as also:
        await bounded.release(2)
    assert isinstance(also.value, OverReleased)
    with pytest.raises(NotHeld):
        await plain.release(2)
    assert await plain.available() == 1
    await plain.release()
    await bounded.release()
    assert await bounded.available() == 2


async def test_another_limit_is_refused_while_it_is_in_use(world):
    """And nothing is changed; once nobody holds or waits, the next use sets it."""
    client = world.client()
    three, five = client.semaphore("a", 3), client.semaphore("a", 5)
    await three.acquire()
    with pytest.raises(ServerUnsuitable, match="limit") as raised:
        await five.acquire()
    assert "3, not 5" in str(raised.value)
    assert await three.available() == 2
    await three.release()
    assert await five.acquire(permits=5)
    await five.release(5)


async def test_a_changed_limit_is_everybodys(world):
    """Raised, it lets waiters in; lowered, it takes nothing away and lets nobody in."""
    client, other = world.client(), world.client()
    one, two = client.semaphore("a", 1), other.semaphore("a", 1)
    await one.acquire()
    waits = world.start(two.acquire())
    await world.in_line("a", 1)
    await one.set_limit(2)
    assert await waits.result() is True
    assert (one.limit, await two.available()) == (2, 0)
    await one.set_limit(1)
    assert await two.available() == 0
    await one.release()
    assert await two.acquire(blocking=False) is False
    await two.release()
    assert await two.acquire(blocking=False) is True
    await two.release()


async def test_whoever_changes_the_limit_may_use_it(world):
    """Also a handle that named another one than those who use it."""
    user, changer = world.client().semaphore("a", 2), world.client().semaphore("a", 9)
    await user.acquire()
    with pytest.raises(ServerUnsuitable, match="2, not 9"):
        await changer.acquire()
    await changer.set_limit(4)
    await changer.acquire(permits=3)
    assert await user.acquire(blocking=False) is False
    await changer.release(3)
    await user.acquire()
    await user.release(2)


async def test_who_can_never_be_granted_is_told(world):
    """A limit that was lowered below what a waiter wants: it does not wait for ever."""
    client = world.client()
    holder, greedy = client.semaphore("a", 2), world.client().semaphore("a", 2)
    await holder.acquire()
    waits = world.start(greedy.acquire(permits=2))
    await world.in_line("a", 1)
    await holder.set_limit(1)
    with pytest.raises(ServerUnsuitable, match="nobody can have 2 permits"):
        await waits.result()
    await holder.release()


@needs_no_server
@pytest.mark.parametrize("limit", [0, -1, 2_000_000_000])
async def test_limits_that_cannot_be(world, limit):
    """Refused before anything is sent."""
    with pytest.raises(ValueError, match="limit"):
        world.client().semaphore("a", limit)


@needs_no_server
async def test_arguments_that_cannot_be(world):
    """Refused before anything is sent; each error says which argument is wrong."""
    nowhere = world.client("redis://127.0.0.1:1/0")
    semaphore = nowhere.semaphore("a", 3)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="permits"):
            await semaphore.acquire(permits=wrong)
    with pytest.raises(TypeError, match="permits"):
        await semaphore.acquire(permits=1.5)
    with pytest.raises(ValueError, match="n must"):
        await semaphore.release(0)
    with pytest.raises(ValueError, match="timeout"):
        await semaphore.acquire(blocking=False, timeout=1)
    with pytest.raises(TypeError, match="limit"):
        nowhere.semaphore("a", True)
    assert issubclass(fencelock.OverReleased, fencelock.NotHeld)


@needs_no_server
async def test_a_negative_timeout_is_a_try_as_in_threading(world):
    semaphore = world.client().semaphore("a", 3)
    assert await semaphore.acquire(timeout=-1) is True
    await semaphore.release()


async def test_more_permits_than_the_limit_are_refused_by_the_server(world):
    """Only the server knows the limit in force: another handle may have raised it."""
    semaphore = world.client().semaphore("a", 3)
    for how in ({}, {"timeout": 1}, {"blocking": False}):
        with pytest.raises(ValueError, match="permits must be at most the limit in force, not 4"):
            await semaphore.acquire(permits=4, **how)
    assert await semaphore.available() == 3


async def test_a_limit_that_is_changed_twice_locks_out_nobody(world):
    """Handles that name the limit in between go on working, in use and idle."""
    client = world.client()
    two, five, ten = (client.semaphore("a", limit) for limit in (2, 5, 10))
    await two.acquire()
    await two.set_limit(5)
    await five.acquire(permits=4)
    await two.set_limit(10)
    for each in (two, five, ten):
        assert await each.acquire(blocking=False) is True
    assert [await each.available() for each in (two, five, ten)] == [2, 2, 2]
    with pytest.raises(ServerUnsuitable, match="10, not 4"):
        await client.semaphore("a", 4).acquire()
    await two.release(2)
    await five.release(5)
    await ten.release()
    async with five:
        assert await ten.available() == 9


async def test_a_raised_limit_is_in_force_for_every_handle(world):
    """Each may take as many permits as there are now, not as many as it names."""
    changer, other = world.client().semaphore("a", 2), world.client().semaphore("a", 2)
    with pytest.raises(ValueError, match="permits"):
        await other.acquire(permits=5)
    await changer.set_limit(10)
    assert await other.acquire(permits=5) is True
    assert await changer.available() == 5
    with pytest.raises(ValueError, match="permits must be at most the limit in force, not 11"):
        await other.acquire(permits=11)
    await other.release(5)


async def test_with_several_permits(world):
    """All or nothing; the end gives back what the body did not."""
    semaphore, other = world.client().semaphore("a", 4), world.client()
    three = semaphore.permits(3)
    async with three as lease:
        lease.check()
        assert (semaphore.lease.fence, await semaphore.available()) == (lease.fence, 1)
        with pytest.raises(AcquireTimeout):
            async with other.semaphore("a", 4, timeout=0.3).permits(2):
                pass
        async with semaphore as inner:
            assert inner.fence > lease.fence
        await semaphore.release()
        assert await semaphore.available() == 2
    assert await semaphore.available() == 4
    async with three, semaphore.permits(1):
        assert await semaphore.available() == 0
    with pytest.raises(KeyError):
        async with three:
            raise KeyError
    assert await semaphore.available() == 4
    with pytest.raises(NotHeld):
        async with three:
            await semaphore.release(3)
    with pytest.raises(ValueError, match="n must"):
        semaphore.permits(0)


async def test_with_several_permits_ends_only_its_own(world):
    """Others of the same handle keep theirs, whatever the body gave back or lost."""
    semaphore = world.client().semaphore("a", 4, ttl=0.3, renew=False)
    kept = world.client().semaphore("a", 4)
    await kept.acquire()

    async def outlast() -> None:
        async with semaphore.permits(2) as lease:
            await world.until(lambda: lease.lost, "its lease ends")
            await kept.acquire()

    with pytest.raises(LeaseLost):
        await outlast()
    await world.until(lambda: world.holders("a") == 2, "what was lost is given back")
    await kept.release(2)


async def test_who_waits_keeps_its_place_when_its_connection_is_cut(world):
    """I5, I6: it comes back to its place, also while others behind it would fit."""
    server = world.alone()
    holder, order = world.client().semaphore("a", 3), []
    await holder.acquire(permits=2)

    async def enter(place: int, permits: int) -> None:
        semaphore = world.client().semaphore("a", 3)
        await semaphore.acquire(permits=permits)
        order.append(place)
        await semaphore.release(permits)

    jobs = []
    for place in range(5):
        jobs.append(world.start(enter(place, 3 if place == 0 else 2)))
        await world.in_line("a", place + 1)
    before = server.command("ZRANGE", world.keys("a").grant[2], 0, -1)
    for kind in ("normal", "pubsub"):
        server.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    channels = {entry.split()[2] for entry in before}
    await world.until(
        lambda: server.command("PUBSUB", "NUMSUB", *channels)[1::2] == [1] * len(channels)
    )
    assert server.command("ZRANGE", world.keys("a").grant[2], 0, -1) == before
    await holder.release(2)
    for job in jobs:
        await job.result()
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.one_server  # each server has its own batches of commands
async def test_a_name_that_became_another_kind_is_no_trouble_for_others(world):
    """Waiters of other locks go on waiting, though all are looked at in one command."""
    client, other = world.client(), world.client()
    before, others = other.lock("a", ttl=60, renew=False), [other.lock(name) for name in "bcde"]
    for holder in (before, *others):
        await holder.acquire()
    locks = [client.lock(name) for name in "bcdea"]
    *waits, refused = (world.start(lock.acquire()) for lock in locks)
    for lock in locks:
        await world.in_line(lock.name, 1)
    world.server.command("DEL", world.key("a"))
    world.server.command("HSET", world.key("a"), "kind", "event")
    world.server.command("PEXPIRE", world.key("a"), 60_000)
    with pytest.raises(ServerUnsuitable):
        await refused.result()
    for holder, wait in zip(others, waits, strict=True):
        await holder.release()
        assert await wait.result() is True
    with pytest.raises(LeaseLost):
        await before.release()


@pytest.mark.one_server
async def test_a_name_that_became_another_kind_ends_no_other_lease(world):
    """Renewed in one command: the one is lost at its renewal, the other one goes on."""
    client = world.client()
    one, other = client.lock("a", ttl=1.5), client.lock("b", ttl=1.5)
    await one.acquire()
    await other.acquire()
    world.server.command("DEL", world.key("a"))
    world.server.command("HSET", world.key("a"), "kind", "event")
    world.server.command("PEXPIRE", world.key("a"), 60_000)
    began = one.lease.deadline
    await world.until(lambda: one.lease.lost, "the loss is noticed")
    assert one.lease.remaining() == 0
    first = other.lease.deadline
    await world.until(lambda: other.lease.deadline > max(first, began) + 1, "it is renewed")
    with pytest.raises(LeaseLost, match="taken"):
        await one.release()
    await other.release()
