"""Each two calls of a client, and each call and a revocation, meet in a world; nothing breaks."""

from zlib import crc32

import pytest

from tests.flows.exploring import finds
from tests.flows.registry import WORLDS
from tests.flows.worlds import object_pairs, pairs
from tests.flows.worlds.meetings import noted

test_a_sown_fault_is_found = finds(WORLDS["pairs"])

FACES = ("asyncio", "threads")
TABLES = (pairs.LOCKS, *object_pairs.KINDS)
ROWS = [(table, row) for table in TABLES for row in table.rows()]


def assert_meets(table, row, face, schedules, faulty):
    """See that a row's calls were under way together, and that nothing broke."""
    seen = set()
    for scenario in row.worlds:
        with noted() as met:
            of_face = scenario if face == "asyncio" else scenario.threads()
            report = of_face.explore(schedules=faulty if scenario.budgets else schedules)
        assert report.violation is None, report.story()
        seen |= met
        assert scenario.budgets or not any(map(table.why_not, met)), "the table says: these cannot"
    assert row.meets - seen == set(), "these did not meet"


def daily_face(row):
    """Return the face with which a row is explored daily: by turns."""
    return FACES[crc32(row.name.encode()) % 2]


def nightly_face(row):
    """Return the other one, which goes through more orders; ``explore`` does so with both."""
    return FACES[1 - FACES.index(daily_face(row))]


def named(value):
    return getattr(value, "name", "")


@pytest.mark.parametrize(("table", "row"), ROWS, ids=named)
def test_each_pair_meets_and_nothing_breaks(table, row):
    assert_meets(table, row, daily_face(row), table.daily, table.faulty)


@pytest.mark.nightly
@pytest.mark.parametrize(("table", "row"), ROWS, ids=named)
def test_each_pair_meets_and_nothing_breaks_in_more_orders(table, row):
    assert_meets(table, row, nightly_face(row), table.nightly, table.nightly)


@pytest.mark.parametrize("table", TABLES, ids=named)
def test_the_table_has_each_pair_with_its_worlds_or_a_reason(table):
    has_worlds = {meeting for row in table.rows() for meeting in row.meets}
    has_a_reason = {meeting for meeting in table.every if table.why_not(meeting)}
    assert has_worlds | has_a_reason == table.every
    assert has_worlds & has_a_reason == set()


def test_each_world_of_a_row_has_a_name_of_its_own():
    for _, row in ROWS:
        assert row.worlds
        assert len({each.name for each in row.worlds}) == len(row.worlds)
