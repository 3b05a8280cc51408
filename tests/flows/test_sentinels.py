"""No old master is believed: every schedule of small worlds behind Sentinels."""

from tests.flows.exploring import explores, finds
from tests.flows.registry import WORLDS

test_no_schedule_breaks_a_promise = explores(WORLDS["sentinels"])
test_a_sown_fault_is_found = finds(WORLDS["sentinels"])
