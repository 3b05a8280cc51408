"""A Cluster in the simulator: slots that move, a master that is replaced; the shipping code."""

import pytest

from tests.flows import clusters
from tests.flows.exploring import assert_found, assert_nothing_breaks, both

QUIET = [clusters.ALONE, clusters.TWO, clusters.TWO_WORKING, clusters.TRIES]
DISTURBED = [
    *(clusters.ALONE.under(**{fault: 1}) for fault in clusters.FAULTS),
    clusters.LONG.under(move=1),
    clusters.LONG.under(migrate=1),
    clusters.TWICE.under(migrate=1),
    clusters.TWICE.under(freeze=1),
    *(
        scenario.under(**{fault: 1})
        for scenario in (clusters.TWO, clusters.TWO_WORKING, clusters.IMPATIENT)
        for fault in ("move", "gone")
    ),
    clusters.HANDED_OVER.under(move=1),
    clusters.PLAIN.under(move=1),
    clusters.PLAIN.under(gone=1),
    clusters.TRIES.under(move=1),
    clusters.TRIES.under(gone=1),
]
# Not all of these is covered: what follows the fault is full of retries.
DEEP = [
    clusters.TRIES.under(freeze=1),
    clusters.AGAIN.under(move=1),
    clusters.AGAIN.under(gone=1),
    clusters.AGAIN.under(freeze=1),
    clusters.IMPATIENT.under(freeze=1),
    clusters.TWO.under(freeze=1),
    clusters.TWO.under(migrate=1),
]
SCHEDULES = 2000


@pytest.mark.parametrize("scenario", both(QUIET + DISTURBED), ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", both(DEEP), ids=lambda each: each.title)
def test_no_schedule_of_a_larger_world_breaks_an_invariant(scenario):
    report = scenario.explore(seconds=150, schedules=SCHEDULES)
    assert report.violation is None, report.story()
    assert report.complete or report.schedules == SCHEDULES


@pytest.mark.parametrize("seed", clusters.SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
