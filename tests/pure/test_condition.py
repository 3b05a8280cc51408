"""_core/objects/condition.py: what ends a wait without the lock, and what does not."""

import asyncio
from types import SimpleNamespace

import pytest

from fencelock import ServerUnreachable
from fencelock._core.objects import condition

ENDS = [ServerUnreachable("away"), KeyboardInterrupt(), SystemExit(), GeneratorExit()]


class Wanted:
    """A request, which is only itself."""

    acquisition = None
    waiter = b"A1"


def returning(monkeypatch, *troubles):
    """Take the lock again after a cancellation, and meet these troubles; return the requests."""
    requests, resumed, left = [], [], list(troubles)

    async def granted(_port, request, _waiter=None):
        requests.append(request)
        if left:
            raise left.pop(0)
        return "a grant"

    monkeypatch.setattr(condition, "_granted", granted)
    monkeypatch.setattr(condition, "_resume", lambda *said: resumed.append(said[2:4]))
    asker = condition.Reacquirer(Wanted, SimpleNamespace())
    returned = condition._return(SimpleNamespace(), SimpleNamespace(), asker)
    with pytest.raises(StopIteration):
        returned.send(None)
    assert resumed == [(requests[-1], "a grant")]
    return requests


@pytest.mark.parametrize("trouble", ENDS, ids=lambda each: type(each).__name__)
def test_a_cancelled_wait_that_cannot_have_the_lock_again_says_so(monkeypatch, trouble):
    with pytest.raises(type(trouble)) as caught:
        returning(monkeypatch, trouble)
    assert caught.value is trouble


def test_a_wait_that_is_cancelled_again_takes_the_lock_again_with_a_fresh_request(monkeypatch):
    requests = returning(monkeypatch, asyncio.CancelledError(), asyncio.CancelledError())
    assert len(set(requests)) == 3


@pytest.mark.parametrize("resumed", [True, False])
def test_what_strikes_after_the_lock_was_taken_again_undoes_nothing(monkeypatch, resumed):
    """A signal's exception may come anywhere: the hold that the caller has again stays its own."""
    undone = []

    async def wait_for(_port, _stay, _patience, then, _parked):
        if resumed:
            await then(None)
        raise KeyboardInterrupt

    async def stand(_port, _parked, *, placed):
        assert placed

    async def interrupted(*_, **how):
        undone.append(how)

    waiter = SimpleNamespace(verdict=condition.NOTIFIED, began=True)
    for name, stand_in in {
        "_end_tenure": lambda *_: None,
        "_interrupted": interrupted,
        "_resume": lambda *_: None,
        "_stand": stand,
        "ConditionWaiter": lambda *_: waiter,
        "ConditionWait": lambda *_: SimpleNamespace(hold=None),
        "undo_strays": lambda *_: None,
    }.items():
        monkeypatch.setattr(condition, name, stand_in)
    monkeypatch.setattr(condition.state_wait, "wait_for", wait_for)
    asker = SimpleNamespace(request=Wanted)
    hold = SimpleNamespace(request=None, told=None)
    waits = condition.wait(SimpleNamespace(), None, lambda taken: taken.append(hold), None, asker)
    with pytest.raises(KeyboardInterrupt):
        waits.send(None)
    assert undone == ([] if resumed else [{"began": True}])
