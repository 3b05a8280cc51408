"""``election``: one of many leads, everybody can see who, and it can be handed over."""

import asyncio
import os
import socket

import pytest

from fencelock import AcquireTimeout, FencelockError, LeaseLost, NotAcquired, NotHeld
from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.keys import ELECTION_KINDS, derived
from fencelock._runtime.clock import now
from fencelock.scripts.layout import written
from tests.conformance.world import needs_no_server
from tests.waiting import machine_seconds

pytestmark = pytest.mark.no_quorum  # a quorum has none: see options.py


async def elected(world, name="e", candidate="ann", **options):
    """Return a leader."""
    election = world.client().election(name, candidate=candidate, **options)
    assert await election.campaign(blocking=False)
    return election


async def in_line(world, *names, **options):
    """Return candidates that wait, with what becomes of their campaigns."""
    waiting = []
    for number, candidate in enumerate(names, 1):
        election = world.client().election("e", candidate=candidate, **options)
        waiting.append((election, world.start(election.campaign())))
        await world.in_line("e", number)
    return waiting


async def test_one_leads_and_the_next_is_elected_when_it_resigns(world):
    ann = await elected(world)
    (bob, bobs), (eve, eves) = await in_line(world, "bob", "eve")
    assert (ann.is_leader, bob.is_leader) == (True, False)
    assert await ann.candidates() == ["bob", "eve"]
    assert ann.lease.fence > 0
    await ann.resign()
    assert await bobs.result()
    assert [each.is_leader for each in (ann, bob, eve)] == [False, True, False]
    assert bob.lease.fence > 0
    await bob.resign()
    assert await eves.result()
    await eve.resign()
    assert world.holder("e") is None


async def test_who_leads_is_known_to_all(world):
    watcher = world.client().election("e")
    assert await watcher.leader() is None
    ann = await elected(world)
    seen = await watcher.leader()
    assert (seen.candidate, seen.fence, seen.pid) == ("ann", ann.lease.fence, os.getpid())
    assert seen.since == pytest.approx(seen.fence / 1e6)
    assert watcher.candidate == f"{socket.gethostname()[:100]}:{os.getpid()}"
    await ann.resign()
    assert await watcher.leader() is None


async def test_a_lock_of_that_name_is_a_leader_without_a_name(world):
    watcher = world.client().election("e")
    async with world.client().lock("e") as lease:
        seen = await watcher.leader()
        assert seen.candidate == f"{seen.host}:{seen.pid}"
        assert seen.fence == lease.fence
    world.server.command("SET", world.key("e"), "foreign", "PX", 20_000)
    assert (await watcher.leader()).candidate == ""


async def test_a_campaign_gives_up_in_time(world):
    await_ann = await elected(world)
    bob = world.client().election("e", candidate="bob", timeout=0.1)
    assert await bob.campaign(blocking=False) is False
    assert await bob.campaign(timeout=0.05) is False
    with pytest.raises(AcquireTimeout):
        await bob.__aenter__()
    assert await bob.candidates() == []
    with pytest.raises(NotHeld):
        await bob.resign()
    await await_ann.resign()


async def test_a_leader_that_campaigns_leads_on(world):
    ann = await elected(world)
    with world.commands() as sent:
        assert await ann.campaign()
    assert sent["time"] == 0  # nothing was asked for; the announcement may still be on its way
    await ann.resign()


async def test_a_candidate_campaigns_once_at_a_time(world):
    ann = await elected(world)
    ((bob, bobs),) = await in_line(world, "bob")
    with pytest.raises(NotAcquired, match="'bob' campaigns for 'e' already"):
        await bob.campaign()
    await ann.resign()
    assert await bobs.result()
    await bob.resign()


async def test_with_campaigns_and_resigns(world):
    election = world.client().election("e", candidate="ann")
    async with election as lease:
        assert election.is_leader
        assert world.holder("e") == lease.holder
    assert not election.is_leader
    assert world.holder("e") is None


# --- several who rely on one candidate ------------------------------------------------------------


def staying(world, election, number):
    """Return jobs with a body each, in the order in which they began, and what ends each."""
    ended, inside, jobs = set(), [], []

    async def stays(me):
        async with election as lease:
            inside.append(lease)
            await world.until(lambda: me in ended or lease.lost, "the end of the body", 20)
            if me not in ended:
                lease.check()

    async def begin():
        for me in range(number):
            jobs.append(world.start(stays(me)))
            await world.until(lambda: len(inside) == me + 1, "it is inside")  # noqa: B023 - at once
        return jobs, inside, ended.add

    return begin()


async def test_a_leadership_lasts_until_the_last_body_has_ended(world):
    ann = world.client().election("e", candidate="ann")
    jobs, leases, end = await staying(world, ann, 3)
    assert len({lease.fence for lease in leases}) == 1
    for me in (1, 0):
        end(me)
        await jobs[me].result()
        assert ann.is_leader
        leases[2].check()
        assert world.holder("e")
    end(2)
    await jobs[2].result()
    assert not ann.is_leader
    assert world.holder("e") is None


async def test_a_body_does_not_end_what_another_campaigned_for(world):
    ann = await elected(world)
    jobs, _, end = await staying(world, ann, 1)
    end(0)
    await jobs[0].result()
    assert ann.is_leader
    async with ann:  # in the thread or task that campaigned
        pass
    assert not ann.is_leader
    assert world.holder("e") is None


async def test_who_resigns_ends_it_for_all_bodies_and_they_end_nothing_later(world):
    ann = await elected(world)
    jobs, leases, end = await staying(world, ann, 2)
    await ann.resign()
    for lease in leases:
        with pytest.raises(NotHeld):
            lease.check()
    assert await ann.campaign()
    fence = ann.lease.fence
    for me in (0, 1):
        end(me)
        await jobs[me].result()
    assert ann.is_leader
    assert ann.lease.fence == fence
    await ann.resign()


async def test_a_hand_over_ends_all_bodies_quietly(world):
    ann = world.client().election("e", candidate="ann")
    jobs, _, end = await staying(world, ann, 2)
    ((bob, bobs),) = await in_line(world, "bob")
    await ann.hand_over("bob")
    assert await bobs.result()
    for me in (0, 1):
        end(me)
        await jobs[me].result()
    assert bob.is_leader
    await bob.resign()


async def test_every_body_hears_of_a_loss(world):
    ann = world.client().election("e", candidate="ann", ttl=0.4)
    jobs, _, _ = await staying(world, ann, 2)
    world.server.command("SET", world.key("e"), "another", "PX", 20_000)
    for job in jobs:
        with pytest.raises(LeaseLost):
            await job.result()
    assert world.holder("e") == "another"


async def test_a_body_hears_of_its_loss_though_the_candidate_leads_again(world):
    told = []
    ann = world.client().election("e", candidate="ann", ttl=0.4, on_lost=told.append)
    with pytest.raises(LeaseLost) as lost:  # noqa: PT012 - the end of the block raises
        async with ann as lease:
            world.server.command("DEL", world.key("e"))
            await world.until(lambda: not ann.is_leader, "the loss")
            await world.start(again(ann)).result()
            assert ann.is_leader
    await world.until(lambda: told, "on_lost")
    assert [each.fence for each in told] == [lost.value.fence] == [lease.fence]
    assert ann.is_leader
    await ann.resign()


async def again(election):
    assert await election.campaign()


async def test_a_loss_cancels_every_body(world):
    if world.blocking:
        return
    ann = world.client().election("e", candidate="ann", ttl=0.4, on_lost="cancel")
    inside = []

    async def stays():
        async with ann as lease:
            inside.append(lease)
            await asyncio.get_running_loop().create_future()

    jobs = []
    for number in (1, 2):
        jobs.append(world.start(stays()))
        await world.until(lambda: len(inside) == number, "it is inside")  # noqa: B023 - at once
    world.server.command("DEL", world.key("e"))
    for job in jobs:
        with pytest.raises(LeaseLost):
            await job.result()


# --- handing over ---------------------------------------------------------------------------------


@pytest.mark.one_server  # counts commands: in a Cluster who waited long asks again
async def test_a_leader_hands_over_to_whom_it_names(world):
    ann = await elected(world)
    (bob, bobs), (eve, eves), (kim, kims) = await in_line(world, "bob", "eve", "kim")
    with world.commands() as sent:
        await ann.hand_over("kim")
        assert await kims.result()
    assert (ann.is_leader, kim.is_leader) == (False, True)
    assert ann.lease is None
    assert sent.scripts <= 3  # the hand-over, and what kim announces; a look at most
    assert await kim.candidates() == ["bob", "eve"]
    await kim.resign()
    assert await bobs.result()
    await bob.hand_over("eve")
    assert await eves.result()
    await eve.resign()


async def test_a_hand_over_to_nobody_is_an_error_and_the_leader_leads_on(world):
    ann = await elected(world, ttl=1.5)
    ((bob, bobs),) = await in_line(world, "bob")
    with pytest.raises(LookupError, match="'eve' is not waiting to be elected to 'e'"):
        await ann.hand_over("eve")
    with pytest.raises(LookupError):
        await ann.hand_over('b"ob')
    assert ann.is_leader
    end = ann.lease.deadline
    await world.until(lambda: ann.lease.deadline > end, "a renewal")
    await ann.hand_over("bob")
    assert await bobs.result()
    await bob.resign()


def stand_silently(world, candidate):
    """Put a candidate in line that does not listen: gone, or about to come back."""
    terms = {"ttl": b"30000", "handoff_ttl": b"2000", "owned": b"0", "client": b"nobody:1"}
    place = {"waiter": b"dead", "holder": b"dead", "channel": b"nobody:1.1"}
    entry = written("entry", **place, **terms, info=b'{"candidate":"%b"}' % candidate.encode())
    now = world.server.command("TIME")
    queue = world.keys("e").grant[2]
    world.server.command("ZADD", queue, f"{now[0]}{now[1]:0>6}", entry)
    world.server.command("PEXPIRE", queue, 20_000)


@pytest.mark.slow  # it may be coming back, for three seconds
async def test_a_candidate_that_is_gone_is_given_up_and_taken_out_of_the_line(world):
    ann = await elected(world)
    stand_silently(world, "bob")
    with pytest.raises(LookupError):
        await ann.hand_over("bob")
    assert ann.is_leader
    assert await ann.candidates() == []
    await ann.resign()


async def test_a_candidate_whose_connection_was_lost_a_moment_ago_is_waited_for(world):
    """As in a failover: its place is there, and it does not listen yet."""
    ann = await elected(world)
    stand_silently(world, "bob")
    job = world.start(ann.hand_over("bob"))
    bob = world.client().election("e", candidate="bob")
    assert await bob.campaign()
    await job.result()
    assert (ann.is_leader, bob.is_leader) == (False, True)
    await bob.resign()


async def test_only_a_leader_hands_over(world):
    """A key that was removed under it was not taken by anybody."""
    ann = world.client().election("e", candidate="ann")
    with pytest.raises(NotHeld):
        await ann.hand_over("bob")
    for word, *more, reason in (["DEL", "expired"], ["SET", "another", "PX", 20_000, "taken"]):
        assert await ann.campaign()
        world.server.command(word, world.key("e"), *more)
        with pytest.raises(LeaseLost) as lost:
            await ann.hand_over("bob")
        assert lost.value.reason == reason
        assert not ann.is_leader


@pytest.mark.one_server
async def test_a_hand_over_ends_with_the_lease(world):
    server = world.alone()
    ann = world.client(server_timeout=600).election("e", candidate="ann", ttl=1)
    assert await ann.campaign()
    server.pause()
    with pytest.raises(FencelockError):
        await ann.hand_over("bob")
    server.resume()


async def test_the_end_of_a_with_whose_leadership_was_handed_over_is_quiet(world):
    ann = world.client().election("e", candidate="ann")
    async with ann:
        ((bob, bobs),) = await in_line(world, "bob")
        await ann.hand_over("bob")
        assert await bobs.result()
    assert bob.is_leader
    await bob.resign()


# --- losing it ------------------------------------------------------------------------------------


async def test_callbacks_tell_of_the_election_and_not_of_a_resignation(world):
    told = []
    ann = world.client().election(
        "e",
        candidate="ann",
        on_elected=lambda lease: told.append(("elected", lease.fence)),
        on_lost=lambda lease: told.append(("lost", lease.fence)),
    )
    await ann.campaign()
    fence = ann.lease.fence
    await ann.resign()
    assert told == [("elected", fence)]


async def test_a_callback_that_raises_resigns(world):
    def fails(lease):
        raise ZeroDivisionError

    ann = world.client().election("e", on_elected=fails)
    with pytest.raises(ZeroDivisionError):
        await ann.campaign()
    assert not ann.is_leader
    assert world.holder("e") is None


# --- watching -------------------------------------------------------------------------------------


async def test_changes_are_told_as_they_come(world):
    """As found: threads learned of a change only when they looked again, after a heartbeat."""
    seen, began = [], now()

    async def watches():
        async for leader in world.client().election("e").changes():
            seen.append(leader and leader.candidate)
            if len(seen) == 5:
                return

    job = world.start(watches())
    await world.until(lambda: seen == [None], "the first look")
    ann = await elected(world)
    await world.until(lambda: seen == [None, "ann"], "ann")
    ((bob, bobs),) = await in_line(world, "bob")
    await ann.hand_over("bob")
    assert await bobs.result()
    await world.until(lambda: seen == [None, "ann", "bob"], "bob")
    await bob.resign()
    await world.until(lambda: seen == [None, "ann", "bob", None], "nobody")
    assert await ann.campaign()
    await job.result()
    assert seen == [None, "ann", "bob", None, "ann"]
    assert now() - began < 3 * HEARTBEAT_SECONDS + machine_seconds(), (
        "not by looking again each time"
    )
    await ann.resign()


async def test_a_change_that_nobody_announced_is_found_when_the_lease_ends(world, monkeypatch):
    monkeypatch.setattr("fencelock._core.objects.election.HEARTBEAT_SECONDS", 600.0)
    world.server.command("SET", world.key("e"), "another program", "PX", 500)
    seen = []
    async for leader in world.client().election("e").changes(timeout=8):
        seen.append(leader and leader.candidate)
        if leader is None:
            break
    assert seen == ["", None]


async def test_changes_end_when_nothing_changes_and_who_watched_is_forgotten(world):
    ann = await elected(world)
    watcher = world.client().election("e")
    seen = [leader.candidate async for leader in watcher.changes(timeout=0.1)]
    assert seen == ["ann"]
    (key,) = derived(world.prefix.encode(), world.key("e").encode(), ELECTION_KINDS)
    assert world.server.command("ZCARD", key) == 1
    assert 0 < world.server.command("PTTL", key) <= 60_000
    await ann.resign()


# --- what cannot be -------------------------------------------------------------------------------


@needs_no_server
@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"candidate": ""}, ValueError, "candidate must not be empty"),
        ({"candidate": "x" * 129}, ValueError, "at most 128 bytes"),
        ({"candidate": "a\nb"}, ValueError, "candidate must be printable"),
        ({"candidate": 7}, TypeError, "candidate must be str"),
        ({"on_elected": 7}, TypeError, "on_elected must be"),
        ({"ttl": 0}, ValueError, "ttl must be"),
    ],
)
async def test_an_option_that_cannot_work_is_refused(world, options, error, complaint):
    with pytest.raises(error, match=complaint):
        world.client().election("e", **options)
