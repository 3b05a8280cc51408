"""Whether a node of a Cluster that answered is its slot's master: what others say decides."""

import pytest

from fencelock._io.threads import run_blocking
from fencelock._runtime.clock import now
from fencelock._topology.slots import (
    PROMPT_SECONDS,
    SILENT_SECONDS,
    SURE_SECONDS,
    MasterCheck,
    NodeAddress,
)

ONE, NEW, OTHER, THIRD = (NodeAddress("10.0.0.1", port) for port in range(7000, 7004))


class Clock:
    at = 100.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


def found(check, words, others=(OTHER, THIRD), replicas=()):
    """Inquire about ONE, with these words of others; return the result and who was asked."""
    asked = []

    async def named(node):
        asked.append(node)
        return words.get(node)

    return run_blocking(check.inquire(ONE, replicas, others, named)), asked


@pytest.mark.parametrize(
    ("words", "result", "asked"),
    [
        ({OTHER: ONE}, True, [OTHER]),
        ({OTHER: OTHER}, False, [OTHER]),  # it took its place
        ({OTHER: NEW, NEW: NEW}, False, [OTHER, NEW]),
        ({OTHER: NEW, NEW: ONE}, True, [OTHER, NEW]),  # the slot moved, and OTHER has not heard
        ({OTHER: NEW}, False, [OTHER, NEW]),  # whom it names is silent
        ({THIRD: ONE}, True, [OTHER, THIRD]),
        ({}, None, [OTHER, THIRD]),
    ],
)
def test_what_others_say(words, result, asked):
    check = MasterCheck()
    assert found(check, words) == (result, asked)
    assert check.covers(ONE, now()) is (result is True)


@pytest.mark.parametrize(
    ("words", "result", "asked"),
    [
        ({OTHER: ONE, THIRD: ONE}, True, [OTHER, THIRD]),
        ({OTHER: ONE, THIRD: THIRD}, False, [OTHER, THIRD]),  # one that knows is enough
        ({OTHER: OTHER, THIRD: ONE}, False, [OTHER]),
        ({OTHER: ONE}, True, [OTHER, THIRD]),
        ({NEW: ONE}, True, [OTHER, THIRD, NEW]),  # replicas are silent
        ({}, None, [OTHER, THIRD, NEW]),
    ],
)
def test_replicas_know_first_and_all_are_asked(words, result, asked):
    assert found(MasterCheck(), words, [NEW], [OTHER, THIRD]) == (result, asked)


def test_who_was_silent_is_not_asked_again_for_a_while(clock):
    check = MasterCheck(clock)
    assert found(check, {THIRD: ONE}) == (True, [OTHER, THIRD])
    assert found(check, {THIRD: ONE}) == (True, [THIRD])
    clock.at += SILENT_SECONDS
    assert found(check, {OTHER: ONE}) == (True, [OTHER])


def test_one_that_is_alone_is_not_looked_into_with_each_answer():
    check = MasterCheck()
    assert found(check, {}, others=()) == (None, [])
    assert check.counts(ONE, now())


def test_prompt_answers_prove_it_for_another_second(clock):
    check = MasterCheck(clock)
    assert not check.counts(ONE, clock.at)
    found(check, {OTHER: ONE})
    for _ in range(3):
        clock.at += SURE_SECONDS
        assert check.counts(ONE, clock.at)
    assert not check.counts(NEW, clock.at)


def test_a_second_without_an_answer_or_a_late_one_proves_nothing(clock):
    check = MasterCheck(clock)
    found(check, {OTHER: ONE})
    asked_at = clock.at
    clock.at += PROMPT_SECONDS * 1.1
    assert not check.counts(ONE, asked_at)
    clock.at = asked_at + SURE_SECONDS * 1.1
    assert not check.counts(ONE, clock.at)
    assert not check.covers(ONE, clock.at)
