"""What the fence guards decide without a database: tokens, names of tables, statements."""

import contextlib
import sqlite3
import subprocess
import sys

import pytest

from fencelock.errors import Stale
from fencelock.fences import AsyncFenceGuard, FenceGuard, FencingToken, RedisFenceGuard
from fencelock.fences.sql import DIALECTS, key_of, shown, statements
from fencelock.fences.token import refuse_older, tokens_of


def test_an_equal_or_greater_fence_passes():
    refuse_older(FencingToken("a", 7), 7)
    refuse_older(FencingToken("a", 7), 6)
    with pytest.raises(Stale, match="fence 7 of 'a' is too old: fence 8 was seen"):
        refuse_older(FencingToken("a", 7), 8)


class Multi:
    def __init__(self):
        self.fences, self.checked = {"b": 2, "a": 1}, 0

    def check(self):
        self.checked += 1


def test_a_lease_of_several_locks_is_compared_in_one_order():
    lease = Multi()
    assert tokens_of(lease) == [("a", 1), ("b", 2)]
    assert lease.checked == 1


@pytest.mark.parametrize(
    ("lease", "error", "text"),
    [
        (7, TypeError, "lease must be a lease or a FencingToken"),
        (FencingToken("a", "7"), TypeError, "fence must be int"),
        (FencingToken("a", True), TypeError, "fence must be int"),
        (FencingToken("a", 0), ValueError, r"Poll\(\)"),
        (FencingToken("a", -1), ValueError, "fence must be from 1"),
        (FencingToken("a", 2**63), ValueError, "fence must be from 1"),
        (FencingToken("", 7), ValueError, "name must have"),
        (FencingToken(b"a", 7), TypeError, "name must be str"),
    ],
)
def test_what_has_no_fence_is_refused(lease, error, text):
    with pytest.raises(error, match=text):
        tokens_of(lease)


@pytest.mark.parametrize("table", ["fences", "locks.fences", "_f1", "x" * 63])
def test_names_of_tables(table):
    assert f" {table} " in FenceGuard(table).ddl("postgresql")


@pytest.mark.parametrize("table", ["", "a b", "a;", 'a"', "a.b.c", "1a", ".a", "x" * 64, "é"])
def test_a_name_that_would_need_quotes_is_refused(table):
    with pytest.raises(ValueError, match="table must be"):
        AsyncFenceGuard(table)


def test_arguments_of_another_type():
    with pytest.raises(TypeError, match="table must be str"):
        FenceGuard(7)
    with pytest.raises(TypeError, match="key_prefix must be str"):
        RedisFenceGuard(7)
    with pytest.raises(ValueError, match="dialect must be one of postgresql"):
        FenceGuard().ddl("oracle")


@pytest.mark.parametrize("wrong", [7, None, sqlite3])
def test_what_is_no_connection_is_named(wrong):
    with pytest.raises(TypeError, match="connection must be a connection"):
        FenceGuard().check(wrong, FencingToken("a", 1))
    awaited = AsyncFenceGuard().check(wrong, FencingToken("a", 1))
    with pytest.raises(TypeError, match="connection must be a connection"):
        awaited.send(None)


def test_a_connection_of_the_other_kind_names_its_guard():
    asyncpg = type("Connection", (), {"__module__": "asyncpg.connection"})()
    text = "connection is of asyncpg.connection.Connection: use AsyncFenceGuard with it"
    with pytest.raises(TypeError, match=text):
        FenceGuard().check(asyncpg, FencingToken("a", 1))
    with pytest.raises(TypeError, match=text):
        FenceGuard().create(asyncpg)
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        awaited = AsyncFenceGuard().create(database)
        with pytest.raises(TypeError, match=r"sqlite3.Connection: use FenceGuard with it"):
            awaited.send(None)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("style", "placed"), [("%s", "%s"), ("?", "?"), ("$", "$1"), (":", ":key")]
)
def test_the_placeholders_are_the_driver_s(dialect, style, placed):
    first, *_ = statements(DIALECTS[dialect], "t", FencingToken("a", 7), style)
    assert placed in first.text
    assert ("$" if style == ":" else ":") not in first.text
    if style in {"%s", "?"}:
        assert first.text.count(style) == len(first.values)
    assert first.named == {"key": key_of("a"), "name": "a", "fence": 7}


def test_a_name_is_shown_in_ascii_and_within_its_column():
    assert shown("a\0é") == "a\\0\\xe9"
    assert len(shown("日" * 300)) == 200
    assert len(key_of("x" * 1024)) == 64


def test_no_driver_is_imported_before_it_is_used():
    code = "import fencelock.fences as f, sys; f.FenceGuard(), f.RedisFenceGuard()"
    code += "; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    drivers = {
        "sqlalchemy",
        "psycopg",
        "asyncpg",
        "sqlite3",
        "pymysql",
        "redis",
        "asyncio",
        "boto3",
    }
    assert drivers & set(loaded.stdout.split()) == set()
