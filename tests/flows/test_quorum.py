"""A quorum of three in every schedule: one holder, and fences that grow (I1, I3).

The sown faults show that the search finds what it is for.
"""

import logging

import pytest

from fencelock._core import quorum
from fencelock._core.roster import Roster
from tests.flows.quorum_world import Budgets, Violated, explore

QUICK = [Budgets(switches=2), Budgets(lost=1, switches=1, answers=False)]
DEEP = [
    Budgets(switches=3),
    Budgets(lost=1, switches=2),
    Budgets(lost=2, switches=1, answers=False),
    Budgets(lost=1, restarts=1, switches=1, answers=False),
    Budgets(lost=1, restarts=1),
]
slow = pytest.mark.slow


@pytest.fixture(autouse=True)
def _quiet():
    """Thousands of runs meet trouble: nobody reads what they log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "budgets", [*QUICK, *(pytest.param(each, marks=slow) for each in DEEP)], ids=str
)
def test_one_holder_and_growing_fences(budgets):
    """With clocks 5 s apart, and a vote in vain on one node that left a late fence."""
    runs, complete = explore(budgets)
    assert complete
    assert runs > 10


def test_a_minority_is_found():
    """Sown: one node of three is taken for a majority."""
    with pytest.raises(Violated):
        explore(Budgets(lost=1, switches=1), needed=1)


@slow
@pytest.mark.timeout(300)
def test_a_fence_that_is_not_written_back_is_found(monkeypatch):
    """Sown: the largest fence stays on the node that gave it."""

    async def written(*_: object) -> bool:
        return True

    monkeypatch.setattr(quorum, "_written", written)
    with pytest.raises(Violated, match="I3"):
        explore(Budgets(lost=2, switches=1, answers=False))


@slow
@pytest.mark.timeout(300)
def test_a_forgetful_node_that_votes_is_found(monkeypatch):
    """Sown: a restarted node votes at once."""
    monkeypatch.setattr(Roster, "votes", lambda *_: True)
    monkeypatch.setattr(Roster, "eligible", lambda *_: True)
    with pytest.raises(Violated):
        explore(Budgets(lost=1, restarts=1, switches=1, answers=False))
