"""The exclusive lock."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from fencelock import AcquireTimeout, LeaseLost, NotAcquired, NotHeld, Poll
from tests.kinds import FREE_TO_ALL, HELD, MADE

# A refusal is the same however the lock is asked for.
ASKED = {
    "queue": lambda client, **options: client.lock("a", **options),
    "limit": lambda client, **options: client.lock("a", max_hold=60, **options),
    "poll": lambda client, **options: client.lock("a", wait=Poll(interval=0.01), **options),
    "owner": lambda client, **options: client.rlock("a", owner="me", **options),
}
ONLY_ONE_SERVER = pytest.mark.no_quorum  # a quorum has no plain form and no owners
EACH_WAY = pytest.mark.parametrize(
    "ask",
    [
        pytest.param(ask, id=way, marks=() if way in {"queue", "limit"} else ONLY_ONE_SERVER)
        for way, ask in ASKED.items()
    ],
)


@pytest.mark.no_quorum  # it asks five servers
async def test_the_lock_and_its_expiry_come_in_one_command(world):
    """One command brings the key with its ttl; there is no instant without an expiry."""
    client = world.client()
    async with client.lock("a", ttl=20):  # connects, and brings the scripts
        pass
    lock = client.lock("a", ttl=20)
    with world.commands() as sent:
        assert await lock.acquire()
    assert sent.scripts == 1
    assert 19_000 < world.pttl("a") <= 20_000
    await lock.release()


@pytest.mark.one_server  # counts the commands
async def test_the_plain_form_is_one_command_too(world):
    """Poll takes the lock by one SET NX PX, and leaves no other key."""
    client = world.client()
    lock = client.lock("a", ttl=20, wait=Poll())
    async with client.lock("b", wait=Poll()):
        pass  # a client's first try asks whether it may release, too
    with world.commands() as sent:
        assert await lock.acquire()
    assert sent["set"] == 1
    assert sent.scripts == 0
    assert 19_000 < world.pttl("a") <= 20_000
    assert world.server.command("KEYS", f"{world.prefix}*") == [world.key("a")]
    await lock.release()
    assert world.server.command("KEYS", f"{world.prefix}*") == []


async def test_holder_ids_are_unique_and_cannot_be_guessed(world):
    """Each acquisition has an id of its own, 128 random bits, and it stands at the key."""
    lock, seen = world.client().lock("a"), set()
    for _ in range(40):
        async with lock as lease:
            assert world.holder("a") == lease.holder
            seen.add(lease.holder)
    assert len(seen) == 40
    assert all(len(holder) >= 22 for holder in seen)
    assert len({holder[:4] for holder in seen}) > 30  # nothing counted or constant in front


@EACH_WAY
async def test_only_the_holder_id_releases(world, ask):
    """A release compares on the server; it tells that it did not hold, and removes nothing."""
    lock = ask(world.client())
    await lock.acquire()
    world.server.command("SET", world.key("a"), "another", "PX", 20_000)
    with pytest.raises(LeaseLost) as lost:
        await lock.release()
    assert lost.value.reason == "taken"
    assert lost.value.name == "a"
    assert world.holder("a") == "another"


async def test_another_handle_cannot_release(world):
    """Handles do not share what they hold."""
    client = world.client()
    mine, other = client.lock("a"), client.lock("a")
    await mine.acquire()
    with pytest.raises(NotHeld):
        await other.release()
    assert world.holder("a") == mine.lease.holder
    await mine.release()
    assert world.holder("a") is None


async def test_try_once_says_yes_or_no(world):
    """``blocking=False`` returns at once, and stands in no line."""
    client = world.client()
    one, two = client.lock("a"), client.lock("a")
    assert await one.acquire(blocking=False) is True
    with world.commands() as sent:
        assert await two.acquire(blocking=False) is False
    assert sent.scripts == 1
    assert world.waiting("a") == 0
    assert await two.acquire(timeout=0) is False
    await one.release()
    assert await two.acquire(blocking=False) is True
    await two.release()


@pytest.mark.no_quorum  # it has no plain form
async def test_poll_tries_as_often_as_told(world):
    """An interval and a number of tries; then no, and NotAcquired for a ``with``."""
    client = world.client()
    lock = client.lock("a", wait=Poll(interval=0.01, max_tries=4))

    async with client.lock("a", renew=False):  # a renewal would be counted, too
        with world.commands() as sent:
            assert await lock.acquire() is False
        assert sent["set"] == 4
        with world.commands() as sent:
            assert await lock.acquire(blocking=False) is False
        assert sent["set"] == 1
        with pytest.raises(NotAcquired) as raised:
            async with lock:
                raise AssertionError("entered")
        assert not isinstance(raised.value, AcquireTimeout)
        hourly = client.lock("a", wait=Poll(interval=3600))
        assert await hourly.acquire(timeout=0.05) is False, "a pause ends with the timeout"


@pytest.mark.no_quorum  # it has no plain form
async def test_poll_gets_the_lock_once_it_is_free(world):
    """Polling without a bound ends with the lock; it excludes those in line and they it."""
    client = world.client()
    holder, poller = client.lock("a"), client.lock("a", wait=Poll(interval=timedelta(seconds=0.01)))
    await holder.acquire()

    async def poll():
        async with poller as lease:
            assert await holder.acquire(blocking=False) is False
            return lease.fence

    job = world.start(poll())
    assert await poller.acquire(timeout=0.05) is False
    assert not job.done
    await holder.release()
    assert await job.result() == 0
    assert world.holder("a") is None


@EACH_WAY
async def test_a_timeout_ends_the_wait_and_leaves_nothing(world, ask):
    """I9: not in time is False, AcquireTimeout for a ``with``, and no place in line."""
    client = world.client()
    async with client.lock("a"):
        assert await ask(client).acquire(blocking=False) is False
        assert await ask(client).acquire(timeout=0.05) is False
        assert world.waiting("a") == 0
        with pytest.raises(TimeoutError) as raised:
            async with ask(client, timeout=timedelta(milliseconds=50)):
                raise AssertionError("entered")
        assert isinstance(raised.value, AcquireTimeout)
        assert raised.value.name == "a"
        assert world.waiting("a") == 0
    assert world.holder("a") is None


async def test_without_a_timeout_it_waits_until_granted(world):
    """For ever is for ever; one that gave up before does not count."""
    client = world.client()
    holder, waiter = client.lock("a"), client.lock("a")
    await holder.acquire()
    job = world.start(waiter.acquire())
    await world.in_line("a", 1)
    assert await client.lock("a").acquire(timeout=0.1) is False
    assert not job.done
    await holder.release()
    assert await job.result() is True
    await waiter.release()


async def test_a_strict_handle_refuses_its_holder(world):
    """It is "already locked" for who holds it; another thread or task waits its turn."""
    lock = world.client().lock("a", strict=True)
    async with lock:
        with pytest.raises(NotAcquired, match="already locked"):
            await lock.acquire()
        with pytest.raises(NotAcquired, match="already locked"):
            async with lock:
                raise AssertionError("entered")
        assert await world.start(lock.acquire(timeout=0.05)).result() is False
    async with lock:
        pass


async def test_an_ordinary_handle_waits_for_itself(world):
    """As with ``threading.Lock``, acquiring twice waits; the first lease is untouched."""
    lock = world.client().lock("a")
    async with lock as lease:
        assert await lock.acquire(timeout=0.05) is False
        lease.check()
        assert await lock.owned()


@EACH_WAY
async def test_release_without_holding_is_an_error(world, ask):
    """It is "not locked", as a RuntimeError too; also the second time."""
    lock = ask(world.client())
    with pytest.raises(RuntimeError, match="not locked") as raised:
        await lock.release()
    assert isinstance(raised.value, NotHeld)
    await lock.acquire()
    await lock.release()
    with pytest.raises(NotHeld):
        await lock.release()


@pytest.mark.daily
@pytest.mark.one_server
@pytest.mark.slow
async def test_trouble_while_trying_is_raised(world, caplog):
    """I12: as what it is, never as "held"; and not logged, too: the caller decides."""
    server = world.alone()
    client = world.client(server_timeout=0.3)
    async with client.lock("a"):
        pass
    server.kill()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "fencelock"), pytest.raises(ConnectionError) as raised:
        await client.lock("a").acquire(blocking=False)
    assert [each for each in caplog.records if str(raised.value) in each.getMessage()] == []
    server.start()  # so that what is still to be undone finds somebody


async def test_the_lease_is_judged_locally(world):
    """``remaining``, ``lost`` and ``check`` send nothing."""
    lock = world.client().lock("a", ttl=20)
    async with lock as lease:
        with world.commands() as sent:
            assert not lease.lost
            assert 18 < lease.remaining() < 20
            lease.check()
        assert sent.counts == {}
    assert lease.remaining() == 0.0
    assert not lease.lost
    with pytest.raises(NotHeld):
        lease.check()


@EACH_WAY
async def test_a_late_release_is_told_and_frees_nobody_else(world, ask):
    """An expired lease is known here; release says so, and the next holder keeps the lock."""
    client = world.client()
    late, following = ask(client, ttl=0.3, renew=False), client.lock("a")
    await late.acquire()
    lease = late.lease
    assert await following.acquire(timeout=5)
    assert lease.lost
    assert lease.remaining() == 0.0
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert (lost.value.reason, lost.value.fence) == ("expired", lease.fence)
    with pytest.raises(LeaseLost):
        await late.release()
    await world.until(lambda: world.waiting("a") == 0)
    assert await following.owned()
    await following.release()


@pytest.mark.parametrize(
    ("ttl", "least", "most"),
    [
        (7, 6_500, 7_000),
        (7.5, 7_000, 7_500),
        (timedelta(seconds=7, milliseconds=500), 7_000, 7_500),
        (0.75, 100, 750),
    ],
)
async def test_a_ttl_is_a_span(world, ttl, least, most):
    """``int``, ``float`` or ``timedelta``; milliseconds on the wire."""
    async with world.client().lock("a", ttl=ttl, renew=False) as lease:
        assert least < world.pttl("a") <= most
        assert lease.ttl * 1000 == most


async def test_a_ttl_is_an_instant(world):
    """An aware datetime is a fixed lease until then, whatever the time zone."""
    for zone in (UTC, None):
        instant = datetime.now(UTC).astimezone(zone) + timedelta(seconds=9)
        async with world.client().lock("a", ttl=instant) as lease:
            assert 5_000 < world.pttl("a") <= 9_000
            assert lease.expires_at() < instant.timestamp() + 0.1


@FREE_TO_ALL
async def test_an_instant_is_kept_by_a_lease_that_was_waited_for(world, kind):
    """The time in line is not added, and a lease that is handed over lasts until then."""
    first = MADE[kind](world.client())
    assert await first.acquire()
    instant = datetime.now(UTC) + timedelta(seconds=20)
    handle = MADE[kind](world.client(), ttl=instant)
    job = world.start(handle.acquire())
    await world.in_line("a", 1)
    await world.until(lambda: datetime.now(UTC) > instant - timedelta(seconds=19.6), "a while")
    await first.release()
    assert await job.result() is True
    lease = handle.lease
    await world.until(lambda: lease.remaining() > 4, "its full length")
    end = instant.timestamp()
    assert lease.expires_at() < end + 0.1
    left = (instant - datetime.now(UTC)).total_seconds()
    assert world.pttl("a") <= left * 1000 + 500  # and while its request was under way
    if kind != "multi":
        await lease.renew(60)
        assert lease.expires_at() <= end + 0.1
    await handle.release()


@pytest.mark.no_quorum  # looks at one server's keys
@pytest.mark.parametrize("kind", ["lock", "multi"])
async def test_an_instant_is_kept_by_a_lease_behind_a_waiter_that_is_gone(world, kind):
    """As found, the server kept the key for 2 s, and the lease was proved for longer."""
    dead = "dead dead nobody:1.1 3000 2000 0 nobody:1 {}"
    world.server.command("ZADD", world.keys("a").grant[2], "1", dead)
    handle = MADE[kind](world.client(), ttl=datetime.now(UTC) + timedelta(seconds=9))
    assert await handle.acquire()
    left = world.pttl("a")
    assert handle.lease.remaining() * 1000 <= left
    await handle.release()


@FREE_TO_ALL
async def test_nothing_is_granted_after_its_instant(world, kind):
    """A waiter that is still in line then ends without it, and leaves nothing behind."""
    first = MADE[kind](world.client())
    assert await first.acquire()
    soon = datetime.now(UTC) + timedelta(seconds=1.2)
    entering = None
    if kind == "lock":
        entering = world.start(MADE[kind](world.client(), ttl=soon).__aenter__())
    assert await MADE[kind](world.client(), ttl=soon).acquire() is False
    assert datetime.now(UTC) >= soon
    if entering is not None:
        with pytest.raises(AcquireTimeout, match="before its lease was to end"):
            await entering.result()
    assert world.waiting("a") == 0
    await first.release()


async def test_an_instant_that_cannot_be_is_refused(world):
    """Without a time zone at once; in the past when the lease would begin."""
    client = world.client()
    with pytest.raises(ValueError, match="timezone"):
        client.lock("a", ttl=datetime(2100, 1, 1))  # noqa: DTZ001 - the mistake that is tested
    lock = client.lock("a", ttl=datetime.now(UTC) - timedelta(seconds=1))
    with world.commands() as sent, pytest.raises(ValueError, match="has passed"):
        await lock.acquire()
    assert sent.counts == {}


async def test_is_it_me(world):
    """``owned()`` asks the server whether I hold it; ``locked()`` whether anybody holds it."""
    client = world.client()
    mine, other = client.lock("a", renew=False), client.lock("a")  # a renewal would find another
    assert await mine.locked() is False
    with world.commands() as sent:
        assert await mine.owned() is False
    assert sent.counts == {}
    async with mine:
        assert await mine.owned() is True
        assert await other.owned() is False
        assert await other.locked() is True
        world.server.command("SET", world.key("a"), "another", "PX", 20_000)
        assert await mine.owned() is False
        world.server.command("SET", world.key("a"), mine.lease.holder, "PX", 20_000)
    assert await mine.owned() is False


async def test_the_lease_says_what_is_held(world):
    """The lease belongs to its handle while held, and its repr tells its state."""
    lock = world.client().lock("a", ttl=5, label="nightly")
    assert lock.lease is None
    assert "unlocked" in repr(lock)
    async with lock as lease:
        assert lock.lease.fence == lease.fence
        assert lock.lease.name == lock.name == "a"
        assert lease.ttl == 5
        assert "<locked" in repr(lock)
        assert "held" in repr(lease.inner if world.blocking else lease)
    assert lock.lease is None


async def test_a_body_that_raises_releases(world):
    """The lock is free afterwards, and the body's own error is what is raised."""
    lock = world.client().lock("a")
    with pytest.raises(ZeroDivisionError):
        async with lock:
            raise ZeroDivisionError
    assert world.holder("a") is None


async def test_a_body_that_outlived_its_lease_is_told(world):
    """LeaseLost leaves the ``with``; but an error of the body itself is not hidden by it."""
    lock = world.client().lock("a", ttl=0.3, renew=False)

    async def outlive(error: type[Exception] | None) -> None:
        async with lock as lease:
            await world.until(lambda: lease.lost)
            if error:
                raise error

    with pytest.raises(LeaseLost):
        await outlive(None)
    with pytest.raises(ZeroDivisionError):
        await outlive(ZeroDivisionError)
    await world.until(lambda: world.holder("a") is None)


TRIED = ("lock", "rlock", "owner", "kept", "poll", "semaphore", "read", "write", "multi")


@pytest.mark.no_quorum  # which has few of these kinds
@pytest.mark.parametrize("kind", TRIED)
async def test_what_is_free_is_granted_within_any_timeout(world, kind):
    """A caller may pass what is left of a deadline: "no" would say that another client holds."""
    handle = HELD[kind](world.client())
    for timeout in (1e-12, 1e-9, 1e-6, 1e-5) * 3:
        assert await handle.acquire(timeout=timeout) is True
        await handle.release()
    if kind not in {"owner", "read"}:
        await handle.acquire()
        assert await HELD[kind](world.client()).acquire(timeout=1e-9) is False
        await handle.release()
