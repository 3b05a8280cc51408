"""The SQL of the page about fencing tokens, on the servers that it is for, and a race of many."""

import contextlib
import random
import threading

import pytest

from fencelock.fences import FencingToken, Stale
from tests.integrations.fences.test_sql import make  # noqa: F401 - a fixture
from tests.integrations.fences.worlds import WORLDS
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


class Race:
    """Transactions that check a fence and log it, until each is committed or stale."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.level = "BEGIN IMMEDIATE" if name == "sqlite3" else world.levels[-1]
        self.stale, self.committed = [], []

    def create(self):
        kept = "INTEGER PRIMARY KEY AUTOINCREMENT" if self.name == "sqlite3" else "SERIAL"
        first = self.world.open_patiently()
        self.world.execute(first.connection, "DROP TABLE IF EXISTS log")
        self.world.execute(first.connection, f"CREATE TABLE log (turn {kept}, fence BIGINT)")
        first.commit()

    def run(self, fences):
        for fence in fences:
            while not self.attempt(fence):
                pass

    def attempt(self, fence):
        with contextlib.ExitStack() as stack:
            world = WORLDS[self.name][0](self.world.where, stack)
            try:
                session = world.open(self.level)
                session.check(FencingToken("raced", fence))
                world.execute(session.connection, f"INSERT INTO log (fence) VALUES ({fence})")
                session.commit()
                self.committed.append(fence)
            except Stale:
                self.stale.append(fence)
            except world.conflicts:
                return False
        return True

    def logged(self):
        last = self.world.open(self.world.levels[0])
        rows = self.world.execute(last.connection, "SELECT fence FROM log ORDER BY turn")
        return [fence for (fence,) in rows]


@pytest.mark.parametrize("name", ["psycopg", "pymysql", "sqlite3"])
def test_what_many_connections_commit_at_once_is_in_the_order_of_their_fences(make, name):  # noqa: F811 - as above
    race = Race(make(name), name)
    race.create()
    fences = list(range(1, RACERS * TURNS + 1))
    random.Random(7).shuffle(fences)

    shares = [fences[at::RACERS] for at in range(RACERS)]
    racers = [threading.Thread(target=race.run, args=[share]) for share in shares]
    for each in racers:
        each.start()
    for each in racers:
        each.join()

    order = race.logged()
    assert order == sorted(order)
    assert order == sorted(race.committed)
    assert sorted(race.committed + race.stale) == sorted(fences)
    assert race.stale
