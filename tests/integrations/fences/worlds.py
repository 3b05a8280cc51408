"""Each kind of connection that a guard takes, behind the same few calls.

A ``World`` opens connections in a transaction of an isolation level. Connections of asyncio run in
the test's own loop, one step at a time, so that all tests read as those for threads.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencelock.fences import AsyncFenceGuard, FenceGuard

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


class Session:
    """One connection in a transaction: check, read and write a document, commit, roll back."""

    def __init__(self, world: "World", connection: Any) -> None:
        self.world = world
        self.connection = connection

    def check(self, token) -> None:
        self.world.check(self.connection, token)

    def read(self) -> str:
        return self.world.execute(self.connection, "SELECT body FROM documents")[0][0]

    def write(self, body: str) -> None:
        self.world.execute(self.connection, f"UPDATE documents SET body = '{body}'")

    def commit(self) -> None:
        self.world.call(self.connection, "commit")

    def rollback(self) -> None:
        self.world.call(self.connection, "rollback")


class World:
    """How to use one driver; the subclasses say what differs."""

    conflicts: tuple[type[Exception], ...] = ()  # "run the transaction again", and lock timeouts
    levels = LEVELS
    patient = ""  # a statement after which a table is waited for

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        self.where = where
        self.stack = stack
        self.guard = FenceGuard()

    def open(self, level: str) -> Session:
        raise NotImplementedError

    def check(self, connection: Any, token: Any) -> None:
        self.guard.check(connection, token)

    def create(self, connection: Any) -> None:
        self.guard.create(connection)

    def execute(self, connection: Any, text: str) -> list[Any]:
        raise NotImplementedError

    def call(self, connection: Any, name: str) -> None:
        getattr(connection, name)()

    def open_patiently(self) -> Session:
        """Open a connection that waits for tables: one of the last test may be ending."""
        made = self.open(self.levels[0])
        if self.patient:
            self.execute(made.connection, self.patient)
        return made

    def set_up(self) -> None:
        one = self.open_patiently()
        for text in ("DROP TABLE IF EXISTS documents", "DROP TABLE IF EXISTS fencelock_fences"):
            self.execute(one.connection, text)
        self.execute(one.connection, "CREATE TABLE documents (body VARCHAR(100))")
        self.create(one.connection)
        self.execute(one.connection, "INSERT INTO documents VALUES ('empty')")
        one.commit()

    def autocommitting(self) -> Any:
        """Return a connection that commits each statement."""
        raise NotImplementedError


POSTGRESQL_WAITS = "SET lock_timeout = '20s'"


class Psycopg(World):
    patient = POSTGRESQL_WAITS

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(where, stack)
        self.driver = pytest.importorskip("psycopg")
        errors = self.driver.errors
        self.conflicts = (errors.SerializationFailure, errors.LockNotAvailable)

    def connect(self, **more: Any) -> Any:
        rows = pytest.importorskip("psycopg.rows")
        made = self.driver.connect(
            host=str(self.where), user="postgres", options="-c lock_timeout=200ms", **more
        )
        self.stack.callback(made.close)
        made.row_factory = rows.dict_row
        return made

    def open(self, level: str) -> Session:
        made = self.connect()
        made.isolation_level = getattr(self.driver.IsolationLevel, level.replace(" ", "_"))
        return Session(self, made)

    def execute(self, connection: Any, text: str) -> list[Any]:
        cursor = connection.execute(text)
        return [tuple(row.values()) for row in cursor] if cursor.description else []

    def autocommitting(self) -> Any:
        return self.connect(autocommit=True)


class Sqlite(World):
    conflicts = (sqlite3.OperationalError,)  # locked
    levels = ("BEGIN DEFERRED", "BEGIN IMMEDIATE", "implicit", "WAL")

    def connect(self, level: str | None) -> Any:
        made = sqlite3.connect(self.where, timeout=0.2, isolation_level=level)
        made.row_factory = self.named
        self.stack.callback(made.close)
        return made

    @staticmethod
    def named(cursor: Any, row: tuple[Any, ...]) -> dict[str, Any]:
        return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}

    def open(self, level: str) -> Session:
        made = self.connect(None if level.startswith("BEGIN") else "DEFERRED")
        if level.startswith("BEGIN"):
            made.execute(level)
        if level == "WAL":
            made.execute("PRAGMA journal_mode = WAL")
        return Session(self, made)

    def execute(self, connection: Any, text: str) -> list[Any]:
        return [tuple(row.values()) for row in connection.execute(text).fetchall()]

    def autocommitting(self) -> Any:
        return self.connect(None)


class PyMySQL(World):
    levels = ("READ UNCOMMITTED", *LEVELS)

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(where, stack)
        self.driver = pytest.importorskip("pymysql")
        self.conflicts = (self.driver.err.OperationalError, self.driver.err.InternalError)

    def connect(self, **more: Any) -> Any:
        dicts = self.driver.cursors.DictCursor
        made = self.driver.connect(
            unix_socket=str(self.where),
            user="root",
            database="fences",
            cursorclass=dicts,
            init_command="SET innodb_lock_wait_timeout = 1",
            **more,
        )
        self.stack.callback(made.close)
        return made

    def open(self, level: str) -> Session:
        made = self.connect()
        self.execute(made, f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        return Session(self, made)

    def execute(self, connection: Any, text: str) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(text)
            return [tuple(row.values()) for row in cursor.fetchall()]

    def autocommitting(self) -> Any:
        return self.connect(autocommit=True)


class Alchemy(World):
    """SQLAlchemy Core; ``url`` and ``conflict`` say over what."""

    url = ""

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(where, stack)
        self.library = pytest.importorskip("sqlalchemy")
        self.conflicts = (self.library.exc.DBAPIError,)

    def engine(self, **more: Any) -> Any:
        pool = self.library.pool.NullPool
        made = self.library.create_engine(self.url.format(self.where), poolclass=pool, **more)
        self.stack.callback(made.dispose)
        return made

    def open(self, level: str) -> Session:
        made = self.engine(isolation_level=level).connect()
        self.stack.callback(made.close)
        self.bound_waits(made)
        return Session(self, made)

    def bound_waits(self, connection: Any) -> None:
        self.execute(connection, "SET lock_timeout = '200ms'")

    def execute(self, connection: Any, text: str) -> list[Any]:
        found = connection.execute(self.library.text(text))
        return [tuple(row) for row in found] if found.returns_rows else []

    def autocommitting(self) -> Any:
        made = self.engine(isolation_level="AUTOCOMMIT").connect()
        self.stack.callback(made.close)
        return made


class AlchemyPostgres(Alchemy):
    patient = POSTGRESQL_WAITS
    url = "postgresql+psycopg://postgres@/postgres?host={}"

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        pytest.importorskip("psycopg")
        super().__init__(where, stack)


class AlchemyMariadb(Alchemy):
    url = "mysql+pymysql://root@/fences?unix_socket={}"

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        pytest.importorskip("pymysql")
        super().__init__(where, stack)

    def bound_waits(self, connection: Any) -> None:
        self.execute(connection, "SET innodb_lock_wait_timeout = 1")


class AlchemySqlite(Alchemy):
    url = "sqlite:///{}"
    levels = ("SERIALIZABLE",)

    def bound_waits(self, connection: Any) -> None:
        self.execute(connection, "PRAGMA busy_timeout = 200")


class AlchemyOrm(AlchemyPostgres):
    """Sessions of SQLAlchemy's ORM."""

    def open(self, level: str) -> Session:
        orm = pytest.importorskip("sqlalchemy.orm")
        made = orm.Session(self.engine(isolation_level=level))
        self.stack.callback(made.close)
        self.bound_waits(made)
        return Session(self, made)


class Tasks(World):
    """Connections of asyncio, each call awaited at once in one loop."""

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(where, stack)
        self.runner = stack.enter_context(asyncio.Runner())
        self.guard: Any = AsyncFenceGuard()

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def check(self, connection: Any, token: Any) -> None:
        self.run(self.guard.check(connection, token))

    def create(self, connection: Any) -> None:
        self.run(self.guard.create(connection))

    def call(self, connection: Any, name: str) -> None:
        self.run(getattr(connection, name)())


class AsyncPsycopg(Tasks):
    patient = POSTGRESQL_WAITS

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(where, stack)
        self.driver = pytest.importorskip("psycopg")
        self.conflicts = (
            self.driver.errors.SerializationFailure,
            self.driver.errors.LockNotAvailable,
        )

    def connect(self, **more: Any) -> Any:
        made = self.run(
            self.driver.AsyncConnection.connect(
                host=str(self.where), user="postgres", options="-c lock_timeout=200ms", **more
            )
        )
        self.stack.callback(lambda: self.run(made.close()))
        return made

    def open(self, level: str) -> Session:
        made = self.connect()
        self.run(
            made.set_isolation_level(getattr(self.driver.IsolationLevel, level.replace(" ", "_")))
        )
        return Session(self, made)

    def execute(self, connection: Any, text: str) -> list[Any]:
        async def rows() -> list[Any]:
            cursor = await connection.execute(text)
            return await cursor.fetchall() if cursor.description else []

        return self.run(rows())

    def autocommitting(self) -> Any:
        return self.connect(autocommit=True)


class Asyncpg(Tasks):
    patient = POSTGRESQL_WAITS

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(where, stack)
        self.driver = pytest.importorskip("asyncpg")
        errors = self.driver.exceptions
        self.conflicts = (errors.SerializationError, errors.LockNotAvailableError)

    def autocommitting(self) -> Any:
        made = self.run(
            self.driver.connect(
                host=str(self.where),
                user="postgres",
                database="postgres",
                server_settings={"lock_timeout": "200ms"},
            )
        )
        self.stack.callback(lambda: self.run(made.close()))
        return made

    def open(self, level: str) -> Session:
        made = self.autocommitting()
        self.run(made.execute(f"BEGIN ISOLATION LEVEL {level}"))
        return Session(self, made)

    def execute(self, connection: Any, text: str) -> list[Any]:
        return [tuple(row.values()) for row in self.run(connection.fetch(text))]

    def call(self, connection: Any, name: str) -> None:
        self.run(connection.execute(name.upper()))


class AsyncAlchemy(Tasks):
    """SQLAlchemy's asyncio face over asyncpg: connections, or sessions of its ORM."""

    orm = False
    patient = POSTGRESQL_WAITS
    url = "postgresql+asyncpg://postgres@/postgres?host={}"
    bound = "SET lock_timeout = '200ms'"

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        super().__init__(where, stack)
        self.library = pytest.importorskip("sqlalchemy")
        self.tasks = pytest.importorskip("sqlalchemy.ext.asyncio")
        pytest.importorskip("asyncpg")
        self.conflicts = (self.library.exc.DBAPIError,)

    def connection(self, level: str) -> Any:
        engine = self.tasks.create_async_engine(
            self.url.format(self.where),
            poolclass=self.library.pool.NullPool,
            isolation_level=level,
        )
        made = self.tasks.AsyncSession(engine) if self.orm else engine.connect()
        self.run(made.__aenter__())
        self.stack.callback(lambda: self.run(made.close()))
        return made

    def open(self, level: str) -> Session:
        made = self.connection(level)
        self.execute(made, self.bound)
        return Session(self, made)

    def execute(self, connection: Any, text: str) -> list[Any]:
        found = self.run(connection.execute(self.library.text(text)))
        return [tuple(row) for row in found] if found.returns_rows else []

    def autocommitting(self) -> Any:
        return self.connection("AUTOCOMMIT")


class AsyncAlchemyOrm(AsyncAlchemy):
    orm = True


class AsyncAlchemySqlite(AsyncAlchemy):
    url, bound, patient = "sqlite+aiosqlite:///{}", "PRAGMA busy_timeout = 200", ""
    levels = ("SERIALIZABLE",)

    def __init__(self, where: Path, stack: contextlib.ExitStack) -> None:
        pytest.importorskip("aiosqlite")
        super().__init__(where, stack)


WORLDS: dict[str, tuple[Callable[..., World], str]] = {
    "psycopg": (Psycopg, "postgresql"),
    "psycopg-asyncio": (AsyncPsycopg, "postgresql"),
    "asyncpg": (Asyncpg, "postgresql"),
    "sqlalchemy-postgresql": (AlchemyPostgres, "postgresql"),
    "sqlalchemy-orm": (AlchemyOrm, "postgresql"),
    "sqlalchemy-asyncio": (AsyncAlchemy, "postgresql"),
    "sqlalchemy-orm-asyncio": (AsyncAlchemyOrm, "postgresql"),
    "pymysql": (PyMySQL, "mariadb"),
    "sqlalchemy-mariadb": (AlchemyMariadb, "mariadb"),
    "sqlalchemy-asyncio-sqlite": (AsyncAlchemySqlite, "sqlite"),
    "sqlite3": (Sqlite, "sqlite"),
    "sqlalchemy-sqlite": (AlchemySqlite, "sqlite"),
}
CASES = [(name, level) for name, (kind, _) in WORLDS.items() for level in kind.levels]
