"""_core/lock/renewal_schedule.py and renew.py: which lease wants attention when."""

import asyncio
import random
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fencelock import ServerDenied, ServerError
from fencelock._core.keys import LockKeys
from fencelock._core.lock import renew
from fencelock._core.lock.hold import Hold, first_due
from fencelock._core.lock.renew import holder_renewal
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.request import AcquireRequest, LeaseOptions, RequestTemplate
from fencelock._core.types import NoReply

NOW = 1000.0


def hold(*, ttl: float = 30.0, deadline: float | None = None, **terms) -> Hold:
    told = LeaseOptions(**{"ttl": ttl, "renew": True, **terms})
    form = RequestTemplate(keys=LockKeys("p:", "a"), terms=told, client_channel=b"h", ttl=ttl)
    ends = NOW + ttl if deadline is None else deadline
    return Hold(SimpleNamespace(now=lambda: NOW, label=""), AcquireRequest(form, b"w"), 1, ends)


def test_an_empty_book_wants_nothing():
    book = RenewalSchedule()
    assert (book.next_at(), book.due(NOW), book.all_holds(), book.holds) == (None, [], [], 0)


def test_what_is_due_is_taken_out_and_nothing_else():
    book, soon, later = RenewalSchedule(), hold(), hold()
    book.add(later, NOW + 5)
    book.add(soon, NOW + 1)
    assert book.next_at() == pytest.approx(NOW + 1, abs=RenewalSchedule.GRAIN)
    assert book.due(NOW) == []
    assert book.due(NOW + 1.1) == [soon]
    assert book.due(NOW + 1.1) == []
    assert book.all_holds() == [later]
    assert book.holds == 1
    assert book.due(NOW + 6) == [later]
    assert book.next_at() is None


def test_nothing_is_due_before_the_instant_that_the_book_names():
    """A loop that sleeps until next_at() and then takes what is due makes progress each time."""
    book, chance = RenewalSchedule(), random.Random(7)
    for _ in range(500):
        book.add(hold(), NOW + chance.random() * 3)
    rounds = 0
    while (at := book.next_at()) is not None:
        assert book.due(at), "woken for nothing"
        rounds += 1
    assert (book.holds, book.all_holds()) == (0, [])
    assert rounds <= 500


def test_a_discarded_hold_leaves_nothing_behind():
    book, one, two = RenewalSchedule(), hold(), hold()
    book.discard(one)
    book.add(one, NOW + 1)
    book.add(two, NOW + 1)
    book.discard(one)
    book.discard(one)
    assert (book.holds, book.all_holds()) == (1, [two])
    book.discard(two)
    assert (book.holds, book.next_at(), book._buckets) == (0, None, {})


def test_a_hold_that_was_due_may_be_discarded():
    book, one = RenewalSchedule(), hold()
    book.add(one, NOW)
    assert book.due(NOW + 1) == [one]
    book.discard(one)
    assert book.holds == 0


def test_a_book_of_many_counts_right():
    book, chance, inside = RenewalSchedule(), random.Random(3), set()
    holds = [hold() for _ in range(200)]
    for _ in range(5000):
        one = chance.choice(holds)
        if one in inside:
            book.discard(one)
            inside.discard(one)
        else:
            book.add(one, NOW + chance.random() * 10)
            inside.add(one)
    assert book.holds == len(inside)
    assert set(book.all_holds()) == inside
    assert set(book.due(NOW + 20)) == inside


def test_a_renewed_lease_wants_attention_well_before_its_end():
    at = first_due(hold(), 30.0, 0.0, NOW)
    assert NOW + 8.5 < at <= NOW + 10


@pytest.mark.parametrize(
    "terms", [{"renew": False}, {"max_renewals": 0}], ids=["fixed", "no renewals"]
)
def test_any_other_lease_wants_it_at_its_end(terms):
    one = hold(ttl=5.0, **terms)
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
    book, one, two = RenewalSchedule(), hold(), hold()
    book.add(one, NOW)
    book.add(two, NOW + 5)
    assert book.due(NOW + 1) == [one]
    assert (set(book.tracked()), book.busy) == ({one, two}, True)
    book.add(one, NOW + 10)
    assert sorted(book.tracked(), key=id) == sorted([one, two], key=id)
    book.clear()
    assert (book.tracked(), book.busy, book.next_at()) == ([], False, None)


@pytest.mark.parametrize("ends", [(0.4, 0.6), (0.6, 0.4)])
def test_the_first_end_is_the_earliest_of_those_that_want_attention_together(ends):
    book = RenewalSchedule()
    for end in ends:
        book.add(hold(deadline=NOW + end), NOW + 0.1)
    assert book.first_end(NOW + 1) == NOW + 0.4


def test_the_first_end_is_that_of_what_is_in_the_book():
    book = RenewalSchedule()
    soon, later = hold(deadline=NOW + 0.4), hold(deadline=NOW + 0.6)
    book.add_all([soon, later, hold()], NOW + 0.3)
    assert book.first_end(NOW + 1) == NOW + 0.4
    book.discard(soon)
    assert book.first_end(NOW + 1) == NOW + 0.6
    book.discard(later)
    assert book.first_end(NOW + 1) > NOW + 1


def test_only_what_waits_is_moved():
    book, waits, taken, gone = RenewalSchedule(), hold(), hold(), hold()
    for each in (taken, gone, waits):
        book.add(each, NOW + 5 * (each is waits))
    book.discard(gone)
    assert book.due(NOW) == [taken]
    book.move([waits, taken, gone], NOW + 1)
    assert (book.all_holds(), list(book.under_way), book.next_at()) == ([waits], [taken], NOW + 1)


def test_short_holds_one_after_another_leave_nothing_in_the_order():
    book = RenewalSchedule()
    for number in range(1000):
        one = hold()
        book.add(one, NOW + number)
        book.discard(one)
    assert len(book._order) <= 70
    book.add(one, NOW)
    assert book.next_at() == NOW


@pytest.mark.parametrize(
    ("ttl", "may", "shortens"),
    [(10.0, True, True), (10.0, False, False), (60.0, True, False), (60.0, False, False)],
)
@pytest.mark.parametrize("most", [None, 20.0])
def test_only_a_renewal_that_asks_for_less_than_is_left_shortens_a_lease(ttl, may, shortens, most):
    """A limit that is near leaves less than was asked for: that is no wish to shorten."""
    wish = holder_renewal(hold(deadline=NOW + 30.0, max_hold=most), ttl, NOW, shortens=may)
    assert wish.shortens is shortens


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
    monkeypatch.setattr(renew, "put_back", lambda *_: None)
    port = SimpleNamespace(
        now=lambda: NOW, jitter=lambda: 0.5, mutex=nullcontext, book=RenewalSchedule()
    )
    with caplog.at_level("INFO"):
        asyncio.run(renew.failed(port, [hold()], error))
    assert [each.levelname for each in caplog.records] == [level]
    assert str(error) in caplog.text


def test_a_lease_with_limits_is_not_scheduled_as_the_others_are():
    """It was renewed for the last time, and wants attention at its end."""
    book = RenewalSchedule()
    port = SimpleNamespace(
        mutex=nullcontext,
        book=book,
        now=lambda: NOW + 0.1,
        jitter=lambda: 0.0,
        run_in_background=None,
    )
    usual, last = hold(deadline=NOW + 20), hold(deadline=NOW + 20, max_renewals=1)
    renew.apply_renewal(port, [usual, last], [30.0, 30.0], NOW, {})
    assert book.due(NOW + 15) == [usual]
    assert book.due(last.deadline + 0.1) == [last]
