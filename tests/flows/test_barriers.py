"""Barriers, explored; and each fault sown into them is found."""

import pytest

from fencelock._core.objects import state_wait
from tests.flows.exploring import assert_found, assert_nothing_breaks, both, explores, finds
from tests.flows.registry import WORLDS
from tests.flows.seeds.locks import seed
from tests.flows.sowing import Statement
from tests.flows.worlds import barriers as worlds

test_no_schedule_breaks_a_promise = explores(WORLDS["barriers"])
test_a_sown_fault_is_found = finds(WORLDS["barriers"])


@pytest.fixture
def small_looks(monkeypatch):
    """Let a command ask about two waiters, as it does about a thousand."""
    monkeypatch.setattr(state_wait, "WAITERS_PER_CHECK", 2)


@pytest.mark.one_face
@pytest.mark.parametrize("scenario", both([worlds.MANY]), ids=lambda each: each.title)
def test_more_parties_than_one_command_asks_about(scenario, small_looks):
    assert_nothing_breaks(scenario)


def test_a_look_that_proves_the_first_parties_only_is_found(small_looks):
    change = Statement(
        "_core.objects.state_wait:StateWait._look",
        "if self.lists_channels or self.verdict is not None:",
        "if True:",
    )
    assert_found(seed("a look that proves the first parties only", change, worlds.MANY, "I7"))
