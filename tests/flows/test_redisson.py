"""Locks in Redisson's layout in every schedule of small worlds, beside threads of Java programs."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["redisson"])
test_a_sown_fault_is_found = finds(WORLDS["redisson"])
