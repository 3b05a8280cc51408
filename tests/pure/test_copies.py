"""What may be copied and pickled, and what must not be: errors cross processes, holds do not."""

import copy
import pickle

import pytest

import fencelock
from fencelock._handles.multi_lease import BaseMultiLease
from fencelock.aio import barrier as aio_barrier
from fencelock.blocking import barrier
from tests.pure.made import held, made_by

WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}
ERRORS = [
    fencelock.FencelockError("said"),
    fencelock.NotAcquired("held", name="a"),
    fencelock.Stale("a", fence=7, seen=8),
    fencelock.NotRenewable("no thread", name="a"),
    fencelock.AcquireTimeout("not in time", name="a"),
    fencelock.Deadlock("a", cycle=[fencelock.Blocked("a"), fencelock.Blocked("b", pid=7)]),
    fencelock.LeaseLost("a", fence=7, reason="revoked", since=1.5, detail="by hand"),
    fencelock.NotHeld("not held", name="a"),
    fencelock.BarrierBroken("broken", name="a", reason="dead"),
    aio_barrier.BarrierBroken("broken", name="a", reason="lost"),
    barrier.BarrierBroken("broken", name="a", reason="abort"),
    fencelock.OverReleased("too many", name="a"),
    fencelock.OutcomeUnknown("no answer"),
    fencelock.QuorumNotReached("two of five", {"one": fencelock.ServerUnreachable("no")}),
    fencelock.ClientClosed("closed"),
    fencelock.ServerError("odd", code="ODD"),
    fencelock.ServerUnreachable("silent", code="REFUSED"),
    fencelock.ServerDenied("no right", code="NOPERM"),
    fencelock.NotAcknowledged("one of two", name="a", acknowledged=1, wanted=2),
    fencelock.ServerReadOnly("replica", code="READONLY"),
    fencelock.ServerUnsuitable("too old", code="NOPROTO"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_whole_after_a_journey(error, way):
    """A process pool pickles what its work raises; one that cannot be read breaks the pool."""
    error.add_note("seen on the way")
    arrived = WAYS[way](error)
    assert type(arrived) is type(error)
    assert repr(arrived) == repr(error)
    assert str(arrived) == str(error)
    assert arrived.__dict__.keys() == error.__dict__.keys()
    assert str(arrived.__dict__) == str(error.__dict__)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_says_a_sentence_and_not_all_that_it_was_made_with(error):
    assert str(error)
    assert not str(error).startswith("(")


def test_no_kind_of_error_is_left_out():
    kinds = {getattr(fencelock, name) for name in fencelock.__all__}
    kinds = {each for each in kinds if isinstance(each, type) and issubclass(each, Exception)}
    assert {type(error) for error in ERRORS} >= kinds


LEASE = held(0.0)
KINDS = [
    *made_by(fencelock.Client("redis://localhost:1")),
    *made_by(fencelock.AsyncClient("redis://localhost:1")),
    LEASE,
    BaseMultiLease([LEASE]),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("thing", KINDS, ids=lambda thing: type(thing).__name__)
def test_what_holds_is_not_copied(thing, way):
    """A copy of a handle would end the renewal of its holds, when it is dropped."""
    with pytest.raises(TypeError, match=f"cannot copy or pickle '{type(thing).__name__}'"):
        WAYS[way](thing)
