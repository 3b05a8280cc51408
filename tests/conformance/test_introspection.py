"""``locks``, ``status``, ``revoke`` and ``signals`` of a client, as another client sees it."""

import os
import socket
import time

import pytest

from fencelock import LeaseLost, ServerUnsuitable
from fencelock._core.look import show
from fencelock._handles import handle
from fencelock._runtime.clock import now

pytestmark = pytest.mark.filterwarnings("ignore:a handle of .* was dropped:ResourceWarning")

HERE = (socket.gethostname()[:64], os.getpid())
ROUNDED = 0.01  # the server's clocks are read at other instants than ours


async def later(world):
    """Wait until a request and its grant can be told apart; return the instant."""
    began = now()
    await world.until(lambda: now() - began > 3 * ROUNDED)
    return now()


async def waiting(world, name, number):
    await world.until(lambda: world.waiting(name) == number, f"{number} in line")


@pytest.mark.parametrize("host", ["vm", "web-1.eu-west-7"])
async def test_the_holder_and_the_line_are_seen_from_elsewhere(world, monkeypatch, host):
    world.strict = True
    monkeypatch.setattr(handle, "_HOST", host)
    monkeypatch.setattr(handle, "_described", handle._described.__wrapped__)  # it remembers texts
    here = (host, os.getpid())
    ann, bob, eve = (world.client(label=label) for label in ("ann", "bob", "eve"))
    lock = ann.lock("a", ttl=20)
    assert await lock.acquire()
    jobs = []
    for place, client in enumerate((bob, eve), 1):
        jobs.append(world.start(client.lock("a").acquire()))
        await waiting(world, "a", place)

    status = await eve.status("a")

    assert (status.name, status.kind, status.held, status.waiting) == ("a", "lock", True, 2)
    assert (status.foreign, status.kept, status.full, status.active) == (False, False, True, True)
    assert status.holder.process == here
    assert (status.holder.label, status.holder.called) == ("ann", "ann")
    assert status.fence == status.holder.fence == lock.lease.fence
    assert 15 < status.remaining <= 20
    assert status.remaining == status.holder.remaining
    assert abs(status.holder.since - time.time()) < 60
    assert 0 <= status.holder.held_for < 60
    assert [(each.place, each.label) for each in status.waiters] == [(1, "bob"), (2, "eve")]
    assert status.waiters[0].waited >= status.waiters[1].waited >= 0
    assert status.waiters[0].process == here
    released = await later(world)
    await lock.release()
    for job, client in zip(jobs, (bob, eve), strict=True):
        assert await job.result()
        status = await ann.status("a")
        assert status.holder.label == ("bob" if client is bob else "eve")
        assert status.holder.held_for <= now() - released + ROUNDED, "not since it asked"
        released = await later(world)
        await ann.revoke("a", reason="go on")


async def test_a_free_lock_has_no_holder(world):
    status = await world.client().status("a")
    assert (status.held, status.holder, status.holding) == (False, None, 0)
    assert (status.remaining, status.fence, status.active) == (None, 0, False)


async def test_as_many_waiters_are_listed_as_are_asked_for(world):
    world.strict = True
    client = world.client()
    lock = client.lock("a")
    assert await lock.acquire()
    jobs, kept = [], []
    for place in (1, 2, 3):
        kept.append(world.client().lock("a"))  # a lease whose handle is gone ends by itself
        jobs.append(world.start(kept[-1].acquire()))
        await waiting(world, "a", place)
    for most in (0, 2, 9):
        status = await client.status("a", waiters=most)
        assert (status.waiting, len(status.waiters)) == (3, min(most, 3))
        assert status.holder.process == HERE
    for ended in (1, 2, 3):  # on a quorum in any order: each node grants as its lease is taken
        await client.revoke("a", reason="test")
        await world.until(lambda ended=ended: sum(job.done for job in jobs) == ended)
    assert [await job.result() for job in jobs] == [True, True, True]


@pytest.mark.one_server
async def test_a_lock_of_another_program_has_an_unknown_holder(world):
    client = world.client()
    world.server.command("SET", world.key("a"), "theirs", "PX", 50_000)
    status = await client.status("a")
    assert (status.held, status.foreign, status.holder) == (True, True, None)
    assert 40 < status.remaining <= 50
    assert [each.name for each in await client.locks()] == []
    assert [each.foreign for each in await client.locks(names=["a"])] == [True]


async def test_locks_are_those_in_use_that_match_sorted_by_name(world):
    client = world.client()
    for name in ("b:2", "b:1", "c"):
        assert await client.lock(name).acquire()
    released = client.lock("b:3")
    assert await released.acquire()
    await released.release()
    assert [each.name for each in await client.locks()] == ["b:1", "b:2", "c"]
    assert [each.name for each in await client.locks("b:*")] == ["b:1", "b:2"]
    assert [each.name for each in await client.locks("b:*", recent=True)] == ["b:1", "b:2", "b:3"]
    assert await client.locks("no*") == []


async def test_named_locks_come_in_the_order_that_was_asked_for_and_in_any_state(world):
    client = world.client()
    assert await client.lock("b").acquire()
    shown = await client.locks(names=["z", "b", "a"])
    assert [(each.name, each.held) for each in shown] == [("z", False), ("b", True), ("a", False)]
    assert await client.locks(names=[]) == []
    mixed = ["{t}1", "b", "{t}2"]  # in a Cluster the first and the last share a slot
    shown = await client.locks(names=mixed)
    assert [(each.name, each.held) for each in shown] == [(name, name == "b") for name in mixed]


@pytest.mark.one_server
async def test_many_named_locks_are_one_command(world, monkeypatch):
    monkeypatch.setattr(show, "NAMES_MAX", 40)
    client = world.client()
    names = [f"n{number}" for number in range(100)]
    for name in names[::10]:
        assert await client.lock(name).acquire()
    await client.status("n0")  # the script is loaded
    with world.commands() as sent:
        shown = await client.locks(names=names)
    assert [each.name for each in shown if each.held] == names[::10]
    assert sent.scripts == 3
    assert sent["scan"] == 0


@pytest.mark.one_server
@pytest.mark.refcounts
async def test_a_semaphore_and_a_reader_writer_lock_are_shown_with_their_permits(world):
    client, other = world.client(label="ann"), world.client(label="bob")
    semaphore = client.semaphore("s", 5)
    assert await semaphore.acquire(permits=2)
    assert await other.semaphore("s", 5).acquire()
    sides = client.rwlock("w")
    assert await sides.read.acquire()
    writer = world.start(other.rwlock("w").write.acquire())
    await waiting(world, "w", 1)

    permits, sided = await client.locks()

    assert (permits.kind, permits.limit, permits.taken, permits.holding) == ("semaphore", 5, 3, 2)
    # In the order of their ends, which a renewal changes.
    assert {(each.label, each.permits) for each in permits.holders} == {("ann", 2), ("bob", 1)}
    assert not permits.full
    assert (sided.kind, sided.holding, sided.writing, sided.waiting) == ("rwlock", 1, False, 1)
    assert sided.waiters[0].permits == sided.limit
    await sides.read.release()
    assert await writer.result()
    assert (await client.status("w")).writing


async def test_a_revoked_lock_is_told_why_and_granted_to_the_next(world):
    client, other = world.client(label="ann"), world.client()
    lock = client.lock("a")
    assert await lock.acquire()
    lease = lock.lease
    assert await other.revoke("a", reason=" too slow ", only=("elsewhere", 1)) is None
    before = await other.revoke(
        "a", reason=" too slow ", only=(await other.status("a")).holder.process
    )
    assert (before.held, before.holder.label) == (True, "ann")
    await world.until(lambda: lease.lost, "the loss")
    with pytest.raises(LeaseLost, match="too slow") as lost:
        lease.check()
    assert (lost.value.reason, lost.value.detail) == ("revoked", "too slow")
    assert await other.revoke("a", reason="again") is None
    assert await other.lock("a").acquire(timeout=5)


@pytest.mark.one_server
async def test_permits_of_one_process_are_revoked(world):
    client = world.client()
    assert await client.semaphore("s", 3).acquire()
    assert await client.revoke("s", reason="test", only=("elsewhere", 1)) is None
    before = await client.revoke("s", reason="test", only=HERE)
    assert (before.taken, before.holder.process) == (1, HERE)
    assert (await client.status("s")).taken == 0


@pytest.mark.one_server
async def test_events_latches_and_barriers_are_signals(world):
    client = world.client()
    await client.event("e").set()
    await client.latch("l", 3).count_down()
    assert await client.lock("a").acquire()
    event, latch = await client.signals()
    assert (event.name, event.kind, event.state, event.doing) == ("e", "event", "set", "set")
    assert (latch.name, latch.left, latch.of) == ("l", 2, 3)
    assert [each.name for each in await client.signals("l*")] == ["l"]
    assert [each.name for each in await client.signals(names=["a", "l", "none"])] == ["l"]
    assert (await client.status("e")).kind == "other"
    with pytest.raises(ServerUnsuitable):
        await client.revoke("e", reason="test")


@pytest.mark.one_server
async def test_arguments_that_cannot_work_are_refused_before_anything_is_sent(world):
    client = world.client()
    with world.commands() as sent:
        for error, attempt in (
            (ValueError, lambda: client.status("")),
            (ValueError, lambda: client.status("a", waiters=-1)),
            (TypeError, lambda: client.locks(names="a")),
            (TypeError, lambda: client.locks(names=[1])),
            (ValueError, lambda: client.locks("a*", names=["a"])),
            (ValueError, lambda: client.locks("")),
            (ValueError, lambda: client.revoke("a", reason="  ")),
            (TypeError, lambda: client.revoke("a", reason=7)),
            (TypeError, lambda: client.revoke("a", reason="x", only="web:1")),
            (TypeError, lambda: client.revoke("a", reason="x", only=("web", "1"))),
        ):
            with pytest.raises(error):
                await attempt()
    assert sent.scripts == 0
