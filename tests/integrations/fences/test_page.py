"""The SQL of the page about fencing tokens, on the servers that it is for."""

import pytest

from tests.integrations.fences.test_sql import make  # noqa: F401 - a fixture
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "use-fencing-tokens.md"
SQL = [each.text for each in blocks(PAGE) if each.info == "sql"]
POSTGRESQL, MYSQL, MYSQL_READ, ONE_ROW = SQL


def statements(text):
    return [each.strip() for each in text.split(";") if each.strip()]


@pytest.fixture
def session(make, request):  # noqa: F811 - as above
    world = make(request.param)
    made = world.open_patiently()
    for table in ("documents", "fences"):
        made.world.execute(made.connection, f"DROP TABLE IF EXISTS {table}")
    made.commit()
    return made


def run(session, text, *values):
    """Run a statement with the driver's placeholders; return how many rows it counts."""
    with session.connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.rowcount


@pytest.mark.parametrize("session", ["psycopg"], indirect=True)
def test_one_row_in_postgresql(session):
    create, save = statements(POSTGRESQL)
    run(session, create)

    assert run(session, save, "7", "draft", 33) == 1
    assert run(session, save, "7", "final", 34) == 1
    assert run(session, save, "7", "again", 34) == 1
    assert run(session, save, "7", "late", 33) == 0
    assert session.read() == "again"


@pytest.mark.parametrize("session", ["pymysql"], indirect=True)
def test_one_row_in_mariadb(session):
    create, save = statements(MYSQL)
    (read,) = statements(MYSQL_READ)
    run(session, create)

    run(session, save, "7", "draft", 33)
    run(session, save, "7", "final", 34)
    run(session, save, "7", "late", 33)
    assert session.read() == "final"
    with session.connection.cursor() as cursor:
        cursor.execute(read, ("7",))
        assert [*cursor.fetchone().values()] == [34]


@pytest.mark.parametrize("session", ["psycopg", "pymysql"], indirect=True)
def test_one_row_for_the_lock(session):
    create, insert, update = statements(ONE_ROW)
    run(session, create)
    run(session, insert)

    assert run(session, update, 34, 34) == 1
    assert run(session, update, 33, 33) == 0


RACERS, TURNS = 4, 25
