"""Other programs on the same key: they exclude us, and we them."""

import threading

import pytest
import redis
import redis.exceptions

pytestmark = [
    pytest.mark.one_server,  # what others do to a key is the same on every node
]
TTL_MS = 20_000


@pytest.fixture
def theirs(world):
    """Lend redis-py's own client of the test's server."""
    client = redis.Redis.from_url(world.server.tcp_url)
    yield client
    client.close()


async def test_their_lock_excludes_us_and_we_theirs(world, theirs):
    """I1: redis-py's Lock on the same key, both ways."""
    ours = world.client().lock("a")
    other = theirs.lock(world.key("a"), timeout=20, blocking=False)
    assert other.acquire()
    assert await ours.acquire(blocking=False) is False
    assert await ours.acquire(timeout=0.1) is False
    assert await ours.locked() is True
    other.release()
    assert await ours.acquire(blocking=False) is True
    assert other.acquire() is False
    with pytest.raises(redis.exceptions.LockError):
        other.release()
    assert await ours.owned() is True
    await ours.release()
    assert other.acquire()
    other.release()


@pytest.mark.parametrize("expiry", [("PX", TTL_MS), ()], ids=["ttl", "no ttl"])
async def test_their_release_is_noticed_without_a_word(world, theirs, expiry):
    """Waiters behind a foreign holder look now and then, also when its key never expires."""
    world.foreign.add(world.key("a"))
    assert theirs.execute_command("SET", world.key("a"), "other", "NX", *expiry)
    client, order = world.client(), []

    async def wait(number: int) -> None:
        async with client.lock("a"):
            order.append(number)

    jobs = []
    for number in range(3):
        jobs.append(world.start(wait(number)))
        await world.in_line("a", number + 1)
    assert order == []
    theirs.delete(world.key("a"))
    for job in jobs:
        await job.result(3)
    assert order == [0, 1, 2]


async def test_a_foreign_key_without_expiry_is_left_alone(world, theirs):
    """I1: neither a release nor a timeout of ours touches it."""
    theirs.set(world.key("a"), "other")
    lock = world.client().lock("a")
    assert await lock.acquire(blocking=False) is False
    assert await lock.acquire(timeout=0.1) is False
    with pytest.raises(RuntimeError, match="not locked"):
        await lock.release()
    assert theirs.get(world.key("a")) == b"other"
    theirs.delete(world.key("a"))


async def test_our_handoff_leaves_them_no_gap(world, theirs):
    """While the lock passes from holder to waiter, a foreign SET NX never gets in."""
    client = world.client()
    stop, taken = threading.Event(), []

    def barge() -> None:
        while not stop.is_set():
            if theirs.set(world.key("a"), "other", nx=True, px=TTL_MS):
                taken.append(inside[:])
                theirs.delete(world.key("a"))

    inside: list[int] = []
    order = []

    async def wait(number: int) -> None:
        async with client.lock("a"):
            inside.append(number)
            await world.tick()
            order.append(inside.pop())

    holder = client.lock("a")
    await holder.acquire()
    jobs = [world.start(wait(number)) for number in range(8)]
    await world.in_line("a", 8)
    inside.append(-1)
    thread = threading.Thread(target=barge)
    thread.start()
    try:
        inside.pop()
        await holder.release()
        for job in jobs:
            await job.result()
        await world.until(lambda: taken, "the foreign client's turn")
    finally:
        stop.set()
        thread.join()
    assert len(order) == 8
    assert all(among == [] for among in taken), "two were inside"
    assert len(order) == 8


async def test_a_waiter_gets_through_a_barging_client(world, theirs):
    """Behind a foreign client that takes the lock again and again, a waiter still gets it."""
    stop, both = threading.Event(), []
    inside = []

    def barge() -> None:
        while not stop.is_set():
            if theirs.set(world.key("a"), "other", nx=True, px=TTL_MS):
                both.extend(inside)
                stop.wait(0.01)
                theirs.delete(world.key("a"))
            stop.wait(0.01)

    thread = threading.Thread(target=barge)
    thread.start()
    client = world.client()
    try:
        for _ in range(3):
            async with client.lock("a", timeout=7):
                inside.append("we")
                await world.tick()
                inside.clear()
    finally:
        stop.set()
        thread.join()
    assert both == []


async def test_what_we_leave_on_the_key_is_a_plain_string(world, theirs):
    """Any program can see that it is held, and for how long."""
    async with world.client().lock("a", ttl=20) as lease:
        assert theirs.type(world.key("a")) == b"string"
        assert theirs.get(world.key("a")).decode() == lease.holder
        assert 0 < theirs.pttl(world.key("a")) <= TTL_MS


async def test_an_empty_prefix_locks_the_very_name(world, theirs):
    """The prefix may be empty: then the key is the name that others use."""
    name = world.key("plain")
    async with world.client(key_prefix="").lock(name):
        assert theirs.exists(name)
    assert not theirs.exists(name)


RECORDS = ["no digits here", "", "x 1", "-5 a b", "12"]


@pytest.mark.parametrize("record", RECORDS)
async def test_a_record_that_another_program_wrote_keeps_nobody_out(world, record):
    """It is taken for none: a fence is then the server's time."""
    client = world.client()

    def spoil(name):
        world.server.command("SET", f"{world.prefix}{{{world.prefix}{name}}}~record", record)

    for name, lock in (
        ("a", client.lock("a")),
        ("b", client.semaphore("b", 2)),
        ("c", client.rwlock("c").write),
        ("d", client.election("d")),
    ):
        spoil(name)
        async with lock as lease:
            assert (lease or lock.lease).fence > 1_000_000
    spoil("e")
    await client.semaphore("e", 2).set_limit(3)
    spoil("f")

    async def draw():
        return 1

    assert (await client.once("f", within=60).run(draw)).value == 1
