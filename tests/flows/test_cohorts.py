"""Cohorts: small worlds to their end under every fault, and faults sown on purpose."""

import pytest

from tests.flows import cohorts as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both, by_turns
from tests.flows.seeded_cohorts import SEEDS


@pytest.mark.parametrize("scenario", both(worlds.ALL + worlds.DAILY), ids=lambda each: each.title)
def test_no_schedule_breaks_a_promise(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", by_turns(worlds.NIGHTLY), ids=lambda each: each.title)
def test_no_schedule_breaks_a_promise_whatever_goes_wrong(scenario):
    assert_nothing_breaks(scenario, schedules=worlds.SCHEDULES)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", by_turns(worlds.ELSEWHERE), ids=lambda each: each.title)
def test_no_schedule_breaks_a_promise_on_another_topology(scenario):
    assert_nothing_breaks(scenario, schedules=worlds.SCHEDULES)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
