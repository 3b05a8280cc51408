"""The client's option ``history``: what is kept on the server; locks are found without SCAN."""

import gc
import json
import time

import pytest

from fencelock import AcquireTimeout, Deadlock, History, LeaseLost
from fencelock._core import events
from fencelock._core.look.history import INDEX_NAMES, packed, parsed
from fencelock._core.look.overview import Overview
from fencelock._runtime.clock import now
from tests.conformance.world import SOON

pytestmark = [
    pytest.mark.filterwarnings("ignore:a handle of .* was dropped:ResourceWarning"),
]

KEEPING = History(threshold=0.01, length=100)


@pytest.fixture(autouse=True)
def hooks_are_left_as_they_were():
    yield
    gc.collect()
    assert events.hooks == ()


async def kept(world, client, number):
    """Return the entries, once there are so many."""
    deadline = now() + SOON
    while len(entries := await client.history()) < number:
        assert now() < deadline, f"{number} entries"
        await world.tick()
    return entries


def stream(world):
    return world.server.command("XRANGE", f"{world.prefix}~history", "-", "+")


@pytest.mark.parametrize("same", [True, False], ids=["of its client", "of another"])
async def test_whom_it_waited_for_is_kept(world, same):
    client, label = world.client(history=KEEPING), "ann"
    lock = (client if same else world.client()).lock("a", label=label)
    assert await lock.acquire()
    fence = lock.lease.fence
    waiting = world.start(client.lock("a", label="bob").acquire(timeout=0.2))
    assert not await waiting.result()
    await lock.release()
    await client.aclose()
    entries = await world.client().history("a")
    (entry,) = [each for each in entries if each.label == "bob"]  # the first wait may be long, too
    assert entry.behind.endswith("(ann)")
    assert (entry.kind, entry.name, entry.object) == ("wait", "a", "lock")
    assert entry.outcome == "timed_out"
    assert 0.1 < entry.seconds < SOON
    held_by = entry.held_by
    assert (held_by.label, held_by.fence, held_by.pid) == (label, fence, entry.pid)
    assert held_by.unit
    assert 0.1 < held_by.held_for < SOON
    assert entry.first_held_by is None, "it was the same"


@pytest.mark.one_server
async def test_those_who_had_it_in_the_first_and_in_the_last_answer_are_kept(world):
    client = world.client(history=KEEPING, label="bob")
    first, second = world.client().lock("a", label="ann"), world.client().lock("a", label="cid")
    assert await first.acquire()
    waits = world.start(second.acquire())
    await world.in_line("a", 1)
    waiting = world.start(client.lock("a", timeout=0.5).__aenter__())
    await world.in_line("a", 2)
    await first.release()
    assert await waits.result()
    with pytest.raises(AcquireTimeout) as late:
        await waiting.result()
    assert late.value.held_by.label == "cid"
    await client.aclose()
    (entry,) = await world.client().history("a")
    assert (entry.first_held_by.label, entry.held_by.label) == ("ann", "cid")


@pytest.mark.one_server
async def test_a_waiter_behind_one_of_its_client_that_waits_itself_waited_for_the_holder(world):
    """Not for the one that stands in line for both."""
    client = world.client(history=KEEPING)
    lock = world.client().lock("a", label="ann")
    assert await lock.acquire()
    front = world.start(client.lock("a", label="cid").acquire())
    await world.in_line("a", 1)
    assert not await client.lock("a", label="bob").acquire(timeout=0.1)
    await lock.release()
    assert await front.result()
    await client.aclose()
    entries = await world.client().history("a")
    waits = {each.label: each.held_by.label for each in entries if each.kind == "wait"}
    assert waits == {"bob": "ann", "cid": "ann"}


async def test_a_short_wait_is_not_kept(world):
    client = world.client(history=History(threshold=60))
    async with client.lock("a"):
        assert not await client.lock("a").acquire(timeout=0.02)
    await client.aclose()
    assert await world.client().history() == []


async def test_a_revocation_is_kept_by_its_holder_and_by_its_operator(world):
    client, operator = world.client(history=True), world.client()
    lock = client.lock("a", label="ann")
    assert await lock.acquire()
    lease = lock.lease
    old, at = packed({"kind": "wait", "name": "a"}), int(time.time()) - 90
    world.server.command("XADD", f"{world.prefix}~history", f"{at}000-0", "entry", old)
    world.server.command("PEXPIRE", f"{world.prefix}~history", 10**10)  # others keep it longer
    await operator.revoke("a", reason="too slow", by="bob")
    await world.until(lambda: lease.lost, "the loss")
    entries = await kept(world, client, 3)
    assert world.server.command("PTTL", f"{world.prefix}~history") > 10**10 - 10**6
    by_kind = {entry.kind: entry for entry in entries}
    assert (by_kind["lost"].reason, by_kind["lost"].detail) == ("revoked", "too slow")
    revoked = by_kind["revoked"]
    assert (revoked.reason, revoked.by, revoked.label) == ("too slow", "bob", "ann")
    assert await client.history("b") == []
    assert {each.kind for each in await client.history("a", within=60)} == {"lost", "revoked"}
    assert len(await client.history(limit=1)) == 1
    with pytest.raises(LeaseLost):
        lease.check()
    await client.aclose()


async def test_closing_sends_what_is_left(world):
    client = world.client(history=KEEPING)
    other = world.client()
    lock = other.lock("a")
    assert await lock.acquire()
    assert not await client.lock("a").acquire(timeout=0.03)
    await client.aclose()
    (entry,) = await other.history()
    assert (entry.name, entry.outcome) == ("a", "timed_out")
    await lock.release()


@pytest.mark.one_play  # a second play has hooks
async def test_without_the_option_nothing_is_kept_and_no_hook_is_there(world):
    client = world.client()
    assert events.hooks == ()
    async with client.lock("a"):
        assert not await client.lock("a").acquire(timeout=0.02)
    assert await client.history() == []
    assert await world.refreshed(client, Overview(scan_every=None)) == []


@pytest.mark.one_server
async def test_many_entries_are_few_commands(world):
    client = world.client(history=History(threshold=0))
    await client.history()
    with world.commands() as sent:
        for number in range(50):
            async with client.lock(f"a{number}"):
                pass
        await client.aclose()
    assert len(stream(world)) == 50
    assert sent["xadd"] == 50
    assert sent.calls["add_history"] < 40, sent.calls  # what one second brought goes together


@pytest.mark.one_server
async def test_an_entry_that_came_twice_is_shown_once(world):
    client = world.client(history=KEEPING)
    async with world.client().lock("a"):
        for waits in (client, world.client()):
            assert not await waits.lock("a").acquire(timeout=0.03)
    await client.aclose()
    ((_, fields),) = stream(world)
    assert json.loads(fields[1])["ago"] >= 0.02
    world.server.command("XADD", f"{world.prefix}~history", "*", *fields)
    world.server.command("XADD", f"{world.prefix}~history", "*", "entry", "not JSON")
    assert len(await world.client().history()) == 1


@pytest.mark.one_server
async def test_an_overview_finds_noted_locks_without_a_scan(world):
    client, other = world.client(history=True), world.client()
    holder = other.lock("held")
    assert await holder.acquire()
    overview = Overview(scan_every=None)
    assert await world.refreshed(other, overview) == []
    assert not await client.lock("held").acquire(timeout=0.03)
    await client.aclose()
    await other.status("held")  # from then on the server knows the script
    with world.commands() as sent:
        (status,) = await world.refreshed(other, overview)
    assert (status.name, status.held) == ("held", True)
    assert (sent.scripts, sent["scan"], sent["zrevrangebyscore"]) == (1, 0, 1)
    await holder.release()
    assert await world.refreshed(other, overview) == []


async def test_an_overview_finds_the_locks_of_other_clients_by_a_scan(world):
    client = world.client()
    overview = Overview("a:*")
    lock = client.lock("a:1")
    assert await lock.acquire()
    assert await client.lock("b:1").acquire()
    assert [each.name for each in await world.refreshed(client, overview)] == ["a:1"]
    await lock.release()
    assert await world.refreshed(client, overview) == []


@pytest.mark.one_server
async def test_the_index_is_bounded_and_what_is_no_name_is_left_out(world):
    index = f"{world.prefix}~index"
    world.server.command(
        "ZADD", index, *[word for n in range(INDEX_NAMES + 50) for word in (n, f"n{n}")]
    )
    world.server.command("ZADD", index, 10**15, "x~record")
    world.server.command("PEXPIRE", index, 60_000)
    client, other = world.client(history=True), world.client()
    holder = other.lock("held")
    assert await holder.acquire()
    assert not await client.lock("held").acquire(timeout=0.03)
    await client.aclose()
    assert world.server.command("ZCARD", index) == INDEX_NAMES
    (status,) = await world.refreshed(other, Overview(scan_every=None))
    assert status.name == "held"
    await holder.release()


def test_what_another_program_wrote_is_left_out():
    assert parsed([(b"1-0", [b"entry", b"[]"]), (b"1-0", [b"x"]), (b"1-0", [b"entry", b"{"])]) == []


@pytest.mark.one_server
async def test_options_that_cannot_work_are_refused(world):
    with pytest.raises(TypeError, match="history must be"):
        world.client(history=3)
    with pytest.raises(ValueError, match="length"):
        History(length=5)
    client = world.client()
    for error, attempt in (
        (ValueError, lambda: client.history("")),
        (ValueError, lambda: client.history(limit=0)),
        (ValueError, lambda: client.history(within=-1)),
    ):
        with pytest.raises(error):
            await attempt()


@pytest.mark.no_quorum
async def test_a_deadlock_is_kept_with_its_cycle(world):
    client, held = world.client(history=True, deadlock_after=0.3), []

    async def take(first, second):
        async with client.lock(first):
            held.append(first)
            await world.until(lambda: len(held) == 2)
            async with client.lock(second):
                pass

    jobs = [world.start(take("a", "b")), world.start(take("b", "a"))]
    refused = 0
    for job in jobs:
        try:
            await job.result()
        except Deadlock:
            refused += 1
    assert refused == 1
    await client.aclose()
    entries = await world.client().history()
    (entry,) = [each for each in entries if each.kind == "deadlock"]
    assert entry.name in {"a", "b"}
    assert "waits for 'a'" in entry.detail
    assert "waits for 'b'" in entry.detail


def test_waits_that_older_builds_kept_are_waits():
    (entry,) = parsed([(b"1-0", [b"entry", b'{"kind":"contention","name":"a"}'])])
    assert (entry.kind, entry.name) == ("wait", "a")
