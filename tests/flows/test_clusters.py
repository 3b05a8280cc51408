"""A Cluster whose slots move and whose masters are replaced, explored; and each fault found."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["clusters"])
test_a_sown_fault_is_found = finds(WORLDS["clusters"])
