"""Clients that give back what they hold when they are closed, explored."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["shutdowns"])
test_a_sown_fault_is_found = finds(WORLDS["shutdowns"])
