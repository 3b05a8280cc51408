"""Elections, explored; and each fault sown into them is found."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["elections"])
test_a_sown_fault_is_found = finds(WORLDS["elections"])
