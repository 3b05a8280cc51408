"""No failover takes a grant that was reported: every schedule of small worlds with a replica."""

from dataclasses import replace

import pytest

from tests.flows import acknowledged as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both

SCENARIOS = [
    scenario.under(**{fault: 1})
    for scenario in (worlds.TWO, worlds.TWO_IMPATIENT, worlds.OWNER)
    for fault in worlds.FAULTS
] + [
    worlds.TWO,
    worlds.TWO_LONG,
    worlds.TWO_LONG.under(unacked=1),
    worlds.TWO_LONG.under(failover=1),
    worlds.TWO_WORKING.under(unacked=1, failover=1),
    worlds.TWO.under(failover=1, cancel=1),
    worlds.TWO.under(unacked=1, cancel=1),
    worlds.TWO.under(unacked=1, lost=1),
    worlds.TWO.under(failover=1, late=1),
    worlds.TRIES.under(unacked=1, failover=1),
    worlds.POLLS.under(unacked=1),
    worlds.POLLS.under(failover=1),
    worlds.BY_HAND.under(unacked=1),
    worlds.MULTI.under(unacked=1),
    worlds.MULTI.under(cancel=1),
    worlds.MULTI.under(failover=1),
    worlds.ONCE.under(failover=1),
    worlds.ONCE.under(unacked=1),
    worlds.ONCE_SHORT.under(unacked=1),
]


@pytest.mark.parametrize("scenario", both(SCENARIOS), ids=lambda each: each.title)
def test_no_failover_takes_what_was_reported(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", worlds.SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)


def test_a_failover_takes_a_grant_that_nobody_counted():
    report = replace(worlds.TWO_WORKING, replicas=None).under(failover=1).explore()
    assert report.violation is not None
    assert report.violation.invariant == "I1"


def test_replicas_of_another_server_say_nothing_of_a_grant():
    report = replace(worlds.TWO_WORKING, replicas=worlds.careless).under(failover=1).explore()
    assert report.violation is not None
    assert report.violation.invariant == "I1"
