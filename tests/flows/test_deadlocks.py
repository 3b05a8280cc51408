"""Waits in a cycle: each cycle ends with one refusal, and nothing else is ever refused."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["deadlocks"])
test_a_sown_fault_is_found = finds(WORLDS["deadlocks"])
