"""Leases that stay with their client for a moment after a release: ``linger``."""

import os
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from fencelock import Poll
from fencelock._core.lock import in_line
from fencelock._core.lock.waiting import PAUSE_SECONDS
from fencelock._io.process_ports import ProcessPort
from fencelock.scripts import BREAK
from tests.conformance.leftovers import activities
from tests.conformance.world import needs_no_server
from tests.patience import PATIENT_SECONDS
from tests.waiting import machine_seconds, stalls

pytestmark = pytest.mark.no_quorum

LONG = 0.4  # nothing but a recall ends it sooner
KEEPER = """
import sys, fencelock
client = fencelock.Client(sys.argv[1], key_prefix=sys.argv[2])
lock = client.lock("a", linger=0.4)
with lock:
    client.event("never").wait(timeout=0.1)
while True:
    with lock:
        pass
    print("kept", flush=True)
    if not sys.stdin.readline():
        break
"""


@pytest.fixture
def a_try_is_patient(monkeypatch):
    """Let a try wait for as long as a busy machine's client needs to answer a recall."""
    monkeypatch.setattr(in_line, "RECALL_SECONDS", PATIENT_SECONDS)


async def sleep(world, seconds):
    """Let time pass."""
    until = time.monotonic() + seconds
    await world.until(lambda: time.monotonic() >= until)


def port_of(client):
    """Return the port of a client of either face."""
    port = getattr(client, "inner", client).__shared__()[0]
    return port() if callable(port) else port


async def kept(world, client, name="a", **options):
    """Return a lock whose lease its client keeps, and that lease's holder id."""
    lock = client.lock(name, **{"linger": LONG, **options})

    async def again():
        async with lock:
            pass
        return world.holder(name) is not None

    until = time.monotonic() + 8
    while not await again():  # at first the client does not hear recalls yet
        assert time.monotonic() < until
        await world.tick()
    return lock, world.holder(name)


async def while_kept(world, play):
    """Play with a kept lease; again if a machine that stood still let it end by itself."""
    for number in range(3):
        lock, holder = await kept(world, world.client(), f"a{number}")
        began = time.monotonic()
        try:
            return await play(lock, holder)
        except AssertionError:
            if time.monotonic() - began < LONG / 2:
                raise
    raise AssertionError


@pytest.mark.slow
async def test_it_is_kept_again_after_the_client_was_idle(world):
    """Its client has stopped to listen for recalls, and begins again: as often as it rests."""
    client, other = world.client(), world.client().lock("a")
    for _ in range(2):
        await kept(world, client)
        await world.until(lambda: world.holder("a") is None, "it is given up")
        await world.until(lambda: not activities(client), "nothing of the client runs")
        await sleep(world, 0.1)
    await kept(world, client)
    assert await other.acquire(timeout=5), "the recall was not heard"
    await other.release()


async def test_taking_a_kept_lease_again_costs_no_command(world):
    async def taken_again(lock, holder):
        fences = []
        with world.commands() as sent:
            for _ in range(5):
                async with lock as lease:
                    assert lease.holder == holder
                    assert lease.unchanged
                    fences.append(lease.fence)
                    last = port_of(lock).now()
        assert sent.scripts == 0
        assert port_of(lock).lines.holders[holder.encode()].kept_until >= last + LONG
        assert fences == list(range(fences[0], fences[0] + 5))

    await while_kept(world, taken_again)


async def test_taking_it_again_draws_no_id_and_knows_who_takes_it(world, monkeypatch):
    async def taken_again(lock, holder):
        with monkeypatch.context() as patch:
            patch.setattr(ProcessPort, "new_id", None)
            async with lock as lease:
                assert lease.holder == holder
                assert b'"unit":' in lease.own_info

    await while_kept(world, taken_again)


async def test_it_is_given_up_when_its_time_is_over(world):
    client = world.client()
    await kept(world, client, linger=0.05)
    await world.until(lambda: world.holder("a") is None, "the release")


async def test_its_fences_are_known_to_the_next_holder(world):
    lock, _ = await kept(world, world.client())
    async with lock:
        pass
    async with lock as lease:
        last = lease.fence
    async with world.client().lock("a") as lease:
        assert lease.fence > last
        assert not lease.unchanged


def with_another_lock(world, client):
    in_one_slot = "{a}b" if world.server.url.startswith("redis+c") else "b"
    return world.client().multi(["a", in_one_slot])


TRIES = {
    "from elsewhere": lambda world, client: world.client().lock("a"),
    "of a multi": with_another_lock,
    "by another handle of its client": lambda world, client: client.lock("a"),
}


@pytest.mark.usefixtures("a_try_is_patient")
@pytest.mark.parametrize("tries", TRIES.values(), ids=TRIES)
async def test_a_try_recalls_it(world, tries):
    client = world.client()
    await kept(world, client)
    other = tries(world, client)
    assert await other.acquire(blocking=False)
    await other.release()
    assert world.waiting("a") == 0


async def test_a_try_without_time_recalls_it_too(world):
    """It may wait for less than 0.1 s, which a busy machine may need for itself."""
    other = world.client().lock("a")
    for _ in range(10):
        client = world.client()
        await kept(world, client)
        if await other.acquire(timeout=0):
            await other.release()
            return
    raise AssertionError


async def test_a_waiter_recalls_it(world):
    """Long before it ends by itself, unless a busy machine stands still just then."""
    other = world.client().lock("a")
    for _ in range(10):
        client = world.client()
        await kept(world, client)
        began = time.monotonic()
        assert await other.acquire(timeout=8)
        waited = time.monotonic() - began
        await other.release()
        if waited < LONG / 2:
            return
    raise AssertionError


async def test_a_try_of_this_client_takes_it(world):
    async def tried(lock, holder):
        with world.commands() as sent:
            assert await lock.acquire(blocking=False)
            assert lock.lease.holder == holder
            await lock.release()
        assert sent.scripts == 0

    await while_kept(world, tried)


@pytest.mark.usefixtures("a_try_is_patient")  # but its holder's client answers at once
async def test_a_try_fails_while_the_lease_is_in_use(world):
    lock, _ = await kept(world, world.client())
    async with lock:
        other = world.client().lock("a")
        began = time.monotonic()
        assert not await other.acquire(blocking=False)
        assert not await other.acquire(timeout=0)
        assert time.monotonic() - began < 2.0 + machine_seconds()
    assert world.waiting("a") == 0


async def test_a_turn_that_was_recalled_is_the_last(world):
    lock, _ = await kept(world, world.client())
    async with lock:
        other = world.client().lock("a")
        waits = world.start(other.acquire())
        await world.in_line("a", 1)
        await sleep(world, 0.05)
    assert await waits.result()
    await other.release()


async def test_it_is_not_held_for_anybody(world):
    async def asked(lock, _holder):
        other = world.client().lock(lock.name)
        assert not await lock.locked()
        assert not await other.locked()
        async with lock:
            assert await lock.locked()
            assert await other.locked()
            assert await lock.owned()
        assert not await lock.owned()

    await while_kept(world, asked)


@pytest.mark.parametrize("release", [False, True])
async def test_a_closed_client_keeps_nothing(world, release):
    client = world.client()
    await kept(world, client)
    await client.aclose(release=release)
    assert world.holder("a") is None


@pytest.mark.one_play  # for PAUSE_SECONDS
async def test_after_two_recalls_in_vain_it_is_not_kept_for_a_while(world):
    client = world.client()
    other = world.client().lock("a")
    for _ in range(2):
        lock, _ = await kept(world, client)
        assert await other.acquire(timeout=8)  # a try may be over before a busy client answers
        await other.release()
    async with lock:
        pass
    assert world.holder("a") is None
    assert PAUSE_SECONDS == 30


@pytest.mark.usefixtures("a_try_is_patient")
async def test_use_between_two_recalls_keeps_it_going(world):
    client = world.client()

    async def used_and_recalled(first, _holder):
        other = world.client().lock(first.name)
        for _ in range(4):
            lock, _ = await kept(world, client, first.name)
            async with lock as lease:
                assert lease.unchanged
            assert await other.acquire(blocking=False)
            await other.release()

    await while_kept(world, used_and_recalled)


async def test_work_that_lasts_is_released_at_once(world):
    """A lease that has grown is long: it is not kept."""
    lock, _ = await kept(world, world.client())
    async with lock:
        await world.until(lambda: world.pttl("a") > 3_000, "the lease grows")
    assert world.holder("a") is None


async def test_it_is_short_while_it_is_idle(world):
    async def left_idle(lock, _holder):
        assert 0 < world.pttl(lock.name) <= 2_000

    await while_kept(world, left_idle)


async def test_a_lost_recall_costs_a_moment(world):
    client = world.client()
    await kept(world, client)
    deaf = port_of(client).lines.holders
    held = dict(deaf)
    deaf.clear()  # as if nothing had been heard
    other = world.client().lock("a")
    began = time.monotonic()
    waits = world.start(other.acquire())
    await sleep(world, 0.05)
    deaf.update(held)
    assert await waits.result()
    took = time.monotonic() - began - stalls().seconds
    assert took < LONG + 1.2  # and not at the end of the lease, after 2 s
    await other.release()


async def test_an_operators_revocation_ends_it(world):
    client = world.client()
    lock, holder = await kept(world, client)
    keys = world.keys("a").all
    world.server.command("EVAL", BREAK.source, len(keys), *keys, "enough", 60_000, "1")
    holders = port_of(client).lines.holders
    await world.until(lambda: not holders, "the message")
    async with lock as lease:
        assert lease.holder != holder
        assert not lease.unchanged


def until_kept(world, keeper):
    """Have a keeper take its lock again until it keeps the lease: its client hears recalls then."""
    for _ in range(5_000):
        assert keeper.stdout.readline() == b"kept\n"
        if world.holder("a") is not None:
            break
        keeper.stdin.write(b"\n")
        keeper.stdin.flush()
    assert world.holder("a") is not None


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
async def test_a_keeper_that_is_gone_costs_two_seconds(world, how):
    keeper = world.process(KEEPER)
    try:
        until_kept(world, keeper)
        os.kill(keeper.pid, how)
        assert world.pttl("a") <= 2_000
        other = world.client().lock("a")
        assert await other.acquire(timeout=8)
        await other.release()
    finally:
        keeper.kill()
        keeper.communicate()


async def test_a_process_that_ends_keeps_nothing(world):
    keeper = world.process(KEEPER)
    until_kept(world, keeper)
    keeper.communicate()
    assert world.holder("a") is None


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from 3.12 on, of each fork
async def test_a_forked_child_has_none(world):
    if not world.blocking:
        return
    client = world.client()
    lock, holder = await kept(world, client)
    child = os.fork()
    if child == 0:
        try:
            taken = lock.inner.acquire(blocking=False)
            os._exit(0 if taken and lock.inner.lease.holder != holder else 1)
        except BaseException:  # noqa: BLE001 - the parent must not go on twice
            os._exit(2)
    _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - in threads, where nothing is awaited
    assert os.waitstatus_to_exitcode(status) == 0


@needs_no_server
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"cohort": None}, "needs a cohort"),
        ({"wait": Poll()}, "Poll hears no recall"),
        ({"renew": False}, "needs renew=True"),
        ({"ttl": datetime.now(UTC) + timedelta(hours=1)}, "not short"),
        ({"linger": 0}, "above 0"),
        ({"linger": 0.6}, "at most 0.5 s"),
        ({"ttl": 0.1, "linger": 0.05}, "at most 0.025 s"),
        ({"max_hold": 0.1, "linger": 0.05}, "at most 0.025 s"),
    ],
)
async def test_what_cannot_be_kept_is_refused_at_once(world, options, why):
    with pytest.raises(ValueError, match=why):
        world.client().lock("a", **{"linger": 0.05, **options})


@needs_no_server
async def test_it_takes_seconds_and_no_owner(world):
    client = world.client()
    with pytest.raises(TypeError, match="linger must be seconds"):
        client.lock("a", linger="long")
    with pytest.raises(ValueError, match="owner"):
        client.rlock("a", linger=0.05, owner="me")
