"""``multi``: several locks, all or none."""

import asyncio
from types import SimpleNamespace

import pytest

from fencelock import AcquireTimeout, LeaseLost, NotAcquired, NotHeld, ServerUnsuitable
from tests.conformance.world import cluster_node, needs_no_server

pytestmark = [
    pytest.mark.no_quorum,  # a quorum has none: see options.py
]

NAMES = ["b", "a", "c"]


@pytest.mark.one_server  # the names lie in several slots of a Cluster
async def test_all_are_taken_by_one_command_and_given_back_by_one(world):
    client = world.client()
    async with client.lock("warm"):
        pass
    lock = client.multi(NAMES, ttl=20)
    async with lock:  # brings the scripts
        pass
    with world.commands() as sent:
        assert await lock.acquire() is True
    assert sent.scripts == 1
    assert [bool(world.holder(name)) for name in "abc"] == [True] * 3
    assert all(19_000 < world.pttl(name) <= 20_000 for name in "abc")
    with world.commands() as sent:
        await lock.release()
    assert sent.scripts == 1
    assert [world.holder(name) for name in "abc"] == [None] * 3


async def test_the_lease_speaks_of_all_of_them(world):
    lock = world.client().multi(NAMES, ttl=20)
    assert lock.names == ("b", "a", "c")
    assert lock.lease is None
    async with lock as lease:
        assert lease.names == ("b", "a", "c")
        assert list(lease.fences) == ["b", "a", "c"]
        assert all(fence > 0 for fence in lease.fences.values())
        assert 15 < lease.remaining() < 20
        assert lease.ttl == 20
        assert lease.expires_at() > 0
        lease.check()
        await lease.renew(50)
        assert 40 < lease.remaining() < 50
        assert all(world.pttl(name) > 40_000 for name in "abc")
        assert "held" in repr(inner(lease))
        assert await lock.locked()
        assert await lock.owned()
        before = dict(lease.fences)
    assert lease.lost is False
    with pytest.raises(NotHeld):
        lease.check()
    async with lock as lease:
        assert all(lease.fences[name] > fence for name, fence in before.items())
    assert not await lock.locked()
    assert not await lock.owned()


@pytest.mark.one_server  # as above
async def test_a_plain_lock_excludes_and_is_excluded(world):
    client = world.client()
    multi = client.multi(NAMES)
    async with multi:
        pass  # the server has the script from here on
    async with client.lock("c"):
        with world.commands() as sent:
            assert await multi.acquire(blocking=False) is False
        assert sent.scripts == 1
        assert [bool(world.holder(name)) for name in "abc"] == [False, False, True]
    async with multi:
        for name in "abc":
            assert await client.lock(name).acquire(blocking=False) is False


async def test_it_waits_in_line_for_one_after_the_other(world):
    client = world.client()
    first, last = client.lock("a"), client.lock("c")
    await first.acquire()
    await last.acquire()
    multi = world.client().multi(NAMES)
    job = world.start(multi.acquire())
    await world.in_line("a", 1)
    assert world.holder("b") is None
    await first.release()
    await world.in_line("c", 1)
    assert world.holder("a")
    assert world.holder("b")
    await last.release()
    assert await job.result()
    assert await multi.owned()
    await multi.release()


async def test_a_timeout_leaves_nothing(world):
    client = world.client()
    async with client.lock("c"):
        multi = world.client().multi(NAMES, timeout=0.1)
        with pytest.raises(AcquireTimeout, match=r"^'b', 'a', 'c' were not all granted within"):
            await multi.__aenter__()
        assert await multi.acquire(timeout=0.05) is False
        assert [bool(world.holder(name)) for name in "abc"] == [False, False, True]
        assert [world.waiting(name) for name in "abc"] == [0, 0, 0]


async def test_who_waits_is_not_overtaken(world):
    """A lock that is free, but has somebody in line, goes to that one."""
    client = world.client()
    holder, waiter = client.lock("a"), world.client().lock("a")
    await holder.acquire()
    job = world.start(waiter.acquire())
    await world.in_line("a", 1)
    world.server.command("DEL", world.key("a"))
    assert await client.multi(["b", "a"]).acquire(blocking=False) is False
    assert await job.result()
    assert world.holder("b") is None
    await waiter.release()
    with pytest.raises(LeaseLost):
        await holder.release()


async def test_multis_in_any_order_never_wait_for_each_other(world):
    counts = {"runs": 0, "inside": 0}

    async def works(client, names):
        for _ in range(8):
            async with client.multi(names):
                assert counts["inside"] == 0
                counts["inside"] += 1
                await world.tick()
                counts["inside"] -= 1
                counts["runs"] += 1

    orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c"], ["c", "a"]]
    orders = [[*order, "x"] for order in orders]
    jobs = [world.start(works(world.client(), order)) for order in orders]
    for job in jobs:
        await job.result(30)
    assert counts["runs"] == 32


async def test_it_is_lost_when_one_is_and_the_others_are_given_back(world):
    told = []
    multi = world.client().multi(NAMES, ttl=0.6, on_lost=told.append)
    with pytest.raises(LeaseLost) as lost:  # noqa: PT012 - the end of the block raises
        async with multi as lease:
            world.server.command("SET", world.key("b"), "another", "PX", 20_000)
            await world.until(lambda: lease.lost, "the loss")
            with pytest.raises(LeaseLost) as checked:
                lease.check()
            assert checked.value.name == "b"
            assert lease.remaining() == 0
            assert world.holder("a")
            await world.until(lambda: told, "on_lost")
    assert lost.value.name == "b"
    assert [each.names for each in told] == [("b", "a", "c")]
    assert [world.holder(name) for name in "abc"] == [None, "another", None]


async def test_all_are_lost_but_it_is_told_once(world):
    told = []
    multi = world.client().multi(NAMES, ttl=0.3, on_lost=told.append)
    await multi.acquire()
    for name in "abc":
        world.server.command("DEL", world.key(name))
    await world.until(lambda: all(lease.lost for lease in inner(multi.lease).__holds__), "losses")
    with pytest.raises(LeaseLost):
        await multi.release()
    await world.until(lambda: told, "on_lost")
    assert len(told) == 1


def inner(lease):
    return getattr(lease, "inner", lease)


async def test_one_that_was_taken_is_found_by_a_renewal(world):
    multi = world.client().multi(NAMES, ttl=20)
    assert await multi.acquire()
    lease = multi.lease
    await lease.renew(30)
    assert 20 < lease.remaining() < 30
    world.server.command("SET", world.key("c"), "another", "PX", 20_000)
    with pytest.raises(LeaseLost) as lost:
        await lease.renew(40)
    assert (lost.value.name, lost.value.reason) == ("c", "taken")
    assert lease.lost
    with pytest.raises(LeaseLost):
        await lease.renew()
    with pytest.raises(LeaseLost):
        await multi.release()
    assert [world.holder(name) for name in "abc"] == [None, None, "another"]


async def test_one_that_was_taken_is_found_at_release(world):
    multi = world.client().multi(NAMES)
    await multi.acquire()
    world.server.command("SET", world.key("c"), "another", "PX", 20_000)
    with pytest.raises(LeaseLost) as lost:
        await multi.release()
    assert (lost.value.name, lost.value.reason) == ("c", "taken")
    assert [world.holder(name) for name in "abc"] == [None, None, "another"]
    with pytest.raises(
        NotHeld, match=r"^not locked: release of 'b', 'a', 'c' without holding them"
    ):
        await multi.release()


async def test_a_lease_lost_while_waiting_begins_anew(world):
    client = world.client()
    last = client.lock("b")
    await last.acquire()
    multi = world.client().multi(["a", "b"], ttl=0.6)
    job = world.start(multi.acquire())
    await world.in_line("b", 1)
    world.server.command("DEL", world.key("a"))
    held = world.client().multi(["a"])
    await held.acquire()
    # The renewal of "a" is refused now; what waits for "b" must not be granted with "a" lost.
    began = world.server.command("TIME")
    await world.until(lambda: world.elapsed_ms(began) > 700)
    await last.release()
    await world.in_line("a", 1)
    await held.release()
    assert await job.result()
    assert await multi.owned()
    await multi.release()


async def test_a_release_hands_each_to_its_own_line(world):
    multi = world.client().multi(NAMES)
    await multi.acquire()
    locks = [world.client().lock(name) for name in "ab"]
    jobs = [world.start(lock.acquire()) for lock in locks]
    for name in "ab":
        await world.in_line(name, 1)
    await multi.release()
    for job, lock in zip(jobs, locks, strict=True):
        assert await job.result()
        assert await lock.owned()
        await lock.release()
    assert world.holder("c") is None


async def test_it_is_shown_as_held(world):
    client = world.client()
    async with client.multi(NAMES, label="trio"):
        shown = await client.locks()
        assert [each.name for each in shown] == ["a", "b", "c"]
        assert {(each.held, each.holder.label) for each in shown} == {(True, "trio")}


@pytest.mark.one_server  # elsewhere another lock may have been taken and given back before
async def test_a_key_of_another_kind_changes_nothing(world):
    world.server.command("SADD", world.key("b"), "x")
    world.server.command("PEXPIRE", world.key("b"), 20_000)
    for patience in ({"blocking": False}, {"timeout": 1}):
        with pytest.raises(ServerUnsuitable):
            await world.client().multi(NAMES).acquire(**patience)
    assert world.server.command("KEYS", f"{world.prefix}*") == [world.key("b")]


@pytest.mark.slow
@pytest.mark.one_server
async def test_in_several_slots_each_is_asked_for(world):
    client = world.client(cluster_node(world.server.binary).url)
    together = client.multi(["{t}a", "{t}b"])
    apart = client.multi(NAMES)
    for multi in (together, apart):
        async with multi as lease:
            assert await multi.owned()
            assert len(lease.fences) == len(multi.names)
            assert await client.multi(multi.names[:1]).acquire(blocking=False) is False
        assert not await multi.locked()
    async with client.lock("c"):
        assert await apart.acquire(blocking=False) is False
        assert await apart.acquire(timeout=0.1) is False
        others = client.multi(["a", "b"])
        assert await others.acquire(blocking=False) is True
        await others.release()


async def test_a_loss_can_cancel_the_body(world):
    if world.blocking:
        return
    multi = world.client().multi(NAMES, ttl=0.3, on_lost="cancel")
    with pytest.raises(LeaseLost):  # noqa: PT012 - the end of the block raises
        async with multi:
            for name in "abc":
                world.server.command("DEL", world.key(name))
            await asyncio.get_running_loop().create_future()
    assert asyncio.current_task().cancelling() == 0


# --- sides and permits ----------------------------------------------------------------------------


def mixed(client, **options):
    """Return a multi of a lock, a read side, a write side and a permit, and the handles."""
    made = {
        "lock": client.lock("d-lock"),
        "reads": client.rwlock("c-reads").read,
        "writes": client.rwlock("b-writes").write,
        "permit": client.semaphore("a-permit", 2),
    }
    return client.multi([*made.values(), "e-name"], **options), SimpleNamespace(**made)


MIXED = ["d-lock", "c-reads", "b-writes", "a-permit", "e-name"]


def held(world):
    """Return what is held of the parts of ``mixed``."""
    locks = [name for name in ("d-lock", "e-name") if world.holder(name)]
    return locks + [name for name in ("c-reads", "b-writes", "a-permit") if world.holders(name)]


async def test_sides_and_permits_are_taken_with_locks_all_or_none(world):
    multi, _ = mixed(world.client(), ttl=20)
    async with multi as lease:
        assert multi.names == lease.names == tuple(MIXED)
        assert sorted(held(world)) == sorted(MIXED)
        assert all(lease.fences[name] > 0 for name in MIXED)
        assert 15 < lease.remaining() < 20
        assert await multi.owned()
        assert await multi.locked()
        await lease.renew(50)
        assert 40 < lease.remaining() < 50
        other, parts = mixed(world.client())
        assert await other.acquire(blocking=False) is False
        assert await parts.lock.acquire(blocking=False) is False
        assert await parts.writes.acquire(blocking=False) is False
        assert await parts.reads.acquire(blocking=False) is True  # many may read
        await parts.reads.release()
        assert await parts.permit.acquire(blocking=False) is True  # the other one of two
        await parts.permit.release()
    assert held(world) == []
    assert not await multi.owned()
    assert not await multi.locked()
    with pytest.raises(NotHeld):
        await multi.release()


@pytest.mark.parametrize("busy", ["lock", "reads", "writes", "permit"])
async def test_a_busy_part_leaves_all_others_alone(world, busy):
    _, parts = mixed(world.client())
    multi, _ = mixed(world.client(), timeout=0.1)
    others = world.client()
    if busy == "reads":
        blocking = [others.rwlock("c-reads").write]
    elif busy == "permit":
        blocking = [parts.permit, others.semaphore("a-permit", 2)]
    else:
        blocking = [getattr(parts, busy)]
    for each in blocking:
        assert await each.acquire()
    before = held(world)
    assert await multi.acquire(blocking=False) is False
    with pytest.raises(AcquireTimeout, match="were not all granted within"):
        await multi.__aenter__()
    assert held(world) == before
    assert [world.waiting(name) for name in MIXED] == [0] * 5
    for each in blocking:
        await each.release()
    assert await multi.acquire(timeout=2)
    await multi.release()


async def test_it_waits_for_its_turn_at_a_side_and_a_permit(world):
    _, parts = mixed(world.client())
    assert await parts.permit.acquire(permits=2)
    assert await parts.writes.acquire()
    multi, _ = mixed(world.client())
    job = world.start(multi.acquire())
    await world.in_line("a-permit", 1)
    assert held(world) == ["b-writes", "a-permit"]
    await parts.permit.release(2)
    await world.in_line("b-writes", 1)
    await parts.writes.release()
    assert await job.result()
    assert await multi.owned()
    await multi.release()
    assert held(world) == []


async def test_mixed_multis_in_any_order_never_wait_for_each_other(world):
    inside, runs = [], []

    async def works(client, order):
        _, parts = mixed(client)
        kinds = [getattr(parts, name) for name in order]
        for _ in range(6):
            async with client.multi(kinds):
                inside.append(order)
                assert sum("writes" in each for each in inside) <= 1
                await world.tick()
                inside.remove(order)
                runs.append(order)

    orders = [("lock", "writes", "permit"), ("permit", "writes", "reads"), ("reads", "lock")]
    jobs = [world.start(works(world.client(), order)) for order in orders * 2]
    for job in jobs:
        await job.result(30)
    assert len(runs) == 36


@pytest.mark.parametrize("lost", ["c-reads", "b-writes", "a-permit", "d-lock"])
async def test_the_loss_of_one_part_is_the_loss_of_all(world, lost):
    told = []
    multi, _ = mixed(world.client(), ttl=0.6, on_lost=told.append)
    with pytest.raises(LeaseLost) as error:  # noqa: PT012 - the end of the block raises
        async with multi as lease:
            world.server.command("DEL", world.key(lost))
            await world.until(lambda: lease.lost, "the loss")
            with pytest.raises(LeaseLost):
                lease.check()
            await world.until(lambda: told, "on_lost")
    assert error.value.name == lost
    assert [each.names for each in told] == [tuple(MIXED)]
    assert held(world) == []


async def test_a_part_that_ended_is_found_at_release(world):
    multi, _ = mixed(world.client())
    await multi.acquire()
    world.server.command("DEL", world.key("b-writes"))
    with pytest.raises(LeaseLost) as lost:
        await multi.release()
    assert (lost.value.name, lost.value.reason) == ("b-writes", "expired")
    assert held(world) == []


async def test_who_reads_within_a_multi_reads_at_once_and_cannot_write(world):
    """The sides of a multi are the thread's own: it must not wait for itself."""
    client = world.client()
    rwlock = client.rwlock("rw")
    async with client.multi([rwlock.read, "x"]):
        job = world.start(held_once(world.client().rwlock("rw").write))
        await world.in_line("rw", 1)
        async with rwlock.read:  # whatever the line
            pass
        with pytest.raises(NotAcquired, match="would wait for itself"):
            await rwlock.write.acquire()
        with pytest.raises(NotAcquired, match="would wait for itself"):
            await client.multi(["y", rwlock.write]).acquire()
        async with client.multi(["y", rwlock.read]):
            assert world.holders("rw") == 2
        assert world.holder("y") is None
    await job.result()


async def held_once(side):
    async with side:
        pass


async def test_a_multi_beside_a_side_that_was_lost_is_refused(world):
    client = world.client()
    rwlock = client.rwlock("rw")
    await rwlock.read.acquire()
    world.server.command("DEL", world.key("rw"))
    with pytest.raises(LeaseLost):
        await client.multi(["a", rwlock.read]).acquire()
    assert world.holder("a") is None
    assert rwlock.read.lease.lost
    with pytest.raises(LeaseLost):
        await rwlock.read.release()


async def test_the_limit_of_a_semaphore_is_checked(world):
    client = world.client()
    async with client.semaphore("s", 3):
        with pytest.raises(ServerUnsuitable):
            await client.multi(["a", client.semaphore("s", 2)]).acquire()
    await world.until(lambda: world.holder("a") is None, "what was acquired is given back")


@needs_no_server
async def test_parts_that_cannot_work_are_refused(world):
    client = world.client()
    rwlock = client.rwlock("rw")
    for parts, error, complaint in (
        ([rwlock], TypeError, "name must be str, or a handle of this client"),
        ([client.rlock("a")], TypeError, "name must be str, or a handle of this client"),
        ([client.election("a")], TypeError, "name must be str, or a handle of this client"),
        ([rwlock.read, rwlock.write], ValueError, "names must be different: 'rw'"),
        (["rw", rwlock.read], ValueError, "names must be different: 'rw'"),
        ([world.client().lock("a")], ValueError, "must belong to one client"),
        ([world.client().rwlock("a").read], ValueError, "must belong to one client"),
    ):
        with pytest.raises(error, match=complaint):
            client.multi(parts)


@needs_no_server
@pytest.mark.parametrize(
    ("names", "error", "complaint"),
    [
        ([], ValueError, "names must be 1 to 100 names, not 0"),
        ([str(n) for n in range(101)], ValueError, "not 101"),
        (["a", "b", "a"], ValueError, "names must be different: 'a'"),
        ("abc", TypeError, "names must be a list of names"),
        (7, TypeError, "names must be a list of names"),
        (["a", 7], TypeError, "name must be str"),
        (["a", ""], ValueError, "name must have 1 to"),
        (["a", "b~queue"], ValueError, "must not end"),
    ],
)
async def test_names_that_cannot_work_are_refused(world, names, error, complaint):
    with pytest.raises(error, match=complaint):
        world.client().multi(names)
