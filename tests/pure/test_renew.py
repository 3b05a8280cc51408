"""_core/lock/renewal_schedule.py, maintain.py and renew.py: which lease wants attention when."""

import asyncio
import random
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import pytest

from fencelock import ServerDenied, ServerError
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.maintain import Renewer, packed_renewal, renewal_request
from fencelock._core.lock.renewal_schedule import RenewalBatch, RenewalSchedule
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.types import NoReply
from fencelock.options import LeaseOptions
from fencelock.scripts import packed

NOW = 1000.0


def hold(
    *, ttl: float = 30.0, deadline: float | None = None, owner: bytes | None = None, **options
) -> Hold:
    told = LeaseOptions(**{"ttl": ttl, "renew": True, **options})
    terms = Terms(keys=LockKeys("p:", "a"), options=told, client_channel=b"h", ttl=ttl)
    ends = NOW + ttl if deadline is None else deadline
    begun = Hold(terms, b"w", owner=owner)
    begun.start_lease(SimpleNamespace(now=lambda: NOW, label=""), 1, ends)
    return begun


@pytest.mark.parametrize("step", ["_take", "_forget", "_drop", "_fill"])
@pytest.mark.parametrize("nth", range(4))
def test_an_error_while_what_is_due_is_taken_out_loses_no_lease(monkeypatch, step, nth):
    """I16: it is due again, and once it has ended it is forgotten."""
    renewals, (first, second) = RenewalSchedule(), (hold(), hold())
    renewals.add_all([first], NOW - 1)
    renewals.add_all([second], NOW)
    port = SimpleNamespace(
        renewals=renewals, now=lambda: NOW, mutex=nullcontext(), node_of=lambda _: 0
    )
    calls, real = iter(range(9)), getattr(RenewalSchedule, step)

    def strike(self, *args):
        if next(calls) == nth:
            raise MemoryError
        return real(self, *args)

    async def elsewhere(_node, _batches):
        return False

    port.renew_at, port.by_slot = elsewhere, lambda each, _: {0: each} if each else {}
    with monkeypatch.context() as patched:
        patched.setattr(RenewalSchedule, step, strike)
        with suppress(MemoryError):
            asyncio.run(Renewer(port).maintain())
    left = {one: None for _ in range(2) for one in renewals.due(NOW + 1)}
    assert set(left) == {first, second}
    for one in left:
        one.open, one.released = False, True
    renewals.settle(renewals.taken)
    assert not renewals.busy


def test_nothing_is_due_before_the_instant_that_the_book_names():
    """A loop that sleeps until next_at() and then takes what is due makes progress each time."""
    renewals, chance = RenewalSchedule(), random.Random(7)
    for _ in range(500):
        renewals.unplaced[hold()] = NOW + chance.random() * 3
    rounds = 0
    while (at := renewals.next_at()) is not None:
        assert renewals.due(at), "woken for nothing"
        rounds += 1
    assert (renewals.holds, renewals.all_holds()) == (0, [])
    assert rounds <= 500


def test_holds_are_found_by_holder_id_as_long_as_they_are_tracked():
    """One of each id, or several of an explicit owner; also unplaced, under way, or moved."""
    renewals, chance, inside = RenewalSchedule(), random.Random(5), set()
    holds = [hold(owner=b"%d" % (number // 3)) for number in range(30)]
    for _ in range(3000):
        one, what = chance.choice(holds), chance.random()
        if one not in inside:
            renewals.unplaced[one] = NOW + chance.random() * 10
            inside.add(one)
        elif what < 0.5:
            renewals.discard(one)
            inside.discard(one)
        elif what < 0.7:
            renewals.add_all(renewals.due(NOW + chance.random() * 5), NOW + chance.random() * 10)
        elif what < 0.8 and (due := renewals.due(NOW + chance.random() * 5)):
            apart, sooner = renewals.add_apart(due, NOW + 10), NOW + chance.random() * 10
            renewals.hasten(apart, sooner)
            assert renewals.next_at() <= sooner
        elif what < 0.9:
            renewals.move([one], NOW + chance.random() * 10)
        known = {each for each in inside if each.holder_id == one.holder_id}
        assert set(renewals.held_as(one.holder_id)) == known
        assert renewals.holds == len(renewals.tracked()) == len(inside)
    renewals.clear()
    assert not any(renewals.held_as(each.holder_id) for each in holds)
    assert renewals._holders == {}


def test_a_whole_batch_that_waits_for_its_node_stays_whole():
    """With very many leases, what is no more is sorted anew, lease by lease."""
    renewals, batch = RenewalSchedule(), RenewalBatch([hold(), hold()])
    renewals.add_batch(batch, NOW)
    assert renewals.whole_batches(NOW) == [batch]
    renewals.hasten(renewals.add_apart(batch, NOW + 20), NOW + 1)
    assert (renewals.whole_batches(NOW + 1), renewals.due(NOW + 1)) == ([batch], [])
    assert batch.is_whole


def test_only_what_waits_is_moved():
    renewals, waits, taken, gone = RenewalSchedule(), hold(), hold(), hold()
    for each in (taken, gone, waits):
        renewals.unplaced[each] = NOW + 5 * (each is waits)
    renewals.discard(gone)
    assert renewals.due(NOW) == [taken]
    renewals.move([waits, taken, gone], NOW + 1)
    assert (renewals.all_holds(), list(renewals.under_way)) == ([waits], [taken])
    assert renewals.next_at() == NOW + 1


def test_short_holds_one_after_another_leave_nothing_in_the_order():
    renewals = RenewalSchedule()
    for number in range(1000):
        one = hold()
        renewals.unplaced[one] = NOW + number
        renewals.discard(one)
    assert len(renewals._order) <= 70
    renewals.unplaced[one] = NOW
    assert renewals.next_at() == NOW


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (NoReply("cut off", sent=True), "INFO"),
        (ServerError("loading", code="LOADING"), "INFO"),
        (ServerDenied("no right", code="NOPERM"), "WARNING"),
        (ServerError("full", code="OOM"), "WARNING"),
    ],
    ids=["cut off", "loading", "denied", "full"],
)
def test_a_failed_renewal_is_a_warning_unless_it_will_pass(monkeypatch, caplog, error, level):
    monkeypatch.setattr(Renewer, "put_back", lambda *_: None)
    port = SimpleNamespace(
        now=lambda: NOW, jitter=lambda: 0.5, mutex=nullcontext(), renewals=RenewalSchedule()
    )
    with caplog.at_level("INFO"):
        asyncio.run(Renewer(port).failed([hold()], error))
    assert [each.levelname for each in caplog.records] == [level]
    assert str(error) in caplog.text


def test_a_renewal_that_fails_again_and_again_is_said_now_and_then(monkeypatch, caplog):
    monkeypatch.setattr(Renewer, "put_back", lambda *_: None)
    port = SimpleNamespace(
        now=lambda: NOW, jitter=lambda: 0.5, mutex=nullcontext(), renewals=RenewalSchedule()
    )
    failing, other = hold(), hold()
    with caplog.at_level("INFO"):
        for _ in range(500):
            asyncio.run(Renewer(port).failed([failing], ServerDenied("no right", code="NOPERM")))
        assert 2 <= len(caplog.records) <= 10
        caplog.clear()
        asyncio.run(Renewer(port).failed([failing, other], ServerDenied("no", code="NOPERM")))
    assert len(caplog.records) == 1, "the first failure of a lease is always said"


@pytest.mark.parametrize("begins", [False, True])
def test_a_refusal_is_told_to_the_turn_to_which_the_lease_was_passed_on(begins):
    """The answer to a renewal of the turn before comes late, and is about the holder id of both."""
    told, lines, now = [], Lines(), NOW + 0.1

    async def silent(*_):
        raise NoReply("silent", sent=True)

    port = SimpleNamespace(
        mutex=nullcontext(), lines=lines, now=lambda: now, call=silent, label="",
        renewals=RenewalSchedule(lines.holders), notify_loss=told.append,
    )  # fmt: skip
    before, turn = hold(), hold()
    before.passes, before.open, before.released = True, False, True
    turn.port = port
    if begins:
        port.renewals.unplaced[turn] = NOW + 1
    asyncio.run(Renewer(port).notify_refused({before: "taken"}, NOW + 1))
    assert told == ([turn] if begins else [])
    assert lines.revoked == ({} if begins else {turn.holder_id: None})


@pytest.mark.parametrize(("reason", "released"), [("closed", 0), ("expired", 1)])
def test_a_lease_that_is_renewed_as_its_client_is_closed_is_left_to_its_ttl(reason, released):
    """As found: the answer came after ``close``, and the lease was released as renewed too late."""
    sent = []
    port = SimpleNamespace(
        mutex=nullcontext(), now=lambda: NOW, jitter=lambda: 0.5, renewals=RenewalSchedule(),
        run_in_background=lambda *call: sent.append(call), notify_loss=lambda hold: None, label="",
        lines=Lines(),
    )  # fmt: skip
    lease = hold()
    lease.port = port
    lease.lose(reason, NOW)
    Renewer(port).ended(lease, late=True)
    assert len(sent) == released


@pytest.mark.parametrize("owned", [False, True])
def test_a_renewal_in_wire_form_says_what_the_request_says(owned):
    told = LeaseOptions(ttl=30.0, renew=True)
    holds = []
    for name in ("a", "b{c"):
        terms = Terms(
            keys=LockKeys("p:", name), options=told, client_channel=b"h", ttl=30.0, owned=owned
        )
        asked = Hold(terms, name.encode(), owner=b"me" if owned else None)
        asked.start_lease(SimpleNamespace(now=lambda: NOW, label=""), 1, NOW)
        holds.append(asked)

    batch = RenewalBatch(holds)

    def same(ttls):
        return packed_renewal(batch, ttls) == packed(*renewal_request(holds, ttls))

    assert same([30.0, 30.0])
    assert packed_renewal(batch, [30.0, 30.0]) is packed_renewal(batch, [30.0, 30.0])
    assert same([30.0, 7.25])
    assert same([7.25, 7.25])


def test_a_hold_that_is_moved_leaves_no_earlier_instant_behind():
    """The thread that renews would look again and again until that instant has passed."""
    schedule = RenewalSchedule()
    moved, other = hold(deadline=NOW + 30.0), hold(deadline=NOW + 30.0)
    schedule.add_all([moved, other], NOW + 0.001)
    schedule.add_all([other], NOW + 0.015)
    schedule.add_all([moved], NOW + 0.016)  # in the same bucket
    assert schedule.next_at() == NOW + 0.015
    schedule.unplaced[other] = NOW + 5.0
    assert schedule.next_at() == NOW + 0.016
