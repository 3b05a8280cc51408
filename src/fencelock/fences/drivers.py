"""What a fence guard asks of a connection, for each driver: run a statement, name the dialect.

Rules of this file:

- No driver is imported before a connection of it was passed in.
- Rows are read as tuples, whatever row factory the user's connection has.
- Nothing is committed, rolled back or begun: the transaction is the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

from fencelock.fences.sql import Statement

# Of PyMySQL: the bit of ``server_status`` for an open transaction.
_IN_TRANSACTION: Final = 1
# Of psycopg: the status of a connection without a transaction.
_IDLE: Final = 0


class SqlSession(Protocol):
    """A user's connection, for threads."""

    dialect: str
    style: str

    def run(self, statement: Statement, *, returns: bool) -> Any:
        """Run a statement; return the first column of its first row if it returns any."""

    def in_transaction(self) -> bool:
        """Return True if what ran belongs to a transaction that is still open."""


class AsyncSqlSession(Protocol):
    """A user's connection, for asyncio."""

    dialect: str
    style: str

    async def run(self, statement: Statement, *, returns: bool) -> Any:
        """Run a statement; return the first column of its first row if it returns any."""

    def in_transaction(self) -> bool:
        """Return True if what ran belongs to a transaction that is still open."""


def session(connection: Any) -> SqlSession:
    """Return what runs statements on a blocking connection; TypeError for anything else."""
    kind = _kind(connection)
    make = _BLOCKING.get(kind)
    if make is None:
        other = "AsyncFenceGuard" if kind in _ASYNCIO else ""
        raise _unknown(connection, "sqlalchemy, psycopg, sqlite3 or PyMySQL", other)
    return make(connection)


def async_session(connection: Any) -> AsyncSqlSession:
    """Return what runs statements on a connection of asyncio; TypeError for anything else."""
    kind = _kind(connection)
    make = _ASYNCIO.get(kind)
    if make is None:
        known = "sqlalchemy.ext.asyncio, psycopg (AsyncConnection) or asyncpg"
        raise _unknown(connection, known, "FenceGuard" if kind in _BLOCKING else "")
    return make(connection)


def _kind(connection: object) -> tuple[str, str]:
    """Return the package of the driver and the name of the connection's class."""
    for cls in type(connection).__mro__:
        known = _package(cls), cls.__name__
        if known in _BLOCKING or known in _ASYNCIO:
            return known
    return "", ""


def _package(cls: type) -> str:
    """Return the package of a driver's class; PyPy's sqlite3 is the module _sqlite3."""
    return cls.__module__.partition(".")[0].removeprefix("_")


def _unknown(connection: object, known: str, other_guard: str) -> TypeError:
    cls = type(connection)
    given = f"{cls.__module__}.{cls.__qualname__}"
    if other_guard:
        return TypeError(f"connection is of {given}: use {other_guard} with it")
    return TypeError(
        f"connection must be a connection (not a pool, an engine or a cursor) of {known},"
        f" not {given}"
    )


class _Direct:
    """A connection of a driver, without SQLAlchemy."""

    driver: str

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def in_transaction(self) -> bool:
        return bool(_DRIVERS[self.driver](self._connection))


class _Psycopg(_Direct):
    """A connection of psycopg 3."""

    driver, dialect, style = "psycopg", "postgresql", "%s"

    def run(self, statement: Statement, *, returns: bool) -> Any:
        tuple_row = import_module("psycopg.rows").tuple_row
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement.text, statement.values)
            return cursor.fetchone()[0] if returns else None


class _AsyncPsycopg(_Psycopg):
    """A connection of psycopg 3 for asyncio."""

    async def run(self, statement: Statement, *, returns: bool) -> Any:
        tuple_row = import_module("psycopg.rows").tuple_row
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(statement.text, statement.values)
            return (await cursor.fetchone())[0] if returns else None


class _Asyncpg(_Direct):
    """A connection of asyncpg, or one that its pool has lent."""

    driver, dialect, style = "asyncpg", "postgresql", "$"

    async def run(self, statement: Statement, *, returns: bool) -> Any:
        call = self._connection.fetchval if returns else self._connection.execute
        return await call(statement.text, *statement.values)


class _Sqlite(_Direct):
    """A connection of the standard library's sqlite3."""

    driver, dialect, style = "sqlite3", "sqlite", "?"

    def run(self, statement: Statement, *, returns: bool) -> Any:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        try:
            cursor.execute(statement.text, statement.values)
            return cursor.fetchone()[0] if returns else None
        finally:
            cursor.close()


class _PyMySQL(_Direct):
    """A connection of PyMySQL."""

    driver, dialect, style = "pymysql", "mysql", "%s"

    def run(self, statement: Statement, *, returns: bool) -> Any:
        plain = import_module("pymysql.cursors").Cursor
        with self._connection.cursor(plain) as cursor:
            cursor.execute(statement.text, statement.values)
            return cursor.fetchone()[0] if returns else None


class _SqlAlchemy:
    """A connection of SQLAlchemy, over whatever driver."""

    style = ":"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.dialect = connection.dialect.name

    def run(self, statement: Statement, *, returns: bool) -> Any:
        text = import_module("sqlalchemy").text
        found = self._connection.execute(text(statement.text), statement.named)
        return found.scalar_one() if returns else None

    def in_transaction(self) -> bool:
        """Return False if the driver commits each statement: SQLAlchemy itself does not show it."""
        driver = self._connection.connection.driver_connection
        if known := _DRIVERS.get(_package(type(driver))):
            return bool(known(driver))
        # A driver that cannot be asked: was SQLAlchemy asked for autocommit?
        return bool(self._connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT")


def _of_session(session: Any) -> SqlSession:
    """Return a session of SQLAlchemy's ORM, used by way of its connection."""
    return _SqlAlchemy(session.connection())


class _AsyncSqlAlchemy:
    """A connection or session of SQLAlchemy for asyncio: it runs the blocking one in a greenlet."""

    style = ":"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        bind = connection.sync_connection if hasattr(connection, "sync_connection") else None
        self.dialect = (bind or connection.get_bind()).dialect.name
        self._in_transaction = True

    async def run(self, statement: Statement, *, returns: bool) -> Any:
        def blocking(connection: Any) -> tuple[Any, bool]:
            one = session(connection)
            return one.run(statement, returns=returns), one.in_transaction()

        found, self._in_transaction = await self._connection.run_sync(blocking)
        return found

    def in_transaction(self) -> bool:
        return self._in_transaction


# By the package of a driver, how its connection tells that a transaction is open.
_DRIVERS: Final[dict[str, Callable[[Any], object]]] = {
    "psycopg": lambda driver: int(driver.info.transaction_status) != _IDLE,
    "psycopg2": lambda driver: driver.info.transaction_status != _IDLE,
    "asyncpg": lambda driver: driver.is_in_transaction(),
    "sqlite3": lambda driver: driver.in_transaction,
    "aiosqlite": lambda driver: driver.in_transaction,
    "pymysql": lambda driver: driver.server_status & _IN_TRANSACTION,
}

_BLOCKING: Final[dict[tuple[str, str], Callable[[Any], SqlSession]]] = {
    ("psycopg", "Connection"): _Psycopg,
    ("sqlite3", "Connection"): _Sqlite,
    ("pymysql", "Connection"): _PyMySQL,
    ("sqlalchemy", "Connection"): _SqlAlchemy,
    ("sqlalchemy", "Session"): _of_session,
    ("sqlalchemy", "scoped_session"): _of_session,
}
_ASYNCIO: Final[dict[tuple[str, str], Callable[[Any], AsyncSqlSession]]] = {
    ("psycopg", "AsyncConnection"): _AsyncPsycopg,
    ("asyncpg", "Connection"): _Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _Asyncpg,
    ("sqlalchemy", "AsyncConnection"): _AsyncSqlAlchemy,
    ("sqlalchemy", "AsyncSession"): _AsyncSqlAlchemy,
    # A registry of sessions stands for the session of the running task.
    ("sqlalchemy", "async_scoped_session"): lambda sessions: _AsyncSqlAlchemy(sessions()),
}
