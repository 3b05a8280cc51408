"""The statements of a fence guard, as text, in each dialect of SQL.

Rules of this file:

- The first statement of a check raises the stored fence, and never lowers it. It is an upsert, so
  it locks the row until the transaction ends, also a row that did not exist.
- The last one returns the stored fence as the database has it *now*, not as an older snapshot of
  the transaction has it: in PostgreSQL the upsert itself, in MySQL a locking read of the row.
- A check that is refused changes nothing: it writes the fence that was stored already.
- The key is a digest of the name: names have up to 1,024 bytes of any characters, columns have
  limits, and collations take ``a`` and ``A`` for the same.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final, NamedTuple

from fencelock.fences.token import FencingToken

TABLE: Final = "fencelock_fences"
# PostgreSQL and MySQL allow 63 and 64 characters.
PART_CHARS_MAX: Final = 63
SHOWN_CHARS_MAX: Final = 200
_PART: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Dialect(NamedTuple):
    """The statements of one dialect; ``{table}`` stands for the table, ``:key`` for a value."""

    create: str
    check: tuple[str, ...]
    create_beside: str = "{create}"  # what ``create`` becomes where several may run at once


_POSTGRESQL: Final = Dialect(
    create="""\
CREATE TABLE IF NOT EXISTS {table} (
    lock_key CHAR(64) PRIMARY KEY,
    lock_name VARCHAR(200) NOT NULL,
    fence BIGINT NOT NULL
)""",
    check=(
        (
            "INSERT INTO {table} AS stored (lock_key, lock_name, fence)"
            " VALUES (:key, :name, :fence) ON CONFLICT (lock_key)"
            " DO UPDATE SET fence = GREATEST(stored.fence, excluded.fence) RETURNING fence"
        ),
    ),
    # IF NOT EXISTS does not see a table that another transaction is about to commit.
    create_beside=(
        "DO $$ BEGIN {create}; EXCEPTION WHEN unique_violation OR duplicate_table THEN NULL; END $$"
    ),
)
_MYSQL: Final = Dialect(
    create="""\
CREATE TABLE IF NOT EXISTS {table} (
    lock_key CHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    lock_name VARCHAR(200) CHARACTER SET ascii NOT NULL,
    fence BIGINT NOT NULL
) ENGINE=InnoDB""",
    check=(
        (
            "INSERT INTO {table} (lock_key, lock_name, fence) VALUES (:key, :name, :fence)"
            " ON DUPLICATE KEY UPDATE fence = GREATEST(fence, :fence)"
        ),
        "SELECT fence FROM {table} WHERE lock_key = :key FOR UPDATE",
    ),
)
_SQLITE: Final = Dialect(
    create=_POSTGRESQL.create,
    check=(
        (
            "INSERT INTO {table} (lock_key, lock_name, fence) VALUES (:key, :name, :fence)"
            " ON CONFLICT (lock_key) DO UPDATE SET fence = max(fence, excluded.fence)"
        ),
        "SELECT fence FROM {table} WHERE lock_key = :key",
    ),
)

DIALECTS: Final = {
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": _SQLITE,
}


class Statement(NamedTuple):
    """One statement with its values, in the placeholders of a driver."""

    text: str
    values: tuple[object, ...]
    named: dict[str, object]


def dialect_named(name: str) -> Dialect:
    """Return the statements of a dialect; ValueError for one that has none."""
    found = DIALECTS.get(name)
    if found is None:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, not {name!r}")
    return found


def table_name(table: object) -> str:
    """Return a checked name of a table, which may have a schema before it."""
    if not isinstance(table, str):
        raise TypeError(f"table must be str, not {type(table).__name__}")
    parts = table.split(".")
    plain = all(_PART.fullmatch(part) and len(part) <= PART_CHARS_MAX for part in parts)
    if not plain or len(parts) > 2:  # noqa: PLR2004 - a schema and a table
        raise ValueError(
            "table must be a name of letters, digits and underscores, with or without a schema"
            f" before it ('locks.fences'), not {table!r}"
        )
    return table


def key_of(name: str) -> str:
    """Return the key of a lock's row: a digest of its name."""
    return sha256(name.encode()).hexdigest()


def shown(name: str) -> str:
    """Return a lock's name for people who look into the table: ASCII, and cut to its column."""
    return name.encode("ascii", "backslashreplace").decode().replace("\0", "\\0")[:SHOWN_CHARS_MAX]


def statements(dialect: Dialect, table: str, token: FencingToken, style: str) -> list[Statement]:
    """Return the statements of a check; ``style`` is a placeholder: ``%s``, ``?``, ``$`` or ``:``.

    The last one returns the stored fence.
    """
    named = {"key": key_of(token.name), "name": shown(token.name), "fence": token.fence}
    return [_placed(text.format(table=table), named, style) for text in dialect.check]


def _placed(text: str, named: dict[str, object], style: str) -> Statement:
    order = re.findall(r":(\w+)", text)
    used = {name: named[name] for name in order}
    if style == ":":
        return Statement(text, (), used)
    if style == "$":
        numbers = {name: at for at, name in enumerate(used, 1)}
        numbered = re.sub(r":(\w+)", lambda found: f"${numbers[found[1]]}", text)
        return Statement(numbered, tuple(used.values()), used)
    return Statement(re.sub(r":\w+", style, text), tuple(named[each] for each in order), used)
