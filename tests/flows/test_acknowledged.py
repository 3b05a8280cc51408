"""No failover takes a grant that was reported: every schedule of small worlds with a replica."""

from dataclasses import replace

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS
from tests.flows.worlds import acknowledged as worlds

test_no_schedule_breaks_a_promise = explores(WORLDS["acknowledged"])
test_a_sown_fault_is_found = finds(WORLDS["acknowledged"])


def test_a_failover_takes_a_grant_that_nobody_counted():
    report = replace(worlds.TWO_WORKING, replicas=None).under(failover=1).explore()
    assert report.violation is not None
    assert report.violation.invariant == "I1"


def test_replicas_of_another_server_say_nothing_of_a_grant():
    report = replace(worlds.TWO_WORKING, replicas=worlds.careless).under(failover=1).explore()
    assert report.violation is not None
    assert report.violation.invariant == "I1"
