"""A Cluster in the simulator: slots that move, a master that is replaced; the shipping code."""

import pytest

from tests.flows import cluster_multis, clusters
from tests.flows.exploring import assert_found, assert_nothing_breaks, both, by_turns

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
    clusters.PATIENT.under(unserved=1),
    clusters.PATIENT.under(isolated=1),
    clusters.COUNTED.under(gone=1),
    clusters.COUNTED.under(isolated=1),
    *cluster_multis.ALONE,
    *(scenario.under(move=1) for scenario in cluster_multis.ALONE),
]
LARGE = [
    clusters.TRIES.under(freeze=1),
    clusters.AGAIN.under(move=1),
    clusters.AGAIN.under(gone=1),
    clusters.TWO.under(migrate=1),
    *cluster_multis.TWO,
    *cluster_multis.GIVING_UP,
    *(
        scenario.under(**{fault: 1})
        for scenario in cluster_multis.ALL
        for fault in ("move", "gone", "crash", "cancel")
    ),
    *(
        scenario.under(**{fault: 1})
        for scenario in cluster_multis.ALONE
        for fault in ("migrate", "unserved", "isolated")
    ),
    *(
        scenario.under(**{fault: 1})
        for scenario in (clusters.TWICE, clusters.TWO, clusters.TWO_WORKING, clusters.TRIES)
        for fault in ("unserved", "isolated")
    ),
    *(
        scenario.under(**{fault: 1})
        for scenario in (clusters.COUNTED, clusters.COUNTED_LONG)
        for fault in ("move", "migrate", "freeze", "unserved")
    ),
    *(
        scenario.under(**faults)
        for scenario in (clusters.COUNTED_WORKING, clusters.COUNTED_FIXED, clusters.COUNTED_LINE)
        for faults in ({"move": 1}, {"gone": 1}, {"isolated": 1}, {"unacked": 1, "gone": 1})
    ),
    # Of more than 15,000 schedules of each: what follows the fault is full of retries.
    clusters.AGAIN.under(freeze=1),
    clusters.IMPATIENT.under(freeze=1),
    clusters.TWO.under(freeze=1),
]

# While nobody serves a slot it is asked for again and again: such a schedule takes as long as many
# others. No sown defect needed more than five of them.
OF_RETRIES = 100


@pytest.mark.parametrize("scenario", both(QUIET + DISTURBED), ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", by_turns(LARGE), ids=lambda each: each.title)
def test_no_schedule_of_a_world_for_the_night_breaks_an_invariant(scenario):
    retries = "unserved" in scenario.budgets
    assert_nothing_breaks(scenario, schedules=OF_RETRIES if retries else None)


@pytest.mark.parametrize("seed", clusters.SEEDS + cluster_multis.SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
