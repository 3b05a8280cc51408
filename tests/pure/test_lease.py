"""hold.py: a lease by the local clock alone, and lost only once (I2, I8)."""

import time
from types import SimpleNamespace

import pytest

from fencelock import LeaseLost, NotHeld
from tests.pure.made import held


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lease(clock):
    return held(110.0, fence=7, ttl=10.0, clock=clock)


def test_it_holds_until_its_deadline(lease, clock):
    assert (lease.lost, lease.remaining(), lease.deadline) == (False, 10.0, 110.0)
    lease.check()
    clock.now = 109.99
    lease.check()
    clock.now = 110.0
    assert (lease.lost, lease.remaining()) == (True, 0.0)


def test_a_loss_says_what_when_and_why(lease, clock):
    clock.now = 115.0
    with pytest.raises(LeaseLost, match="expired") as lost:
        lease.check()
    error = lost.value
    assert (error.name, error.fence, error.reason, error.since) == ("a", 7, "expired", 110.0)


def test_once_lost_it_stays_lost(lease, clock):
    clock.now = 111.0
    assert lease.lost
    clock.now = 100.0
    lease.deadline = 200.0
    assert lease.lost
    assert lease.remaining() == 0.0


def test_the_first_loss_counts(lease):
    assert lease.lose("taken", 101.0, "by hand") is True
    assert lease.lose("expired", 102.0) is False
    with pytest.raises(LeaseLost, match="taken: by hand") as lost:
        lease.check()
    assert (lost.value.reason, lost.value.detail, lost.value.since) == ("taken", "by hand", 101.0)


def test_what_was_released_was_not_lost(lease, clock):
    lease.released = True
    clock.now = 200.0
    assert (lease.lost, lease.remaining()) == (False, 0.0)
    assert lease.lose("expired", 110.0) is False
    with pytest.raises(NotHeld):
        lease.check()


def test_its_end_is_told_in_unix_time_too(lease):
    before = time.time()
    told = lease.expires_at()
    assert before + 9.9 < told < time.time() + 10.1


def test_its_repr_tells_its_state(lease, clock):
    assert "held" in repr(lease)
    assert "fence=7" in repr(lease)
    clock.now = 120.0
    assert "lost" in repr(lease)


def test_who_watches_it_hears_of_each_deadline_and_of_the_loss(lease):
    heard = []
    lease.observe(heard.append)
    lease.move_deadline(130.0)
    lease.majority = SimpleNamespace(lost=lambda hold: heard.append(hold.loss.reason), hold=lease)
    lease.lose("taken", 101.0)
    lease.lose("expired", 130.0)
    assert heard == [110.0, 130.0, "taken"]


@pytest.mark.parametrize("lasting", [False, True], ids=["a moment", "for good"])
def test_an_error_on_the_way_keeps_no_loss_from_its_holder(lease, lasting):
    """I16: it is recorded first, and what is left of it is done at once, or by the next call."""
    told, broken = [], [True]

    def notify(hold):
        if broken:
            if not lasting:
                broken.clear()
            raise MemoryError
        told.append(hold.loss.reason)

    lease.port.notify_loss = notify
    with pytest.raises(MemoryError):
        lease.lose("revoked", 101.0)
    assert lease.lost
    assert told == ([] if lasting else ["revoked"])
    broken.clear()
    assert lease.lose("expired", 110.0) is False
    assert lease.lose("expired", 110.0) is False
    assert told == ["revoked"]


def test_several_threads_that_tell_of_a_loss_tell_once(lease):
    assert [lease.is_first_to("tell"), lease.is_first_to("tell")] == [True, False]
