"""The count that a latch's handle shows: as it was when the handle last saw it."""

import pytest

import fencelock
from fencelock.blocking import event_latch


@pytest.mark.parametrize(("opened", "left"), [(True, 0), (False, 2)])
def test_a_wait_that_the_latch_ended_has_seen_it_open(monkeypatch, opened, left):
    async def waited(*_):
        return opened

    monkeypatch.setattr(event_latch, "wait_until_open", waited)
    with fencelock.Client("redis://127.0.0.1:1") as client:
        latch = client.latch("l", 2)
        assert repr(latch).endswith("left=2/2>")
        assert latch.wait(timeout=1) is opened
        assert repr(latch).endswith(f"left={left}/2>")
