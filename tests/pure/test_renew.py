"""_core/lock/renewal_schedule.py, maintain.py and renew.py: which lease wants attention when."""

import asyncio
import random
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import pytest

from fencelock import ServerDenied, ServerError
from fencelock._core.deadlines import validity
from fencelock._core.keys import LockKeys
from fencelock._core.lock import maintain
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold, first_due
from fencelock._core.lock.maintain import packed_renewal, renewal_request
from fencelock._core.lock.renewal_schedule import RenewalBatch, RenewalSchedule
from fencelock._core.lock.terms import Terms
from fencelock._core.types import NoReply
from fencelock._io.wire import pack_call
from fencelock.options import LeaseOptions

NOW = 1000.0


def hold(
    *, ttl: float = 30.0, deadline: float | None = None, owner: bytes | None = None, **options
) -> Hold:
    told = LeaseOptions(**{"ttl": ttl, "renew": True, **options})
    terms = Terms(keys=LockKeys("p:", "a"), options=told, client_channel=b"h", ttl=ttl)
    ends = NOW + ttl if deadline is None else deadline
    asked = Attempt(terms, b"w", owner=owner)
    return Hold(SimpleNamespace(now=lambda: NOW, label=""), asked, 1, ends)


def test_an_empty_book_wants_nothing():
    renewals = RenewalSchedule()
    assert (renewals.next_at(), renewals.due(NOW), renewals.all_holds(), renewals.holds) == (
        None,
        [],
        [],
        0,
    )


def test_what_is_due_is_taken_out_and_nothing_else():
    renewals, soon, later = RenewalSchedule(), hold(), hold()
    renewals.young[later] = NOW + 5
    renewals.young[soon] = NOW + 1
    assert renewals.next_at() == pytest.approx(NOW + 1, abs=RenewalSchedule.GRAIN)
    assert renewals.due(NOW) == []
    assert renewals.due(NOW + 1.1) == [soon]
    assert renewals.due(NOW + 1.1) == []
    assert renewals.all_holds() == [later]
    assert renewals.holds == 1
    assert renewals.due(NOW + 6) == [later]
    assert renewals.next_at() is None


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

    async def elsewhere(_node, _flow):
        return False

    port.at_node, port.by_slot = elsewhere, lambda each, _: {0: each} if each else {}
    with monkeypatch.context() as patched:
        patched.setattr(RenewalSchedule, step, strike)
        with suppress(MemoryError):
            asyncio.run(maintain.maintain(port))
    left = {one: None for _ in range(2) for one in renewals.due(NOW + 1)}
    assert set(left) == {first, second}
    for one in left:
        one.open, one.released = False, True
    renewals.settle(renewals.under_way)
    assert not renewals.busy


def test_nothing_is_due_before_the_instant_that_the_book_names():
    """A loop that sleeps until next_at() and then takes what is due makes progress each time."""
    renewals, chance = RenewalSchedule(), random.Random(7)
    for _ in range(500):
        renewals.young[hold()] = NOW + chance.random() * 3
    rounds = 0
    while (at := renewals.next_at()) is not None:
        assert renewals.due(at), "woken for nothing"
        rounds += 1
    assert (renewals.holds, renewals.all_holds()) == (0, [])
    assert rounds <= 500


def test_a_discarded_hold_leaves_nothing_behind():
    renewals, one, two = RenewalSchedule(), hold(), hold()
    renewals.discard(one)
    renewals.young[one] = NOW + 1
    renewals.young[two] = NOW + 1
    renewals.discard(one)
    renewals.discard(one)
    assert (renewals.holds, renewals.all_holds()) == (1, [two])
    renewals.discard(two)
    assert (renewals.holds, renewals.next_at(), renewals._buckets) == (0, None, {})


def test_a_hold_that_was_due_may_be_discarded():
    renewals, one = RenewalSchedule(), hold()
    renewals.young[one] = NOW
    assert renewals.due(NOW + 1) == [one]
    renewals.discard(one)
    assert renewals.holds == 0


def test_a_book_of_many_counts_right():
    renewals, chance, inside = RenewalSchedule(), random.Random(3), set()
    holds = [hold() for _ in range(200)]
    for _ in range(5000):
        one = chance.choice(holds)
        if one in inside:
            renewals.discard(one)
            inside.discard(one)
        else:
            renewals.young[one] = NOW + chance.random() * 10
            inside.add(one)
    assert renewals.holds == len(inside)
    assert set(renewals.all_holds()) == inside
    assert set(renewals.due(NOW + 20)) == inside


def test_holds_are_found_by_holder_id_as_long_as_they_are_tracked():
    """One of each id, or several of an explicit owner; also young, under way, or moved."""
    renewals, chance, inside = RenewalSchedule(), random.Random(5), set()
    holds = [hold(owner=b"%d" % (number // 3)) for number in range(30)]
    for _ in range(3000):
        one, what = chance.choice(holds), chance.random()
        if one not in inside:
            renewals.young[one] = NOW + chance.random() * 10
            inside.add(one)
        elif what < 0.5:
            renewals.discard(one)
            inside.discard(one)
        elif what < 0.7:
            renewals.add_all(renewals.due(NOW + chance.random() * 5), NOW + chance.random() * 10)
        elif what < 0.9:
            renewals.move([one], NOW + chance.random() * 10)
        known = {each for each in inside if each.holder_id == one.holder_id}
        assert set(renewals.held_as(one.holder_id)) == known
    renewals.clear()
    assert not any(renewals.held_as(each.holder_id) for each in holds)
    assert renewals._holders == {}


def test_a_renewed_lease_wants_attention_well_before_its_end():
    at = first_due(hold(), 30.0, 0.0, NOW)
    assert NOW + 8.5 < at <= NOW + 10


@pytest.mark.parametrize(
    "options", [{"renew": False}, {"max_renewals": 0}], ids=["fixed", "no renewals"]
)
def test_any_other_lease_wants_it_at_its_end(options):
    one = hold(ttl=5.0, **options)
    assert first_due(one, 5.0, 0.5, NOW) == one.deadline


def test_a_late_grant_is_renewed_by_what_is_left_of_it():
    one = hold(deadline=NOW + 3)
    assert NOW < first_due(one, 30.0, 0.0, NOW) <= NOW + 1


def test_the_last_renewal_is_cut_to_the_longest_hold():
    one = hold(ttl=10.0, max_hold=25.0)
    assert one.next_ttl(NOW + 10) == 10.0
    assert one.next_ttl(NOW + 20) == pytest.approx(5.0)
    one.deadline = NOW + 25
    assert not one.renewable(NOW + 24.9)


def test_a_released_hold_is_never_renewable():
    one = hold()
    assert one.renewable(NOW)
    one.open = False
    assert not one.renewable(NOW)


def test_what_is_under_way_is_still_minded():
    """A revocation or the end of the client may come while a renewal is asked for."""
    renewals, one, two = RenewalSchedule(), hold(), hold()
    renewals.young[one] = NOW
    renewals.young[two] = NOW + 5
    assert renewals.due(NOW + 1) == [one]
    assert (set(renewals.tracked()), renewals.busy) == ({one, two}, True)
    renewals.add_all([one], NOW + 10)
    assert sorted(renewals.tracked(), key=id) == sorted([one, two], key=id)
    renewals.clear()
    assert (renewals.tracked(), renewals.busy, renewals.next_at()) == ([], False, None)


@pytest.mark.parametrize("ends", [(0.4, 0.6), (0.6, 0.4)])
def test_the_first_end_is_the_earliest_of_those_that_want_attention_together(ends):
    renewals = RenewalSchedule()
    for end in ends:
        renewals.young[hold(deadline=NOW + end)] = NOW + 0.1
    assert renewals.first_end(NOW + 1) == NOW + 0.4


def test_the_first_end_is_that_of_what_is_in_the_book():
    renewals = RenewalSchedule()
    soon, later = hold(deadline=NOW + 0.4), hold(deadline=NOW + 0.6)
    renewals.add_all([soon, later, hold()], NOW + 0.3)
    assert renewals.first_end(NOW + 1) == NOW + 0.4
    renewals.discard(soon)
    assert renewals.first_end(NOW + 1) == NOW + 0.6
    renewals.discard(later)
    assert renewals.first_end(NOW + 1) > NOW + 1


def test_only_what_waits_is_moved():
    renewals, waits, taken, gone = RenewalSchedule(), hold(), hold(), hold()
    for each in (taken, gone, waits):
        renewals.young[each] = NOW + 5 * (each is waits)
    renewals.discard(gone)
    assert renewals.due(NOW) == [taken]
    renewals.move([waits, taken, gone], NOW + 1)
    assert (renewals.all_holds(), list(renewals.under_way), renewals.next_at()) == (
        [waits],
        [taken],
        NOW + 1,
    )


def test_short_holds_one_after_another_leave_nothing_in_the_order():
    renewals = RenewalSchedule()
    for number in range(1000):
        one = hold()
        renewals.young[one] = NOW + number
        renewals.discard(one)
    assert len(renewals._order) <= 70
    renewals.young[one] = NOW
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
    monkeypatch.setattr(maintain, "put_back", lambda *_: None)
    port = SimpleNamespace(
        now=lambda: NOW, jitter=lambda: 0.5, mutex=nullcontext(), renewals=RenewalSchedule()
    )
    with caplog.at_level("INFO"):
        asyncio.run(maintain.failed(port, [hold()], error))
    assert [each.levelname for each in caplog.records] == [level]
    assert str(error) in caplog.text


def test_a_renewal_that_fails_again_and_again_is_said_now_and_then(monkeypatch, caplog):
    monkeypatch.setattr(maintain, "put_back", lambda *_: None)
    port = SimpleNamespace(
        now=lambda: NOW, jitter=lambda: 0.5, mutex=nullcontext(), renewals=RenewalSchedule()
    )
    failing, other = hold(), hold()
    with caplog.at_level("INFO"):
        for _ in range(500):
            asyncio.run(maintain.failed(port, [failing], ServerDenied("no right", code="NOPERM")))
        assert 2 <= len(caplog.records) <= 10
        caplog.clear()
        asyncio.run(maintain.failed(port, [failing, other], ServerDenied("no", code="NOPERM")))
    assert len(caplog.records) == 1, "the first failure of a lease is always said"


def test_a_lease_with_limits_is_not_scheduled_as_the_others_are():
    """It was renewed for the last time, and wants attention at its end."""
    renewals = RenewalSchedule()
    port = SimpleNamespace(
        mutex=nullcontext(),
        renewals=renewals,
        now=lambda: NOW + 0.1,
        jitter=lambda: 0.0,
        run_in_background=None,
    )
    usual, last = hold(deadline=NOW + 20), hold(deadline=NOW + 20, max_renewals=1)
    maintain.apply_renewal(port, [usual, last], [30.0, 30.0], NOW, {})
    assert renewals.due(NOW + 15) == [usual]
    assert renewals.due(last.deadline + 0.1) == [last]


def renewed(*holds: Hold, answered: float = 0.1) -> SimpleNamespace:
    """Apply one renewal of 30 s to all these leases; return the port."""
    port = SimpleNamespace(
        mutex=nullcontext(),
        renewals=RenewalSchedule(),
        now=lambda: NOW + answered,
        jitter=lambda: 0.0,
        run_in_background=lambda *request: released.append(request[0].name),
    )
    port.released = released = []
    maintain.apply_renewal(port, holds, [30.0] * len(holds), NOW, {})
    return port


def test_leases_without_limits_are_renewed_together():
    usual, failed, grown = (hold(deadline=NOW + 20) for _ in range(3))
    failed.failures, failed.trouble = 2, NoReply("silent", sent=True)
    grown.short = True
    port = renewed(usual, failed, grown)
    assert {each.deadline for each in (usual, failed, grown)} == {NOW + validity(30.0)}
    assert (failed.failures, failed.trouble, grown.short) == (0, None, False)
    assert [each.renewals for each in (usual, failed, grown)] == [1, 1, 0]
    assert set(port.renewals.due(NOW + 10.1)) == {usual, failed, grown}


def test_an_observed_lease_is_notified_beside_others_that_are_renewed():
    """So the command of a shell, or a quorum's lease, learns of its new deadline."""
    seen = []
    usual, watched = hold(deadline=NOW + 20), hold(deadline=NOW + 20)
    watched.observe(SimpleNamespace(deadline_moved=lambda one: seen.append(one.deadline)))
    port = renewed(usual, watched)
    assert seen == [NOW + 20, NOW + validity(30.0)]
    assert set(port.renewals.due(NOW + 10.1)) == {usual, watched}


def test_a_released_lease_is_not_scheduled_beside_others_that_are_renewed():
    usual, gone = hold(deadline=NOW + 20), hold(deadline=NOW + 20)
    gone.open = False
    assert renewed(usual, gone).renewals.all_holds() == [usual]
    assert gone.deadline == NOW + 20


def test_a_lease_that_lasts_longer_already_keeps_its_end():
    usual, long = hold(deadline=NOW + 20), hold(deadline=NOW + 90)
    port = renewed(usual, long)
    assert long.deadline == NOW + 90
    assert port.renewals.due(NOW + 15) == [usual]


@pytest.mark.parametrize("ttl", [0.5, 5.0, 19.0])
def test_a_renewal_for_less_than_is_left_changes_nothing_and_puts_off_no_usual_one(ttl):
    """It is renewed by what is left of it, and not just before that ends."""
    one, schedule = hold(deadline=NOW + 20), RenewalSchedule()
    port = SimpleNamespace(
        mutex=nullcontext(), renewals=schedule, now=lambda: NOW + 0.1, jitter=lambda: 0.0
    )
    maintain.apply_renewal(port, [one], [ttl], NOW, {})
    assert one.deadline == NOW + 20
    assert schedule.due(NOW + 20 / 3) == [one]


@pytest.mark.parametrize("lost", [False, True], ids=["ended", "lost"])
def test_a_renewal_that_comes_after_the_end_revives_no_lease(lost):
    usual, late = hold(deadline=NOW + 20), hold(deadline=NOW + (20 if lost else 0.05))
    late.port = None
    if lost:
        late.lose("revoked", NOW)
    port = renewed(usual, late)
    assert port.renewals.all_holds() == [usual]
    assert port.released == ["release"]
    assert late.lost


@pytest.mark.parametrize("owned", [False, True])
def test_a_renewal_in_wire_form_says_what_the_request_says(owned):
    told = LeaseOptions(ttl=30.0, renew=True)
    holds = []
    for name in ("a", "b{c"):
        terms = Terms(
            keys=LockKeys("p:", name), options=told, client_channel=b"h", ttl=30.0, owned=owned
        )
        asked = Attempt(terms, name.encode(), owner=b"me" if owned else None)
        holds.append(Hold(SimpleNamespace(now=lambda: NOW, label=""), asked, 1, NOW))

    batch = RenewalBatch(holds)

    def same(ttls):
        return packed_renewal(batch, ttls) == pack_call(*renewal_request(holds, ttls))

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
    schedule.young[other] = NOW + 5.0
    assert schedule.next_at() == NOW + 0.016
