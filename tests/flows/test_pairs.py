"""Each two calls of a client, and each call and push, meet in a world; and nothing breaks there."""

from itertools import combinations_with_replacement, product
from zlib import crc32

import pytest

from tests.flows.exploring import finds
from tests.flows.registry import WORLDS
from tests.flows.worlds import object_pairs, pairs
from tests.flows.worlds.meetings import noted, pair
from tests.flows.worlds.pairs import NAMES, PUSHES, ROWS, WHEN, why_apart, why_unheard

test_a_sown_fault_is_found = finds(WORLDS["pairs"])

FACES = ("asyncio", "threads")
# Schedules of each world; a fault has many places at which to strike. No sown defect needs as many.
DAILY, DAILY_FAULTY, NIGHTLY = 100, 300, 600
# Worlds of other objects have few schedules, except with a fault: there are many of them.
OF_OBJECTS, OF_OBJECTS_FAULTY, OF_OBJECTS_NIGHTLY = 60, 100, 300


def assert_meets(row, face, schedules, faulty, why_not):
    """See that a row's calls were under way together, and that nothing broke."""
    seen = set()
    for scenario in row.worlds:
        with noted() as met:
            of_face = scenario if face == "asyncio" else scenario.threads()
            report = of_face.explore(schedules=faulty if scenario.budgets else schedules)
        assert report.violation is None, report.story()
        seen |= met
        assert scenario.budgets or not any(map(why_not, met)), "the table says that these cannot"
    meets = row.meets - (pairs.IN_THREADS if face == "asyncio" else frozenset())
    assert meets - seen == set(), "these did not meet"


def daily_face(row):
    """Return the face with which a row is explored daily: by turns."""
    return FACES[crc32(row.name.encode()) % 2]


def nightly_face(row):
    """Return the other one, which goes through more orders; ``explore`` does so with both."""
    return FACES[1 - FACES.index(daily_face(row))]


def named(value):
    return getattr(value, "name", "")


def why_not(meeting):
    return why_apart(*meeting) if len(meeting) == len("ab") else why_unheard(*meeting)


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_each_pair_meets_and_nothing_breaks(row):
    assert_meets(row, daily_face(row), DAILY, DAILY_FAULTY, why_not)


@pytest.mark.nightly
@pytest.mark.parametrize("row", ROWS, ids=named)
def test_each_pair_meets_and_nothing_breaks_in_more_orders(row):
    assert_meets(row, nightly_face(row), NIGHTLY, NIGHTLY, why_not)


@pytest.mark.parametrize(("kind", "row"), object_pairs.ROWS, ids=named)
def test_each_pair_of_an_object_meets_and_nothing_breaks(kind, row):
    assert_meets(row, daily_face(row), OF_OBJECTS, OF_OBJECTS_FAULTY, kind.why_not)


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "row"), object_pairs.ROWS, ids=named)
def test_each_pair_of_an_object_meets_and_nothing_breaks_in_more_orders(kind, row):
    assert_meets(row, nightly_face(row), OF_OBJECTS_NIGHTLY, OF_OBJECTS_NIGHTLY, kind.why_not)


@pytest.mark.parametrize("kind", object_pairs.KINDS, ids=lambda kind: kind.name)
def test_the_table_of_an_object_has_each_pair_with_its_worlds_or_a_reason(kind):
    has_worlds = {meeting for of, row in object_pairs.ROWS if of is kind for meeting in row.meets}
    has_a_reason = {meeting for meeting in kind.every if kind.why_not(meeting)}
    assert has_worlds | has_a_reason == kind.every
    assert has_worlds & has_a_reason == set()


def test_the_table_has_each_pair_with_its_worlds_or_a_reason():
    every = {pair(*each) for each in combinations_with_replacement(NAMES, 2)}
    every |= set(product(PUSHES, WHEN, NAMES))
    has_worlds = {meeting for row in ROWS for meeting in row.meets}
    has_a_reason = {meeting for meeting in every if why_not(meeting)}
    assert has_worlds | has_a_reason == every
    assert has_worlds & has_a_reason == set()


def test_each_world_of_a_row_has_a_name_of_its_own():
    for row in (*ROWS, *(row for _, row in object_pairs.ROWS)):
        assert row.worlds
        assert len({each.name for each in row.worlds}) == len(row.worlds)
