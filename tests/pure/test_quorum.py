"""How a quorum counts, and who may vote after a restart: decided without a server or a clock."""

import asyncio
import threading
from contextlib import nullcontext
from itertools import chain, permutations, repeat
from math import inf
from types import SimpleNamespace

import pytest

from fencelock import AsyncClient, Client, OutcomeUnknown, ServerDenied, ServerUnreachable
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.quorum import acquire as flow
from fencelock._core.quorum.acquire import QuorumAttempt
from fencelock._core.quorum.broadcast import Ballot, Ballots
from fencelock._core.quorum.lease import Majority, end_node_leases, hand_back
from fencelock._core.quorum.membership import (
    SUSPECT_SECONDS,
    Membership,
    decided,
    majority,
    order,
    proved_until,
    run_id_of,
)
from fencelock._core.types import NoReply, closed
from fencelock._io.port_quorum_asyncio import AioQuorum
from fencelock._io.port_quorum_blocking import BlockingQuorum, _IdentifiedPool
from fencelock._io.sources import resolve
from fencelock._runtime import process
from fencelock._runtime.clock import now
from fencelock.options import LeaseOptions
from fencelock.scripts import MEMBERSHIP
from tests.pure.made import held

URLS = ["redis://a:1/0", "redis://b:1/0", "redis://c:1/0"]
TTL = 30.0
NOW = 1000.0


@pytest.mark.parametrize("nodes", range(3, 10))
def test_two_majorities_have_a_node_in_common(nodes):
    """And one fewer would not."""
    assert 2 * majority(nodes) > nodes
    assert 2 * (majority(nodes) - 1) <= nodes


def test_everybody_asks_in_the_same_order():
    """However the lists are ordered; and not the same node first for every lock."""
    firsts = set()
    for key in (b"lock %d" % number for number in range(50)):
        orders = {
            tuple(labels[number] for number in order(key, labels)) for labels in permutations(URLS)
        }
        assert len(orders) == 1
        firsts.add(orders.pop()[0])
    assert firsts == set(URLS)


def test_the_lease_is_what_a_majority_proves():
    assert proved_until([5.0, 1.0, 9.0, 3.0, 7.0], 3) == 5.0
    assert proved_until([5.0, 9.0], 3) == -inf
    assert decided(3, 2, 3)
    assert decided(1, 1, 3)
    assert not decided(2, 1, 3)


def met(nodes, *, heard=None, rosters=()):
    """Return the membership of a client that met its nodes, at 100 s on its clock."""
    membership = Membership(nodes)
    for number in range(nodes):
        membership.saw(number, b"run%d" % number, 100.0)
    for number in range(nodes) if heard is None else heard:
        membership.read(number, TTL, rosters, 100.0)
    membership.longest = max(membership.longest, TTL)
    membership.judge()
    return membership


def may(membership, now=100.0):
    return [node for node in range(membership.nodes) if membership.eligible(node, now)]


def test_new_nodes_vote_at_once_when_so_many_were_heard_that_one_would_know():
    """A membership is on three of five: who heard three others heard one that has it."""
    assert may(met(5)) == [0, 1, 2, 3, 4]
    assert may(met(5, heard=[0, 1, 2, 3])) == [0, 1, 2, 3, 4]
    assert may(met(5, heard=[0, 1, 2])) == [3, 4], "three others of these two were heard"
    assert may(met(3, heard=[0, 1])) == [2]


def test_who_is_not_remembered_waits_for_the_longest_ttl_since_it_was_seen():
    old = {b"run0", b"run1", b"run-before"}
    membership = met(3, rosters=old)
    assert may(membership) == [0, 1]
    assert may(membership, 100 + TTL) == [0, 1]
    assert may(membership, 100 + TTL + 1.1) == [0, 1, 2]


def test_how_long_a_node_is_up_is_remembered_by_two_others_or_counts_from_now():
    """Of three nodes with a clock each, that of the node itself and that of one other are wrong."""
    voters = [b"run0", b"run1", b"run-before"]
    for remember, later in (
        ({0: 20_000, 1: 20_000}, 11.2),
        ({0: 600_000, 1: 5_000}, 26.1),
        ({0: 600_000}, 31.0),
        ({0: 600_000, 2: 600_000}, 31.0),
    ):
        membership = met(3, rosters=voters)
        for node, ms in remember.items():
            membership.read(node, TTL, [b"run2 %d" % ms], 100.0)
        assert membership.votes_from(2) == pytest.approx(100.0 + later, abs=0.1)


def test_it_is_known_from_when_each_node_may_vote():
    membership = met(3, rosters={b"run0", b"run1", b"run-before"})
    assert membership.votes_from(0) == membership.votes_from(1) == -inf
    start = membership.votes_from(2)
    assert not membership.eligible(2, start - 0.001)
    assert membership.eligible(2, start)
    assert membership.votes_from(2) == -inf, "it is a known voter from then on"
    assert Membership(3).votes_from(0) == inf, "it was never connected"


def restarted(**how):
    """Return the membership of a client that saw the second of three nodes restart at 200 s."""
    membership = met(3)
    membership.saw(1, b"another", 200.0)
    for number, longest in how.pop("longest", {0: TTL, 1: TTL, 2: TTL}).items():
        membership.read(number, longest, (), 200.0)
    membership.read_claims(how.pop("claims", [(0.0, 0.0)] * 3), 200.0)
    membership.judge()
    return membership


def test_a_restart_that_we_see_ourselves():
    membership = restarted()
    assert may(membership, 200.0) == [0, 2]
    assert may(membership, 200.0 + TTL) == [0, 2]
    assert may(membership, 201.1 + TTL) == [0, 1, 2]


def test_what_was_read_before_a_restart_is_read_again():
    """Another client may have used a longer ttl since."""
    membership = met(3)
    membership.saw(1, b"another", 200.0)
    membership.judge()
    assert membership.unsure(300.0)
    assert may(membership, 300.0) == [0, 2]
    membership = restarted(longest={0: 50.0, 2: 0.0})
    assert may(membership, 201.1 + TTL) == [0, 2], "the longest counts, not the last"
    assert may(membership, 251.1) == [0, 1, 2]


def test_a_claim_counts_until_its_leases_can_have_ended():
    """From the restart for their longest ttl, and no longer than the claim."""
    membership = restarted(claims=[(3600.0, 100.0), (0.0, 0.0), (0.0, 0.0)])
    assert may(membership, 299.0) == [0, 2]
    assert may(membership, 303.0) == [0, 1, 2], "it ended 1 % later, by a clock that may be slow"
    membership = restarted(claims=[(90.0, 3600.0), (0.0, 0.0), (0.0, 0.0)])
    assert may(membership, 290.0) == [0, 2]
    assert may(membership, 291.1) == [0, 1, 2]


def test_a_claim_that_was_given_up_keeps_nobody_from_voting():
    """When as many say so as would know of it."""
    membership = restarted(claims=[(3600.0, 3600.0), (0.0, 0.0), (0.0, 0.0)])
    assert membership.unsure(201.1)
    membership.read_claims([(0.0, 0.0)] * 2, 202.0)
    assert may(membership, 202.0 + TTL) == [0, 2], "one of these two may have forgotten it"
    membership.read_claims([(0.0, 0.0)] * 3, 203.0)
    assert may(membership, 203.0 + TTL) == [0, 1, 2]


def test_our_own_claim_covers_what_is_taken_and_renewed():
    membership = met(3)
    assert membership.covers(60.0, 100.0), "shorter leases need none"
    assert not membership.covers(90.0, 100.0)
    membership.claimants.add("a")
    number, ttl, until = membership.claim(90.0, 100.0)
    assert not membership.covers(90.0, 100.0), "no majority has it yet"
    membership.claim_holds(ttl, until)
    assert membership.covers(90.0, 100.0)
    assert membership.covers(90.0, 270.0)
    assert not membership.covers(90.0, 290.0)
    assert not membership.covers(91.0, 100.0)
    assert membership.drop_claim() == 0, "it is in use"
    assert membership.claim(80.0, 110.0)[:2] == (number + 1, 90.0), "a later claim is for no less"
    membership.claimants.clear()
    assert membership.drop_claim() == number + 2
    assert not membership.covers(90.0, 100.0)
    assert membership.drop_claim() == 0


def test_a_vote_counts_when_a_majority_was_told():
    membership = met(3)
    assert membership.without_vote([0]) == [0]
    assert membership.stale(TTL, 100.0)
    membership.written, membership.written_at = membership.voters(100.0), 100.0
    assert membership.without_vote(range(3)) == []
    assert not membership.stale(TTL, 101.0)
    assert membership.stale(TTL + 1, 101.0), "a longer lease must be known"
    assert membership.stale(TTL, 100.0 + 3601), "and now and then they are reminded"


def test_what_a_node_says_of_itself():
    text = b"# Server\r\nredis_version:7\r\nrun_id:abc\r\nuptime_in_seconds:12\r\n"
    assert run_id_of(text) == run_id_of(b"txt:" + text) == b"abc"


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(
    "source", [URLS, tuple(URLS), ",".join(URLS), " ".join(URLS), ", ".join(URLS)], ids=str
)
def test_several_sources_are_a_quorum(make, source):
    assert "quorum of redis://a:1/0, redis://b:1/0, redis://c:1/0" in repr(make(source))


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_the_environment_may_name_a_quorum(make, monkeypatch):
    monkeypatch.setenv("FENCELOCK_URL", " ".join(URLS))
    assert "quorum" in repr(make())


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        (URLS[:1], ValueError, "at least 3"),
        (URLS[:2], ValueError, "at least 3"),
        ([*URLS, URLS[0]], ValueError, "different servers"),
        ([*URLS, None], TypeError, "None"),
        ([*URLS, 7], TypeError, "source must be"),
        ([*URLS, "nonsense"], ValueError, "must look like"),
    ],
    ids=str,
)
def test_what_is_no_quorum(make, source, error, says):
    with pytest.raises(error, match=says):
        make(source)


def test_nodes_whose_address_is_not_known_are_numbered_as_people_count(monkeypatch):
    """Their places in the list tell them apart in messages, and nothing else does."""
    monkeypatch.setattr(resolve, "_label", lambda _source: "a pool")
    found = resolve.quorum_source(URLS[:3], asynchronous=False)
    assert found.labels == ["a pool 1", "a pool 2", "a pool 3"]
    assert found.label == "a quorum of a pool 1, a pool 2, a pool 3"


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.semaphore("a", 2),
        lambda client: client.bounded_semaphore("a", 2),
        lambda client: client.event("a"),
        lambda client: client.latch("a", 2),
        lambda client: client.barrier("a", 2),
        lambda client: client.once("a", within=60),
        lambda client: client.multi(["a", "b"]),
        lambda client: client.election("a"),
        lambda client: client.rlock("a", owner="me"),
        lambda client: client.rwlock("a"),
    ],
)
def test_what_a_quorum_cannot_do_is_refused_at_once(make, ask):
    """And the error names what to use."""
    with pytest.raises(
        ValueError, match=r"(\w+) does not work over a quorum: .*; use lock, .*, or \1 with one"
    ):
        ask(make(URLS))


@pytest.mark.parametrize(
    ("error", "avoided"),
    [
        (NoReply("silent", sent=True), True),
        (ServerUnreachable("silent"), True),
        (ServerDenied("no right", code="NOPERM"), False),
    ],
    ids=["broken", "unreachable", "refused"],
)
def test_a_node_that_was_silent_is_asked_last_for_a_while(monkeypatch, error, avoided):
    monkeypatch.setattr(QuorumAttempt, "_on_nodes", lambda _quorum_attempt: [])
    clock = [1000.0]
    port = SimpleNamespace(
        labels=tuple(URLS),
        nodes=URLS,
        suspect={},
        now=lambda: clock[0],
        mutex=nullcontext(),
        membership=SimpleNamespace(without_vote=lambda _nodes: []),
    )
    quorum_attempt = QuorumAttempt(port, SimpleNamespace(keys=LockKeys("p:", "a")))
    usual = quorum_attempt.candidates()
    quorum_attempt.fail(usual[0], error)
    later = QuorumAttempt(port, quorum_attempt.attempt)  # the next acquisition knows it, too
    assert later.candidates() == (usual[1:] + usual[:1] if avoided else usual)
    clock[0] += SUSPECT_SECONDS
    assert later.candidates() == usual


@pytest.mark.parametrize(
    ("waited", "stood", "refused"), [(0.39, True, []), (0.41, True, [1, 2]), (0.41, False, [])]
)
def test_a_node_that_fails_after_a_wait_in_its_line_stands_for_a_refusal(
    monkeypatch, waited, stood, refused
):
    """Time was up because others held the lock, not because a node failed or a machine stalled."""
    instants = chain([10.0, 10.0], repeat(10.0 + waited))

    async def queue(_port, attempt):
        assert attempt.outlasts is False
        raise OutcomeUnknown("silent")

    monkeypatch.setattr(flow, "queue", queue)
    nothing = {"hold": None, "tenure": None, "asks": None, "held_by": ()}
    terms = SimpleNamespace(cohort=None, generation=process.number())
    on_nodes = [SimpleNamespace(terms=terms, wait=None, stood=stood, **nothing) for _ in range(3)]
    monkeypatch.setattr(QuorumAttempt, "_on_nodes", lambda _quorum_attempt: on_nodes)
    monkeypatch.setattr(QuorumAttempt, "rename", lambda _quorum_attempt: None)
    port = SimpleNamespace(
        labels=tuple(URLS),
        nodes=[
            SimpleNamespace(server_timeout=0.2, mutex=nullcontext(), lines=Lines())
            for _ in range(3)
        ],
        needed=2,
        now=lambda: next(instants),
        suspect={},
        mutex=nullcontext(),
        membership=SimpleNamespace(without_vote=lambda _nodes: []),
    )
    attempt = SimpleNamespace(
        keys=LockKeys("p:", "a"), unit=None, event=None, at_once=False, give_up_at=10.3
    )
    quorum_attempt = QuorumAttempt(port, attempt)
    asked = quorum_attempt._round()
    with pytest.raises(StopIteration) as ended:
        asked.send(None)
    assert ended.value.value is None
    assert quorum_attempt.refused == [quorum_attempt.order[each] for each in refused]


def test_a_lost_lease_gives_its_claim_up():
    """Another lease that is still held keeps it."""
    membership, posted = met(3), []
    port = SimpleNamespace(
        closing=False,
        nodes=range(3),
        mutex=nullcontext(),
        membership=membership,
        membership_key=b"membership",
        client_channel=b"home",
        run_in_background=lambda script, *_: posted.append(script),
    )
    one, two = Unproved(port), Unproved(port)
    membership.claimants |= {one.parts, two.parts}
    _, ttl, until = membership.claim(90.0, 100.0)
    membership.claim_holds(ttl, until)
    end_node_leases(port, one, drops=False)
    assert (membership.covers(90.0, 100.0), posted) == (True, [])
    end_node_leases(port, two, drops=False)
    assert (membership.covers(90.0, 100.0), posted) == (False, [MEMBERSHIP])


@pytest.mark.parametrize("without", range(3))
def test_leases_that_end_with_their_client_are_given_back_on_each_node_that_has_one(without):
    """The first node comes last, as in a release; nodes without a lease are not asked."""
    asked = []

    class Node(SimpleNamespace):
        async def call(self, *_):
            asked.append(self.number)

    def tables():
        return {"mutex": nullcontext(), "lines": Lines(), "renewals": RenewalSchedule()}

    nodes = [
        Node(number=number, now=lambda: 100.0, server_timeout=5.0, **tables())
        for number in range(3)
    ]
    port = SimpleNamespace(nodes=nodes, needed=2, now=lambda: 100.0, **tables())
    hold = held(200.0)
    hold.parts = parts = Majority(port, hold, first=0)
    parts[:] = [None if number == without else held(200.0) for number in range(3)]
    for each in (hold, *parts):
        if each is not None:
            each.port = None
    assert asyncio.run(hand_back(port, [hold], 105.0)) == []
    assert asked == [number for number in (1, 2, 0) if number != without]


@pytest.mark.parametrize(("over", "planned"), [({}, True), ({"open": False}, False)])
def test_a_part_that_is_lost_is_acquired_again_unless_the_hold_is_over(over, planned):
    moved = []
    port = SimpleNamespace(
        nodes=range(3),
        needed=2,
        now=lambda: 100.0,
        jitter=lambda: 0.0,
        mutex=nullcontext(),
        move=lambda _, when: moved.append(when),
    )
    hold = held(200.0, clock=lambda: 100.0)
    hold.parts = parts = Majority(port, hold, first=0)
    parts[:] = [held(200.0, clock=lambda: 100.0) for _ in range(3)]
    for name, value in over.items():
        setattr(hold, name, value)
    parts[1].lose("taken", 100.0)
    parts.lost(parts[1])
    assert bool(moved) is planned
    assert (parts.reacquire_at < inf) is planned


class Unproved:
    """A hold whose parts have ended."""

    def __init__(self, port):
        self.parts = Majority(port, self, first=0)


@pytest.mark.parametrize(
    ("over", "due"), [({}, 5.0), ({"open": False}, None), ({"notified": True}, None)]
)
def test_a_hold_that_is_over_gets_no_more_attention(over, due):
    port, tracked = object.__new__(BlockingQuorum), []
    port.mutex, port.renewals = nullcontext(), RenewalSchedule()
    port._renewal_thread = SimpleNamespace(mind=tracked.append, wakes_at=inf)
    hold = held(9.0)
    for name, value in over.items():
        setattr(hold, name, value)
    port.move(hold, 5.0)
    assert port.renewals.next_at() == due
    assert tracked == ([due] if due else [])


def test_what_is_not_answered_in_a_loop_is_undone_on_its_connection():
    """On another one the undo may overtake it."""

    async def asked():
        loop, port = asyncio.get_running_loop(), object.__new__(AioQuorum)
        mux = SimpleNamespace(sound=True, request=lambda *_: None)
        port.loop, port.closing, port.look_seconds = loop, False, 0.05
        port.link_to = [SimpleNamespace(idle=lambda: mux)].__getitem__
        request = Ballot(0, None, b"packed")
        await port.exchange([request], now() + 9, now)
        return request.error, mux

    error, mux = asyncio.run(asked())
    assert (error.sent, error.undo_connection) == (True, mux)


def test_a_connection_that_does_not_open_in_time_is_for_the_next_caller():
    opened, given, asked = threading.Event(), threading.Event(), []

    class Late(_IdentifiedPool):
        def connect(self, _until):
            asked.append(self)
            opened.wait(8)
            return "a connection"

        def give(self, connection):
            assert connection == "a connection"
            given.set()

    pool = Late(SimpleNamespace(), lambda *_: None, 9.0, lambda *_: None)
    with pytest.raises(NoReply, match="no connection was opened in time") as late:
        pool.take(now() + 0.01)
    assert not late.value.sent
    with pytest.raises(NoReply):
        pool.take(now() + 0.01)  # goes on with it
    assert len(asked) == 1
    assert not given.is_set()
    opened.set()
    assert given.wait(8)
    assert pool.take(now() + 9) == "a connection"


def test_a_request_that_the_end_of_its_client_cut_off_may_have_run():
    """So it is undone; one that was refused before it was sent is not."""
    asked, refused = Ballot(0, None, b"packed"), Ballot(1, None, b"packed")
    asked.began = True
    for each in (asked, refused):
        each.fail(closed())
    assert [asked.silent, refused.silent] == [True, False]


def begun(*grants: Grant, **options) -> list[float]:
    """Begin the parts of a hold with these grants; return when each is due."""
    due = []
    nodes = [
        SimpleNamespace(
            now=lambda: NOW,
            label="",
            client_channel=b"h",
            track=lambda _, at: due.append(at),
            lines=Lines(),
        )
        for _ in grants
    ]
    port = SimpleNamespace(
        nodes=nodes, needed=1, jitter=lambda: 0.0, now=lambda: NOW, mutex=nullcontext()
    )
    told = LeaseOptions(**{"ttl": 30.0, "renew": True, **options})
    terms = Terms(keys=LockKeys("p:", "a"), options=told, client_channel=b"h", ttl=30.0)
    hold = held(-inf)
    hold.fence = 9
    parts = Majority(port, hold, first=0)
    parts.begin([Attempt(terms, b"w") for _ in grants], dict(enumerate(grants)))
    assert hold.deadline == max(grant.deadline for grant in grants)
    assert [(part.fence, part.deadline) for part in parts] == [(9, g.deadline) for g in grants]
    assert [part.short for part in parts] == [g.lease < 30.0 for g in grants]
    return due


def test_leases_of_one_length_are_due_together_before_the_first_of_them_is():
    early, late = Grant(9, NOW + 20.0, 30.0), Grant(9, NOW + 29.5, 30.0)
    alone = begun(early)[0]
    assert begun(early, late) == [alone, alone]
    assert begun(late, early)[1] == alone


def test_a_short_lease_is_due_to_grow_and_the_others_later():
    due = begun(Grant(9, NOW + 1.9, 2.0), *[Grant(9, NOW + 29.0, 30.0)] * 2)
    assert due[0] <= NOW + 0.25
    assert due[1] == due[2] > NOW + 9


def test_leases_that_are_not_renewed_are_due_at_the_end_of_each():
    ends = [NOW + 29.0, NOW + 29.1, NOW + 29.2]
    assert begun(*[Grant(9, end, 30.0) for end in ends], renew=False) == ends


def test_an_undo_is_sent_once_and_no_other_request_follows_on_its_connection():
    """Two clean-ups that follow one request would read one connection in two threads."""
    posted = []
    node = SimpleNamespace(
        mutex=nullcontext(), lines=Lines(), run_in_background=lambda *call: posted.append(call[-1])
    )
    port = SimpleNamespace(nodes=[node])
    told = LeaseOptions(ttl=30.0, renew=True)
    terms = Terms(keys=LockKeys("p:", "a"), options=told, client_channel=b"h", ttl=30.0)
    ask = Ballot(0, Attempt(terms, b"w"), b"vote")
    ask.began, ask.connection = True, "its connection"
    ask.fail(NoReply("silent", sent=True, undo_connection="its connection"))
    asks = Ballots(port, [ask])
    asks.undo()
    asks.undo(all_of_them=True)  # the caller was cancelled afterwards
    asks.retry_in_background(lambda one: one.terms.release(one))
    assert posted == ["its connection", None]
