"""What a client remembers of the recalls of leases that it keeps."""

import pytest

from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.waiting import PAUSE_SECONDS, REMEMBERED_MAX, Recalls

HOLDER, KEY = b"*1", ("lock", 30.0)


@pytest.fixture
def recalls():
    return Recalls()


def test_a_recall_that_comes_before_the_grant_counts(recalls):
    recalls.early(HOLDER)
    assert recalls.came_before(HOLDER)
    assert not recalls.came_before(HOLDER), "it counts once"


def test_no_recall_counts_for_another_tenure(recalls):
    recalls.early(b"*2")
    assert not recalls.came_before(HOLDER)


def test_two_recalls_without_use_in_between_pause_the_keeping(recalls):
    recalls.recalled(KEY, 1.0)
    assert not recalls.paused(KEY, 1.0)
    recalls.recalled(KEY, 2.0)
    assert recalls.paused(KEY, 2.0)
    assert recalls.paused(KEY, 1.9 + PAUSE_SECONDS)
    assert not recalls.paused(("other", 30.0), 2.0)
    assert not recalls.paused(KEY, 2.0 + PAUSE_SECONDS)
    recalls.recalled(KEY, 40.0)
    assert not recalls.paused(KEY, 40.0), "it is counted afresh"


def test_use_between_two_recalls_keeps_it_going(recalls):
    for now in range(10):
        recalls.recalled(KEY, float(now))
        recalls.used(KEY)
        assert not recalls.paused(KEY, float(now))


def test_what_is_remembered_is_bounded(recalls):
    for number in range(REMEMBERED_MAX + 10):
        recalls.early(b"%d" % number)
        recalls.recalled(("lock", number), 1.0)
        recalls.recalled(("lock", number), 1.0)
    assert not recalls.came_before(b"0")
    assert recalls.came_before(b"%d" % (REMEMBERED_MAX + 9))
    assert not recalls.paused(("lock", 0), 1.0)
    assert recalls.paused(("lock", REMEMBERED_MAX + 9), 1.0)


def test_the_schedule_wakes_for_leases_that_may_be_idle():
    renewals = RenewalSchedule()
    assert renewals.next_at() is None
    renewals.watch("later", 3.0)
    renewals.watch("sooner", 2.0)
    assert renewals.next_at() == 2.0
    assert renewals.busy
    assert renewals.overdue(1.0) == []
    assert renewals.overdue(2.5) == ["sooner"]
    assert renewals.next_at() == 3.0
    renewals.clear()
    assert not renewals.busy
