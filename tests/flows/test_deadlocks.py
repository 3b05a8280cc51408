"""Deadlocks, explored: each cycle ends with one refusal, and nothing else is ever refused."""

import pytest

from tests.flows import deadlocks as worlds
from tests.flows import quorum_deadlocks as quorums
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded_deadlocks import QUORUM_SEEDS, SEEDS

DISTURBED = [each.under(**{fault: 1}) for each in worlds.UNDER_FAULTS for fault in worlds.FAULTS]
NIGHTLY = [
    *(each.threads() for each in worlds.ORDERED),
    *DISTURBED,
    *both(quorums.FURTHER),
    quorums.TWO.threads(),
]


@pytest.mark.parametrize(
    "scenario", [*both(worlds.SMALL), *worlds.LARGE, quorums.TWO], ids=lambda each: each.title
)
def test_nothing_breaks(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", NIGHTLY, ids=lambda each: each.title)
def test_nothing_breaks_at_night(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", QUORUM_SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found_on_a_quorum(seed):
    assert_found(seed)
