"""Leases that are kept while they are idle, explored; and each fault sown into them is found."""

import pytest

from tests.flows import kept as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both, by_turns
from tests.flows.seeded_kept import SEEDS

FAULTS = (
    "lost",
    "silent",
    "wake",
    "noise",
    "expiry",
    "crash",
    "pause",
    "cancel",
    "back",
    "restart",
)
LARGE = (worlds.TRIED_TWICE, worlds.FOREIGN, worlds.TASKS, worlds.LATER, worlds.GROWN)
DISTURBED = [
    each.under(**{fault: 1}) for each in worlds.ALL if each not in LARGE for fault in FAULTS
]


@pytest.mark.parametrize("scenario", both(worlds.ALL), ids=lambda each: each.title)
def test_nothing_breaks(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", by_turns(DISTURBED), ids=lambda each: each.title)
def test_nothing_breaks_under_a_fault(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
