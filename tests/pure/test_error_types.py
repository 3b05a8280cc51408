"""errors.py: an error is the same in the process that it is sent to."""

import inspect
import pickle

import pytest

import fencelock
from fencelock import aio, blocking, errors

LOST = errors.LeaseLost("a", fence=7, reason="revoked", since=1.5, detail="restart")
ERRORS = [
    LOST,
    errors.FencelockError("m"),
    errors.NotAcquired("m", name="n"),
    errors.AcquireTimeout("m", name="n"),
    errors.NotHeld("m", name="n"),
    errors.OverReleased("m", name="n"),
    errors.OutcomeUnknown("m"),
    errors.QuorumNotReached("m", {"redis://h": errors.ServerUnreachable("x", code="REFUSED")}),
    errors.ServerError("m", code="ERR"),
    errors.ServerUnreachable("m", code="CLOSED"),
    errors.ServerDenied("m", code="NOPERM"),
    errors.NotAcknowledged("m", name="n", acknowledged=1, wanted=2),
    errors.ServerReadOnly("m", code="READONLY"),
    errors.ServerUnsuitable("m", code="OOM"),
    errors.BarrierBroken("m", name="n", reason="abort"),
    blocking.barrier.BarrierBroken("m", name="n", reason="dead"),
    aio.barrier.BarrierBroken("m", name="n", reason="lost"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__qualname__)
def test_an_error_arrives_as_it_was_sent(error):
    """An error that could not be unpickled would break or hang the pool of its worker."""
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), arrived.args) == (str(error), error.args)
    assert repr(arrived.__dict__) == repr(error.__dict__)


def test_every_error_is_sent_here():
    public = (getattr(fencelock, name) for name in fencelock.__all__)
    kinds = {each for each in public if inspect.isclass(each) and issubclass(each, Exception)}
    assert kinds <= {type(error) for error in ERRORS}
