"""_core/deadlines.py: when a lease ends (I2)."""

import pytest

from fencelock._core import deadlines


@pytest.mark.parametrize(("ttl", "left"), [(30, 29.698), (1, 0.988), (0.01, 0.0079)])
def test_a_lease_counts_less_drift_and_rounding(ttl, left):
    assert deadlines.validity(ttl) == pytest.approx(left)


@pytest.mark.parametrize("ttl", [0.01, 0.5, 30, 3600])
def test_a_holder_gives_up_before_the_server_does(ttl):
    assert 0 < deadlines.validity(ttl) < ttl - 0.001


def test_a_grant_at_the_answer_counts_from_the_question():
    deadline = deadlines.handoff_deadline(100.0, 5_000_000, 5_000_000, 2.0, now=100.4)
    assert deadline == pytest.approx(100.0 + deadlines.validity(2.0))


def test_a_later_grant_counts_from_its_earliest_instant():
    # Granted 3 s after the answer by the server's clock, which may be 1 % fast.
    deadline = deadlines.handoff_deadline(100.0, 5_000_000, 8_000_000, 2.0, now=103.5)
    assert deadline == pytest.approx(102.97 + deadlines.validity(2.0))


@pytest.mark.parametrize("granted_us", [0, 4_000_000, 10**15])
def test_a_server_clock_that_jumped_moves_nothing_beyond_now(granted_us):
    deadline = deadlines.handoff_deadline(100.0, 5_000_000, granted_us, 2.0, now=103.5)
    assert 100.0 <= deadline - deadlines.validity(2.0) <= 103.5


@pytest.mark.parametrize("lease", [0.03, 2, 30])
def test_renewal_comes_at_a_third_or_a_little_before(lease):
    delays = [deadlines.renewal_delay(lease, jitter / 10) for jitter in range(10)]
    assert delays[0] == pytest.approx(lease / 3)
    assert delays == sorted(delays, reverse=True)
    assert delays[-1] > lease / 3 * 0.9


@pytest.mark.parametrize("began", [100.0, 103.7, 109.99, 112.5])
def test_leases_of_one_part_are_due_together_whenever_they_began(began):
    first = deadlines.align_to_part(began + 10, 30, 7)
    assert began <= first <= began + 10
    again = deadlines.align_to_part(first + 0.4 + 9.7, 30, 7)  # renewed a little late
    assert again == pytest.approx(first + 9)
    assert (again - deadlines.align_to_part(200.0, 30, 7)) % 9 == pytest.approx(0)


def test_retries_begin_at_once_and_slow_down():
    delays = [deadlines.retry_delay(attempt, 0.999) for attempt in range(12)]
    assert delays[0] == 0.0
    assert delays == sorted(delays)
    assert 0.005 < delays[1] <= 0.01
    assert delays[-1] == pytest.approx(0.5, rel=0.01)
    assert deadlines.retry_delay(10**6, 0.0) == 0.25


def test_two_renewals_may_fail_before_a_lease_ends():
    lease = 30.0
    third = deadlines.renewal_delay(lease, 0.0)
    assert 2 * third + 9 < deadlines.validity(lease)
