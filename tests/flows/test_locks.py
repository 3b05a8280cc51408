"""A lock in every schedule of small worlds, with the flows and scripts that ship."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["locks"])
test_a_sown_fault_is_found = finds(WORLDS["locks"])
