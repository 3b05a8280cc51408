"""The daily tests find what is sown and marked as daily: of each invariant, and in each object."""

import pytest

from verification.mutations.daily import defects
from verification.mutations.real import tried

INVARIANTS = {f"I{number}" for number in range(1, 14)}
KINDS = {
    *("lock", "semaphore", "rwlock", "multi", "once", "election"),
    *("event", "latch", "barrier", "condition", "quorum", "replicas"),
}


def test_each_invariant_and_each_kind_of_object_has_a_daily_defect():
    assert {rule for each in defects() for rule in each.breaks.split()} >= INVARIANTS
    assert {each.daily for each in defects()} == KINDS


@pytest.mark.slow
@pytest.mark.parametrize("sown", defects(), ids=lambda each: f"{each.daily}: {each.name}")
def test_a_daily_test_finds_it(sown):
    """In a process of its own; a test that waits for the night finds nothing here."""
    assert tried(sown, "--part=daily"), sown.check
