"""No old master is believed: every schedule of small worlds behind Sentinels."""

import pytest

from tests.flows import sentinels as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both, by_turns


@pytest.mark.parametrize("scenario", both(worlds.DAILY), ids=lambda each: each.title)
def test_no_client_believes_an_old_master(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", by_turns(worlds.DEEP), ids=lambda each: each.title)
def test_no_client_believes_an_old_master_whatever_else_goes_wrong(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", worlds.SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
