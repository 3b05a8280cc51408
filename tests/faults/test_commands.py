"""Two commands per acquisition, however many wait (I5); the table is printed by count_commands."""

import pytest

from tests.faults.count_commands import calls, counts

# A waiter that stands for long proves now and then that it lives, and a lease is renewed.
ALLOWED = 0.1


@pytest.mark.slow
@pytest.mark.parametrize("waiters", [2, 100])  # thousands: tests/scale
@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_an_acquisition_costs_two_commands(kind, waiters):
    sent, taken = counts(kind, waiters)
    assert 2.0 <= calls(sent) / taken < 2.0 + ALLOWED, sent
