"""Whether a node of a Cluster that answered is its slot's master: what others say decides."""

import pytest

from fencelock._ports.blocking import run_blocking
from fencelock._topology.master_check import (
    PROMPT_SECONDS,
    SILENT_SECONDS,
    SURE_SECONDS,
    Node,
    Proofs,
)
from fencelock.clock import now

ONE, NEW, OTHER, THIRD = (Node("10.0.0.1", port) for port in range(7000, 7004))


class Clock:
    at = 100.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


def found(proofs, words, others=(OTHER, THIRD), replicas=()):
    """Inquire about ONE, with these words of others; return the result and who was asked."""
    asked = []

    async def named(node):
        asked.append(node)
        return words.get(node)

    return run_blocking(proofs.inquire(ONE, replicas, others, named)), asked


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
    proofs = Proofs()
    assert found(proofs, words) == (result, asked)
    assert proofs.covers(ONE, now()) is (result is True)


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
    assert found(Proofs(), words, [NEW], [OTHER, THIRD]) == (result, asked)


def test_who_was_silent_is_not_asked_again_for_a_while(clock):
    proofs = Proofs(clock)
    assert found(proofs, {THIRD: ONE}) == (True, [OTHER, THIRD])
    assert found(proofs, {THIRD: ONE}) == (True, [THIRD])
    clock.at += SILENT_SECONDS
    assert found(proofs, {OTHER: ONE}) == (True, [OTHER])


def test_nobody_else_is_there():
    assert found(Proofs(), {}, others=()) == (None, [])


def test_prompt_answers_prove_it_for_another_second(clock):
    proofs = Proofs(clock)
    assert not proofs.counts(ONE, clock.at)
    found(proofs, {OTHER: ONE})
    for _ in range(3):
        clock.at += SURE_SECONDS
        assert proofs.counts(ONE, clock.at)
    assert not proofs.counts(NEW, clock.at)


def test_a_second_without_an_answer_or_a_late_one_proves_nothing(clock):
    proofs = Proofs(clock)
    found(proofs, {OTHER: ONE})
    asked_at = clock.at
    clock.at += PROMPT_SECONDS * 1.1
    assert not proofs.counts(ONE, asked_at)
    clock.at = asked_at + SURE_SECONDS * 1.1
    assert not proofs.counts(ONE, clock.at)
    assert not proofs.covers(ONE, clock.at)
