"""_core/condition.py: what ends a wait without the lock, and what does not."""

import asyncio
from types import SimpleNamespace

import pytest

from fencelock import ServerUnreachable
from fencelock._core import condition

ENDS = [ServerUnreachable("away"), KeyboardInterrupt(), SystemExit(), GeneratorExit()]


def returning(monkeypatch, *troubles):
    """Take the lock again after a cancellation, and meet these troubles; return the requests."""
    wants, resumed, left = [], [], list(troubles)

    async def granted(_port, want, _waiter=None):
        wants.append(want)
        if left:
            raise left.pop(0)
        return "a grant"

    monkeypatch.setattr(condition, "_granted", granted)
    monkeypatch.setattr(condition, "_resume", lambda *said: resumed.append(said[2:4]))
    asker = condition.Asker(object, SimpleNamespace())
    returned = condition._return(SimpleNamespace(), SimpleNamespace(), asker)
    with pytest.raises(StopIteration):
        returned.send(None)
    assert resumed == [(wants[-1], "a grant")]
    return wants


@pytest.mark.parametrize("trouble", ENDS, ids=lambda each: type(each).__name__)
def test_a_cancelled_wait_that_cannot_have_the_lock_again_says_so(monkeypatch, trouble):
    with pytest.raises(type(trouble)) as caught:
        returning(monkeypatch, trouble)
    assert caught.value is trouble


def test_a_wait_that_is_cancelled_again_takes_the_lock_again_with_a_fresh_request(monkeypatch):
    wants = returning(monkeypatch, asyncio.CancelledError(), asyncio.CancelledError())
    assert len(set(wants)) == 3
