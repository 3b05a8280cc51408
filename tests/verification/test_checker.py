"""The interval checks: on all small histories, and against the linearizability check."""

import itertools

import pytest

from tests.verification.orders import instants, interleavings
from verification.runs.checker import (
    WRITER,
    fences_that_went_back,
    longest_gap,
    overlaps,
    refused_though_proved,
    stale_accepted,
)
from verification.runs.history import Tenure, Write
from verification.runs.models import Leases
from verification.runs.wgl import Call, first_impossible

# Each of three leases is asked for, granted and ended: all orders of these nine events.
ORDERS = [instants(order) for order in interleavings((3, 3, 3))]
OBJECTS = {
    "lock": (1, (1, 1, 1)),
    "readers and a writer": (WRITER, (1, WRITER, 1)),
    "two writers": (WRITER, (WRITER, 1, WRITER)),
    "readers": (WRITER, (1, 1, 1)),
    "two permits": (2, (1, 1, 1)),
    "large and small requests": (3, (2, 1, 2)),
}


def tenures(times, weights, fences):
    rows = zip("abc", times, weights, fences, strict=True)
    return [Tenure("x", name, weight, fence, *at) for name, at, weight, fence in rows]


def calls(history, *, fenced):
    for one in history:
        fence = one.fence if fenced else None
        yield Call("acquire", one.number, one.asked, one.start, one.weight, fence)
        yield Call("expire", one.number, one.end, weight=one.weight)


@pytest.mark.parametrize("name", OBJECTS)
def test_overlaps_are_what_cannot_be_linearized(name):
    limit, weights = OBJECTS[name]
    wrong = 0
    for times in ORDERS:
        history = tenures(times, weights, (1, 2, 3))
        found = overlaps(history, limit)
        impossible = first_impossible(calls(history, fenced=False), Leases(limit))
        assert bool(found) == (impossible is not None), history
        wrong += bool(found)
    assert (wrong > 0) == (sum(weights) > limit)


@pytest.mark.parametrize("fences", list(itertools.permutations((1, 2, 3))))
def test_fences_of_a_lock_that_went_back_are_what_cannot_be_linearized(fences):
    wrong = 0
    for times in ORDERS:
        history = tenures(times, (1, 1, 1), fences)
        if overlaps(history, 1):
            continue
        found = fences_that_went_back(history, 1, exclusive=True)
        impossible = first_impossible(calls(history, fenced=True), Leases(1, fenced=True))
        assert bool(found) == (impossible is not None), history
        wrong += bool(found)
    assert wrong > 0


@pytest.mark.parametrize("name", OBJECTS)
def test_fences_are_not_blamed_where_an_order_explains_them(name):
    limit, weights = OBJECTS[name]
    wrong = 0
    for times, fences in itertools.product(ORDERS[::7], itertools.permutations((1, 2, 3))):
        history = tenures(times, weights, fences)
        if first_impossible(calls(history, fenced=True), Leases(limit, fenced=True)) is None:
            assert fences_that_went_back(history, limit, exclusive=True) == []
        wrong += bool(fences_that_went_back(history, limit, exclusive=False))
    assert wrong > 0


def test_the_same_fence_twice_went_back():
    history = tenures([(0, 1, 2), (3, 4, 5), (6, 7, 8)], (1, 1, 1), (5, 5, 6))
    assert len(fences_that_went_back(history, 1, exclusive=False)) == 1


def test_the_same_fence_twice_went_back_also_of_who_asked_at_the_same_time():
    history = tenures([(0, 1, 2), (0, 4, 5), (0, 7, 8)], (1, 1, 1), (5, 5, 6))
    assert fences_that_went_back(history, 1, exclusive=False) == []
    assert len(fences_that_went_back(history, 1, exclusive=True)) == 1


def test_leases_that_only_touch_do_not_overlap():
    history = tenures([(0, 1, 2), (0, 2, 3), (0, 3, 4)], (1, 1, 1), (1, 2, 3))
    assert overlaps(history, 1) == []


def test_what_was_never_proved_overlaps_with_nothing():
    history = tenures([(0, 1, 9), (2, 3, 3), (2, 3, 2)], (1, 1, 1), (1, 2, 3))
    assert overlaps(history, 1) == []


def test_an_accepted_write_with_an_older_fence_is_seen():
    writes = [Write("x", 5, accepted=True, proved=True, order=1)]
    writes += [Write("y", 4, accepted=True, proved=True, order=2)]
    assert stale_accepted(writes) == []
    old = Write("x", 4, accepted=True, proved=False, order=3)
    assert stale_accepted([old, *writes]) == [(writes[0], old)]


def test_a_proved_write_that_was_refused_is_seen():
    good = Write("x", 5, accepted=True, proved=True, order=1)
    stale = Write("x", 4, accepted=False, proved=False, order=0)
    bad = Write("x", 4, accepted=False, proved=True, order=0)
    assert refused_though_proved([good, stale, bad]) == [bad]


def test_the_longest_gap_counts_both_ends():
    assert longest_gap([3, 1, 2], 0, 10) == (7, 10)
    assert longest_gap([], 0, 4) == (4, 4)
