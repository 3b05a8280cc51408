"""Clients that give back what they hold when they are closed, explored."""

import pytest

from tests.flows import shutdowns as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both, by_turns
from tests.flows.seeded import seed
from tests.flows.sowing import Fault, Statement, Without

FAULTS = ("lost", "silent", "late", "expiry", "crash", "pause", "cancel")
DISTURBED = [each.under(**{fault: 1}) for each in worlds.ALL for fault in FAULTS]
SEEDS = (
    seed(
        "a lease is given back before its holder is notified",
        Without("keeper.lose", by="engine.close_hold", answer=True),
        worlds.BESIDE,
        "I8",
    ),
    seed(
        "what is held is forgotten, and not given back",
        Fault("engine.hand_back", lambda *_: []),
        worlds.ALONE,
        "I9",
    ),
    seed(
        "it goes on after its time",
        Statement("engine.hand_back", "port.now() >= until", "False"),
        worlds.ALONE.under(silent=3),
        "I13 I6",
    ),
)


@pytest.mark.parametrize("scenario", both(worlds.ALL), ids=lambda each: each.title)
def test_nothing_breaks(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", by_turns(DISTURBED), ids=lambda each: each.title)
def test_nothing_breaks_under_a_fault(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("each", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(each):
    assert_found(each)
