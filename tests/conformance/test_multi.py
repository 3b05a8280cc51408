"""``multi``: several locks, all or none."""

import asyncio

import pytest

from fencelock import AcquireTimeout, LeaseLost, NotHeld, ServerUnsuitable
from tests.conformance.world import cluster_node, needs_no_server

pytestmark = pytest.mark.no_quorum  # a quorum has none: see quorums.py

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
        assert 19 < lease.remaining() < 20
        assert lease.ttl == 20
        assert lease.expires_at() > 0
        lease.check()
        await lease.renew(5)
        assert 4 < lease.remaining() < 5
        assert all(world.pttl(name) <= 5000 for name in "abc")
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
        with pytest.raises(AcquireTimeout, match="'b', 'a', 'c' were not all granted within"):
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
    await world.until(lambda: all(lease.lost for lease in inner(multi.lease)._leases), "losses")
    with pytest.raises(LeaseLost):
        await multi.release()
    await world.until(lambda: told, "on_lost")
    assert len(told) == 1


def inner(lease):
    return getattr(lease, "inner", lease)


async def test_one_that_was_taken_is_found_at_release(world):
    multi = world.client().multi(NAMES)
    await multi.acquire()
    world.server.command("SET", world.key("c"), "another", "PX", 20_000)
    with pytest.raises(LeaseLost) as lost:
        await multi.release()
    assert (lost.value.name, lost.value.reason) == ("c", "taken")
    assert [world.holder(name) for name in "abc"] == [None, None, "another"]
    with pytest.raises(NotHeld, match="release of 'b', 'a', 'c' without holding them"):
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
    # The renewal of "a" is refused now; what waits for "b" shall not be granted with "a" lost.
    began = world.server.command("TIME")
    await world.until(lambda: elapsed_ms(world, began) > 700)
    await last.release()
    await world.in_line("a", 1)
    await held.release()
    assert await job.result()
    assert await multi.owned()
    await multi.release()


def elapsed_ms(world, began):
    now = world.server.command("TIME")
    return (int(now[0]) - int(began[0])) * 1000 + (int(now[1]) - int(began[1])) // 1000


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
    if not world.blocking:
        return
    client = world.client()
    async with client.multi(NAMES, label="trio"):
        from fencelock._core.inspect import names, show  # noqa: PLC0415 - the core's own view
        from fencelock._ports.blocking import run_blocking  # noqa: PLC0415 - likewise

        port = client.inner._port
        assert run_blocking(names(port, world.prefix)) == ["a", "b", "c"]
        info = run_blocking(show(port, world.keys("a")))
        assert (info.held, info.holder.label) == (True, "trio")


@pytest.mark.one_server  # elsewhere another lock may have been taken and given back before
async def test_a_key_of_another_kind_changes_nothing(world):
    world.server.command("SADD", world.key("b"), "x")
    world.server.command("PEXPIRE", world.key("b"), 20_000)
    for patience in ({"blocking": False}, {"timeout": 1}):
        with pytest.raises(ServerUnsuitable):
            await world.client().multi(NAMES).acquire(**patience)
    assert world.server.command("KEYS", f"{world.prefix}*") == [world.key("b")]


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
