"""The linearizability check: against histories known to be right and wrong, and all small ones."""

import itertools
import math

import pytest

from tests.verification.orders import explained, instants, interleavings
from verification.runs.checker import WRITER
from verification.runs.models import Leases, fenced_mutex, mutex, reader_writer, semaphore
from verification.runs.wgl import Call, TooHard, first_impossible

NEVER = math.inf
ENDS = ("release", "lost answer", "expire")


def acquire(lease, begun, ended, fence=None, weight=1):
    return Call("acquire", lease, begun, ended, weight, fence)


def release(lease, begun, ended, weight=1):
    return Call("release", lease, begun, ended, weight)


def expire(lease, begun, weight=1):
    return Call("expire", lease, begun, weight=weight)


def renew(lease, begun, ended):
    return Call("renew", lease, begun, ended)


def refused(lease, begun, ended, weight=1):
    return Call("refused", lease, begun, ended, weight)


RIGHT = {
    "nothing": (mutex(), []),
    "an unknown call that had no effect": (
        mutex(),
        [acquire("a", 0, NEVER), acquire("b", 1, 2), refused("c", 3, 4), release("b", 5, 6)],
    ),
    "fences grow": (
        fenced_mutex(),
        [acquire("a", 0, 1, 7), release("a", 2, 3), acquire("b", 4, 5, 8)],
    ),
    "fences tell the order": (
        fenced_mutex(),
        [acquire("a", 0, 9, 8), acquire("b", 0, 9, 7), expire("a", 9), expire("b", 1)],
    ),
    "an unknown fence": (
        fenced_mutex(),
        [acquire("a", 0, 1, 7), release("a", 2, 3), acquire("b", 4, 5), release("b", 6, 7)],
    ),
    "readers together": (reader_writer(), [acquire("a", 0, 1, 1), acquire("b", 2, 3, 2)]),
    "a writer after the readers": (
        reader_writer(),
        [
            acquire("a", 0, 1, 1),
            acquire("b", 0, 2, 2),
            acquire("w", 1, 9, 3, WRITER),
            release("a", 3, 4),
            release("b", 5, 8),
        ],
    ),
    "a reader is refused while one writes": (
        reader_writer(),
        [acquire("w", 0, 1, 1, WRITER), refused("r", 2, 3)],
    ),
    "permits together": (semaphore(2), [acquire("a", 0, 1, 1), acquire("b", 2, 3, 2)]),
    "permits come back": (
        semaphore(2),
        [acquire("a", 0, 1, 1, 2), acquire("b", 2, 9, 2), release("a", 3, 4, 2)],
    ),
    "refused while all is out, and an end later": (
        semaphore(2),
        [
            acquire("a", 0, 1, 1),
            expire("a", 2),
            acquire("b", 2, 5, 2),
            refused("c", 6, 7),
            acquire("d", 8, 9, 3),
        ],
    ),
    "an end without an answer that was asked for before the grant": (
        semaphore(2),
        [
            release("a", 0, NEVER),
            acquire("b", 1, 2),
            acquire("a", 3, 4),
            refused("c", 5, 6),
            acquire("d", 7, 8),
        ],
    ),
    "two permits are refused while one is out": (
        semaphore(2),
        [acquire("a", 0, 1, 1), refused("b", 2, 3, 2)],
    ),
}

WRONG = {
    "renewed after another was granted": (
        mutex(),
        [acquire("a", 0, 1), expire("a", 2), acquire("b", 3, 4), renew("a", 5, 6)],
    ),
    "renewed after the release": (
        mutex(),
        [acquire("a", 0, 1), release("a", 2, 3), renew("a", 4, 5)],
    ),
    "released twice": (mutex(), [acquire("a", 0, 1), release("a", 2, 3), release("a", 4, 5)]),
    "released without holding": (mutex(), [release("a", 0, 1)]),
    "a fence again": (
        fenced_mutex(),
        [acquire("a", 0, 1, 7), release("a", 2, 3), acquire("b", 4, 5, 7)],
    ),
    "a fence that went back": (
        fenced_mutex(),
        [acquire("a", 0, 1, 8), release("a", 2, 3), acquire("b", 4, 5, 7)],
    ),
    "fences against the order of exclusion": (
        fenced_mutex(),
        [acquire("a", 0, 9, 8), acquire("b", 0, 2, 7), release("a", 10, 11), release("b", 20, 21)],
    ),
    "a writer beside a reader": (
        reader_writer(),
        [acquire("r", 0, 1, 1), acquire("w", 2, 3, 2, WRITER)],
    ),
    "a reader beside a writer": (
        reader_writer(),
        [acquire("w", 0, 1, 1, WRITER), acquire("r", 2, 3, 2)],
    ),
    "two writers": (
        reader_writer(),
        [acquire("w", 0, 1, 1, WRITER), acquire("v", 2, 3, 2, WRITER)],
    ),
    "a reader is refused beside readers": (
        reader_writer(),
        [acquire("r", 0, 1, 1), refused("q", 2, 3)],
    ),
    "a reader's fence went back": (
        reader_writer(),
        [acquire("r", 0, 1, 2), acquire("q", 2, 3, 1)],
    ),
    "one permit too many": (
        semaphore(2),
        [acquire("a", 0, 1, 1), acquire("b", 2, 3, 2), acquire("c", 4, 5, 3)],
    ),
    "two permits where one is left": (
        semaphore(2),
        [acquire("a", 0, 1, 1), acquire("b", 2, 3, 2, 2)],
    ),
    "refused though a permit is left": (semaphore(2), [acquire("a", 0, 1, 1), refused("b", 2, 3)]),
    "a permit's fence went back": (semaphore(2), [acquire("a", 0, 1, 2), acquire("b", 2, 3, 1)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_explained(name):
    model, calls = RIGHT[name]
    assert first_impossible(calls, model) is None
    assert explained(calls, model)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_has_no_explanation(name):
    model, calls = WRONG[name]
    assert first_impossible(calls, model) in calls
    assert not explained(calls, model)


@pytest.mark.parametrize("ends", list(itertools.product(ENDS, repeat=2)))
def test_all_histories_of_two_leases_and_a_refusal_are_judged_as_by_trying_all(ends):
    """Each lease is acquired and ended, somebody is refused: 3,150 orders of the events."""
    right = 0
    for order in interleavings((4, 4, 2)):
        *leases, (begun, ended) = instants(order)
        calls = [refused("c", begun, ended)]
        for lease, end, at in zip("ab", ends, leases, strict=True):
            calls += [acquire(lease, *at[:2]), ending(lease, end, at)]
        found = first_impossible(calls, mutex())
        assert (found is None) == explained(calls, mutex()), calls
        right += found is None
    assert 0 < right < 3150


@pytest.mark.parametrize("model", [mutex(), semaphore(2)], ids=["mutex", "semaphore"])
def test_all_histories_with_a_lost_answer_to_acquire_are_judged_as_by_trying_all(model):
    """One lease is had, of another's acquire no answer came; twice somebody is refused."""
    right = 0
    for order in interleavings((4, 1, 2, 2)):
        (a, b, c, d), (asked,), first, second = instants(order)
        calls = [acquire("a", a, b), release("a", c, d), acquire("b", asked, NEVER)]
        calls += [expire("b", asked), refused("c", *first), refused("d", *second, weight=2)]
        found = first_impossible(calls, model)
        assert (found is None) == explained(calls, model), calls
        right += found is None
    assert right > 0


def ending(lease, how, at):
    if how == "expire":
        return expire(lease, at[2])
    return release(lease, at[2], NEVER if how == "lost answer" else at[3])


def test_a_search_that_grows_too_large_is_no_answer():
    calls = [acquire(str(n), 0, 100, n, 1) for n in range(12)]
    with pytest.raises(TooHard):
        first_impossible(calls, Leases(limit=12), budget=1000)


def test_thousands_of_calls_take_no_time():
    calls = []
    for n in range(0, 4000, 2):
        calls += [acquire(str(n), n, n + 1, n + 1), expire(str(n), n + 1)]
        calls += [refused(f"r{n}", n + 0.5, n + 1.5)]
    assert first_impossible(calls, fenced_mutex()) is None
