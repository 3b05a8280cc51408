"""A lock of a quorum of three in every schedule, with the flows and scripts that ship."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["quorums"])
test_a_sown_fault_is_found = finds(WORLDS["quorums"])
