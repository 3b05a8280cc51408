"""Renewal and loss (I8, I11)."""

import gc
import logging

import pytest

from fencelock import LeaseLost, NotHeld, Poll
from fencelock._runtime.clock import now
from tests.conformance.leftovers import ports_of
from tests.threads.state import lease_threads
from tests.waiting import machine_seconds

POLL = {"wait": Poll()}
WAITS = [{}, pytest.param(POLL, marks=pytest.mark.no_quorum)]
BOTH_FORMS = pytest.mark.parametrize("form", WAITS, ids=["queue", "poll"])

DROPS = pytest.mark.filterwarnings("ignore:a handle of 'a' was dropped:ResourceWarning")

HOLDER = """
import sys, fencelock
client = fencelock.Client(sys.argv[1], key_prefix=sys.argv[2])
lock = client.lock("a", ttl=0.6)
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


async def renewed(world, lease) -> float:
    """Wait for the next renewal; return how much later the lease ends."""
    before = lease.deadline
    await world.until(lambda: lease.deadline > before, "a renewal")
    return lease.deadline - before


@pytest.mark.no_quorum  # its deadline moves with each node; see tests/quorum
@BOTH_FORMS
async def test_a_held_lease_is_renewed_every_third_of_its_ttl(world, form):
    """Well before the end, again and again; the server's copy moves along."""
    async with world.client().lock("a", ttl=1.5, **form) as lease:
        spans = [await renewed(world, lease) for _ in range(2)]
        assert all(0.3 < span < 1.5 for span in spans), spans
        lease.check()
    assert world.holder("a") is None


@pytest.mark.one_server  # in a Cluster one for each slot; see tests/cluster
async def test_one_command_and_one_thread_renew_them_all(world):
    """Leases of a client share their renewals, and whoever makes them."""
    client = world.client()
    locks = [client.lock(f"many {number}", ttl=1.5) for number in range(30)]
    for lock in locks:
        assert await lock.acquire()
    before = [lock.lease.deadline for lock in locks]
    with world.commands() as sent:
        for lock, deadline in zip(locks, before, strict=True):
            await world.until(lambda lock=lock, old=deadline: lock.lease.deadline > old)
    assert sent["pexpire"] >= 60  # the lock's key and its record
    assert sent.calls["renew"] < 20, "thirty leases were renewed one by one"
    if world.blocking:
        await world.until(lambda: len(lease_threads()) == 1, "the end of the other tests' threads")
    for lock in locks:
        await lock.release()


@pytest.mark.no_quorum  # its deadline moves with each node; see tests/quorum
async def test_leases_of_unlike_lengths_are_each_renewed_for_their_own(world):
    """Whatever shares a batch: none is relied on for longer than the server keeps it (I2)."""
    client = world.client()
    lengths = {"d": 40.0, "a": 1.5, "b": 2.0, "c": 3.0}
    locks = {name: client.lock(name, ttl=ttl) for name, ttl in lengths.items()}
    for lock in locks.values():
        assert await lock.acquire()
        await world.until(lambda: ports_of(client)[0].hears, "it rests until a lease is due")
    for _ in range(2):
        for name in "abc":
            await renewed(world, locks[name].lease)
        for name, ttl in lengths.items():
            before = locks[name].lease.remaining()
            kept = world.pttl(name) / 1000
            proved = locks[name].lease.remaining()
            assert proved < ttl, name
            assert kept <= ttl, name
            assert proved <= kept or proved > before, name  # it was renewed in between
    assert locks["d"].lease.remaining() > 30
    for lock in locks.values():
        await lock.release()


@BOTH_FORMS
@pytest.mark.parametrize("other", ["another", None], ids=["taken", "gone"])
async def test_renewal_asks_with_its_own_id(world, form, other):
    """What it has not is not renewed; the lease is lost, and its holder is notified once."""
    told = []
    lock = world.client().lock("a", ttl=1.5, on_lost=told.append, **form)
    await lock.acquire()
    words = ("SET", world.key("a"), other, "PX", 60_000) if other else ("DEL", world.key("a"))
    world.server.command(*words)
    lease = lock.lease
    await world.until(lambda: told, "on_lost")
    assert lease.lost
    assert world.holder("a") == other
    assert world.pttl("a") <= 60_000
    with pytest.raises(LeaseLost, match="taken" if other else "expired"):
        await lock.release()
    assert [one.fence for one in told] == [lease.fence]


async def test_renewal_stops_at_release(world):
    """A key that carries the released id ends by itself; nothing prolongs it."""
    lock = world.client().lock("a", ttl=2)
    await lock.acquire()
    holder = lock.lease.holder
    await lock.release()
    world.server.command("SET", world.key("a"), holder, "PX", 1_000)  # a renewal is due after 650
    with world.commands() as sent:
        await world.until(lambda: world.holder("a") is None, "expiry")
    assert not sent.calls


async def test_renewal_dies_with_the_process(world):
    """Nobody renews for the dead; the lock is free after what was left of the ttl."""
    with world.process(HOLDER) as holder:
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    async with world.client().lock("a", timeout=5):
        pass


@pytest.mark.no_quorum  # its deadline moves with each node; see tests/quorum
@pytest.mark.parametrize("limit", [{"max_renewals": 2}, {"max_hold": 1.2}, {"max_renewals": 0}])
async def test_a_limit_ends_a_hold(world, limit):
    """After so many renewals, or so long, the lease ends, whatever its holder does."""
    told = []
    client = world.client()
    lock = client.lock("a", ttl=0.9, on_lost=told.append, **limit)
    await lock.acquire()
    lease, begun, ends = lock.lease, now(), set()

    def gone() -> bool:
        ends.add(lease.deadline)
        return bool(told)

    await world.until(gone, "on_lost")
    if "max_renewals" in limit:
        assert len(ends) <= 1 + limit["max_renewals"]  # one may come and go between two looks
    else:
        assert max(ends) - begun <= 1.2
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert lost.value.reason == "max_hold"
    async with client.lock("a", timeout=5):
        pass
    with pytest.raises(LeaseLost):
        await lock.release()


async def test_a_fixed_lease_is_looked_at_once_its_client_listens(world):
    """I8: it was revoked before, and no renewal is to come that the server could refuse."""
    told = []
    lock = world.client().lock("a", ttl=30, renew=False, on_lost=told.append)
    await lock.acquire()
    assert await world.client().revoke("a", reason="maintenance") is not None
    await world.until(lambda: told, "on_lost")
    with pytest.raises(LeaseLost, match="revoked: maintenance"):
        lock.lease.check()


@BOTH_FORMS
@pytest.mark.parametrize(
    "ttl", [0.3, pytest.param(2.5, marks=[pytest.mark.slow, pytest.mark.no_quorum])]
)
async def test_a_fixed_lease_is_never_renewed(world, form, ttl):
    """``renew=False`` ends when it said, and says so in time; also once its client listens."""
    told = []
    lock = world.client().lock("a", ttl=ttl, renew=False, on_lost=told.append, **form)
    await lock.acquire()
    lease, end = lock.lease, lock.lease.deadline
    await world.until(lambda: told, "on_lost")
    assert lease.deadline == end
    with pytest.raises(LeaseLost) as lost:
        await lock.release()
    assert (lost.value.reason, lost.value.since) == ("expired", end)
    await world.until(lambda: world.holder("a") is None)


@pytest.mark.no_quorum  # each node's port has its own book
async def test_the_defaults_are_thirty_seconds_renewed_after_ten(world):
    """No ttl given is 30 s, looked after every 10 s; the client's default is an option."""
    client = world.client()
    async with client.lock("a") as lease:
        asked_at = lease.deadline - (30 - 0.3 - 0.002)
        port = (lease.inner if world.blocking else lease).port
        assert 8 < port.renewals.next_at() - asked_at < 10.1
        assert 29_000 < world.pttl("a") <= 30_000
    async with world.client(ttl=7).lock("a"):
        assert 6_000 < world.pttl("a") <= 7_000


@pytest.mark.one_server
async def test_a_renewal_that_gets_no_answer_is_tried_again(world):
    """A server that stands still for less than the ttl costs nothing."""
    told = []
    server = world.alone()
    lock = world.client().lock("a", ttl=1.5, on_lost=told.append)
    await lock.acquire()
    lease = lock.lease
    server.pause()
    await world.until(lambda: lease.remaining() < 0.7, "no renewal")
    server.resume()
    await renewed(world, lease)
    server.command("CLIENT", "KILL", "TYPE", "normal")
    await renewed(world, lease)
    await lock.release()
    assert told == []


@pytest.mark.one_server
async def test_a_lease_that_cannot_be_proved_is_told_before_it_can_be_granted(world):
    """I8: with a silent server the loss comes at the local deadline, before the server's."""
    told = []
    server = world.alone()
    client = world.client(server_timeout=1)
    lock = client.lock("a", ttl=0.6, on_lost=lambda _: told.append(now()))
    await lock.acquire()
    server.pause()
    await world.until(lambda: told, "on_lost")
    assert told[0] - lock.lease.deadline < 0.1 + machine_seconds()
    with pytest.raises(LeaseLost) as lost:
        await lock.release()
    assert lost.value.reason == "expired"
    server.resume()
    await world.until(lambda: world.holder("a") is None)


async def test_a_lost_lease_stays_lost(world):
    """I8: what was told stays true, also when the server would still renew."""
    lock = world.client().lock("a", ttl=0.3, renew=False)
    await lock.acquire()
    lease = lock.lease
    await world.until(lambda: lease.lost)
    world.server.command("SET", world.key("a"), lease.holder, "PX", 5_000)
    with pytest.raises(LeaseLost):
        await lease.renew()
    assert lease.lost
    with pytest.raises(LeaseLost):
        await lock.release()
    await world.until(lambda: world.holder("a") is None, "the late release gives it back")


@BOTH_FORMS
async def test_a_lease_is_renewed_by_hand(world, form):
    """``lease.renew`` takes a ttl of its own, or the usual one; not after the release."""
    async with world.client().lock("a", ttl=5, renew=False, **form) as lease:
        await lease.renew(20)
        assert world.pttl("a") > 18_000
        assert lease.remaining() > 18
        await lease.renew()
        assert world.pttl("a") > 15_000
        assert lease.remaining() > 15
        for bad in (0, -1, float("nan"), True, "x"):
            with pytest.raises((TypeError, ValueError)):
                await lease.renew(bad)
        assert lease.remaining() > 0
    with pytest.raises(NotHeld):
        await lease.renew()


@BOTH_FORMS
async def test_a_longer_lease_is_not_undone_by_renewal(world, form):
    """I2: what was asked for by hand lasts, whatever renewal by itself or a look does."""
    client = world.client()
    before, beside = len(world.connections()), client.lock("b", ttl=1.5)
    async with client.lock("a", ttl=1.5, **form) as lease, beside as short:
        await lease.renew(60)
        for _ in range(2):  # the client hears revocations by then, and has looked at all it holds
            await renewed(world, short)
        assert len(world.connections()) > before
        assert lease.remaining() > 55
        assert world.pttl("a") > 55_000


@BOTH_FORMS
@pytest.mark.parametrize("renew", [True, False])
async def test_a_renewal_for_less_than_is_left_changes_nothing(world, form, renew):
    """I15: a lease never ends earlier than was said; its usual renewal comes as ever."""
    async with world.client().lock("a", ttl=3, renew=renew, **form) as lease:
        before = lease.deadline
        await lease.renew(0.4)
        assert lease.deadline >= before
        assert world.pttl("a") > 2_000
        if renew:
            await world.until(lambda: lease.deadline > before + 0.5, "the usual renewal")


@BOTH_FORMS
async def test_renewal_by_hand_keeps_to_max_hold(world, form):
    """``max_hold`` bounds what the holder asks for too, and never makes a lease end earlier."""
    async with world.client().lock("a", ttl=1.5, max_hold=5, **form) as lease:
        begun = now()
        await lease.renew(60)
        assert 2 < lease.deadline - begun <= 5
        assert world.pttl("a") <= 5_000
        end = lease.deadline
        await lease.renew(60)
        assert lease.deadline > end - 0.05


@pytest.mark.parametrize(
    "kind",
    ["rlock", *(pytest.param(side, marks=pytest.mark.no_quorum) for side in ("read", "write"))],
)
async def test_to_enter_again_never_shortens(world, kind):
    """Entering again renews a fixed lease, and leaves one alone that lasts longer."""
    client = world.client()
    lock = client.rlock("a", ttl=5, renew=False)
    if kind != "rlock":
        more = {"reentrant": True} if kind == "write" else {}
        options = {f"{side}_ttl": 5 for side in ("read", "write")}
        lock = getattr(client.rwlock("a", renew=False, **options, **more), kind)
    async with lock as lease:
        await lease.renew(60)
        async with lock as again:
            assert again.fence == lease.fence
            assert lease.remaining() > 55


@pytest.mark.parametrize(
    "limits",
    [
        {"ttl": 8, "max_renewals": 0},
        {"ttl": 8, "max_renewals": 1},
        {"ttl": 300, "max_hold": 8},
        {"ttl": 8, "renew": False},
    ],
    ids=str,
)
async def test_a_handed_over_lease_with_limits_is_as_long_as_any(world, limits):
    """It starts short, as all do, and to grow is no renewal that a limit could count."""
    first, lock = world.client().lock("a"), world.client().lock("a", **limits)
    await first.acquire()
    job = world.start(lock.acquire())
    await world.in_line("a", 1)
    await first.release()
    assert await job.result() is True
    lease = lock.lease
    await world.until(lambda: lease.remaining() > 6, "its full length")
    assert 6_000 < world.pttl("a") <= 8_000
    await lock.release()


async def test_what_on_lost_raises_is_logged(world, caplog):
    """A callback that fails costs nobody else: the other leases are told all the same."""
    told = []

    def fails(_lease):
        raise ZeroDivisionError

    client = world.client()
    first = client.lock("a", ttl=0.3, renew=False, on_lost=fails)
    second = client.lock("b", ttl=0.3, renew=False, on_lost=told.append)
    await first.acquire()
    await second.acquire()
    await world.until(lambda: told and "ZeroDivisionError" in caplog.text)
    for lock in (first, second):
        with pytest.raises(LeaseLost):
            await lock.release()


@pytest.mark.parametrize("how", ["expired", "revoked"])
async def test_a_logger_that_raises_keeps_no_loss_from_its_holder(world, monkeypatch, capfd, how):
    """I16: nobody's filter stands between a loss and those who are to know of it."""

    def fails(_record):
        raise ZeroDivisionError

    monkeypatch.setattr(logging.getLogger("fencelock"), "filters", [fails])
    told, client = [], world.client()
    ttl = 0.3 if how == "expired" else 30
    locks = [client.lock(name, ttl=ttl, renew=False, on_lost=told.append) for name in "ab"]
    for name, lock in zip("ab", locks, strict=True):
        await lock.acquire()
        if how == "revoked":
            await client.revoke(name, reason="a test")
    await world.until(lambda: len(told) == 2)
    for lock in locks:
        with pytest.raises(LeaseLost):
            await lock.release()
    capfd.readouterr()  # the first of these errors is printed


async def test_a_coroutine_callback_is_awaited(world):
    """asyncio: ``on_lost`` may be a coroutine function."""
    if world.blocking:
        return
    told = []

    async def tell(lease):
        await world.tick()
        told.append(lease.fence)

    lock = world.client().lock("a", ttl=0.3, renew=False, on_lost=tell)
    await lock.acquire()
    fence = lock.lease.fence
    await world.until(lambda: told)
    assert told == [fence]
    with pytest.raises(LeaseLost):
        await lock.release()


@DROPS
@pytest.mark.refcounts
async def test_a_lease_whose_handle_is_gone_is_not_renewed(world):
    """As found: the nodes of a quorum renewed it for ever, and the log said that nothing did."""
    told = []
    lock = world.client().lock("a", ttl=0.5, on_lost=told.append)
    await lock.acquire()
    lease = lock.lease
    del lock
    gc.collect(1)
    await world.until(lambda: told and world.holder("a") is None)
    with pytest.raises(LeaseLost, match="its handle was dropped"):
        lease.check()
    assert [each.fence for each in told] == [lease.fence]


@DROPS
@pytest.mark.parametrize(
    ("ttl", "left"), [(12, 12), (6, 3.8)], ids=["before it listens", "after its renewal"]
)
@pytest.mark.refcounts
async def test_a_lease_whose_handle_is_gone_is_lost_once_it_is_revoked(world, caplog, ttl, left):
    """I8: as found, it was proved until its deadline, and others were granted the lock."""
    told, client = [], world.client()
    async with client.lock("b", ttl=6) as beside:  # as long as it holds, a client listens
        lock = client.lock("a", ttl=ttl, on_lost=told.append)
        await lock.acquire()
        lease = lock.lease
        del lock
        gc.collect(1)  # all objects may take a busy machine as long as the lease
        await world.until(lambda: lease.remaining() < left, "that much is left")
        await world.client().revoke("a", reason="a test")
        await world.until(lambda: lease.lost)
        with pytest.raises(LeaseLost, match="a test") as caught:
            lease.check()
        assert caught.value.reason == "revoked"
        await world.until(lambda: told)
        assert [each.fence for each in told] == [lease.fence]
        beside.check()
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [text for text in warned if "'a'" in text and "was dropped" not in text] == []


@DROPS
async def test_a_lease_whose_handle_is_gone_is_given_back_with_its_client(world):
    client = world.client()
    lock = client.lock("a", ttl=60)
    await lock.acquire()
    lease = lock.lease
    del lock
    gc.collect()
    await client.aclose(release=True)
    assert world.holder("a") is None
    with pytest.raises(LeaseLost, match="closed"):
        lease.check()
