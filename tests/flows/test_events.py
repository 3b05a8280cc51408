"""What hooks are told in every schedule: each request ends once, each grant ends once."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["events"])
test_a_sown_fault_is_found = finds(WORLDS["events"])
