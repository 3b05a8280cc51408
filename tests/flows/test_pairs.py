"""Each two calls of a client, and each call and push, meet in a world; and nothing breaks there."""

from itertools import combinations_with_replacement, product

import pytest

from tests.flows import pairs
from tests.flows.exploring import assert_found
from tests.flows.meetings import noted, pair
from tests.flows.pairs import NAMES, PUSHES, ROWS, WHEN, why_apart, why_unheard
from tests.flows.seeded_pairs import SEEDS

FACES = ("asyncio", "threads")
# Schedules of each world; a fault has many places at which to strike.
DAILY, DAILY_FAULTY, NIGHTLY = 100, 300, 1500


def assert_meets(row, face, schedules):
    """See that a row's calls were under way together, and that nothing broke."""
    seen = set()
    for scenario in row.worlds:
        with noted() as met:
            of_face = scenario if face == "asyncio" else scenario.threads()
            most = max(schedules, DAILY_FAULTY) if scenario.budgets else schedules
            report = of_face.explore(schedules=most)
        assert report.violation is None, report.story()
        seen |= met
        assert scenario.budgets or not impossible(met), "the table says that these cannot meet"
    meets = row.meets - (pairs.IN_THREADS if face == "asyncio" else frozenset())
    assert meets - seen == set(), "these did not meet"


def impossible(met):
    return {
        each for each in met if (why_apart(*each) if len(each) == len("ab") else why_unheard(*each))
    }


@pytest.mark.one_face
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_pair_meets_and_nothing_breaks(row, face):
    assert_meets(row, face, DAILY)


@pytest.mark.nightly
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_pair_meets_and_nothing_breaks_in_more_orders(row, face):
    assert_meets(row, face, NIGHTLY)


def test_the_table_has_each_pair_with_its_worlds_or_a_reason():
    every = {pair(*each) for each in combinations_with_replacement(NAMES, 2)}
    every |= set(product(PUSHES, WHEN, NAMES))
    has_worlds = {meeting for row in ROWS for meeting in row.meets}
    has_a_reason = impossible(every)
    assert has_worlds | has_a_reason == every
    assert has_worlds & has_a_reason == set()


def test_each_world_of_a_row_has_a_name_of_its_own():
    for row in ROWS:
        assert row.worlds
        assert len({each.name for each in row.worlds}) == len(row.worlds)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
