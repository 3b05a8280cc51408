"""The fence guards of SQL databases, for threads and asyncio.

Rules of this file:

- The check and the user's writes are one transaction. The check locks the row of its lock until
  that transaction ends, so of two transactions the older fence either commits before the newer one
  is compared, or is refused.
- A connection that commits each statement is refused: there the check would protect nothing.
"""

from __future__ import annotations

from typing import Any

from fencelock.fences import drivers
from fencelock.fences.sql import TABLE, Statement, dialect_named, statements, table_name
from fencelock.fences.token import Fenced, FencedMany, refuse_older, tokens_of


class _SqlGuard:
    """What both guards share."""

    def __init__(self, table: str = TABLE) -> None:
        """Choose the table that keeps the fences; send nothing.

        ``table`` may have a schema before it. Use one table per fencelock server and
        ``key_prefix``: fences of two servers cannot be compared.

        Raises:
            TypeError, ValueError: a name that is no plain identifier.
        """
        self.table: str = table_name(table)

    def ddl(self, dialect: str) -> str:
        """Return the statement that creates the table, for a migration; sends nothing.

        ``dialect`` is ``"postgresql"``, ``"mysql"``, ``"mariadb"`` or ``"sqlite"``.

        Raises:
            ValueError: another dialect.
        """
        return dialect_named(dialect).create.format(table=self.table)

    def _create(self, dialect: str) -> Statement:
        text = dialect_named(dialect).create_beside.format(create=self.ddl(dialect))
        return Statement(text, (), {})

    def __repr__(self) -> str:
        """Show the table."""
        return f"<fencelock.fences.{type(self).__name__} table={self.table!r}>"


class FenceGuard(_SqlGuard):
    """Refuse the writes of older holders in an SQL database, for threads.

    It works on connections of psycopg 3, sqlite3, PyMySQL and SQLAlchemy 2 (``Connection`` and
    ``Session``), on PostgreSQL, MySQL, MariaDB and SQLite.
    """

    def create(self, connection: Any) -> None:
        """Create the table unless it exists; in MySQL and MariaDB that commits.

        Raises:
            TypeError: no connection of a known driver.
            ValueError: a database of another kind, through SQLAlchemy.
        """
        session = drivers.session(connection)
        session.run(self._create(session.dialect), returns=False)

    def check(self, connection: Any, lease: Fenced | FencedMany) -> None:
        """Raise unless the fence of ``lease`` is the greatest that the database has seen.

        Call it first in the transaction that writes, with that transaction's connection, and again
        in each further transaction. It remembers the fence and locks that row until the transaction
        ends, so that no holder of the same lock can write in between. A lease checks itself first.
        A multi's lease stands for all its locks.

        Raises:
            Stale: a holder with a greater fence has written; roll back.
            LeaseLost, NotHeld: the lease cannot be proved any more; nothing was sent.
            TypeError: no connection of a known driver, or no lease.
            ValueError: the lease has no fencing token; or the connection commits each statement.
            Exception: the driver's own errors. In REPEATABLE READ and SERIALIZABLE that can be a
                serialization failure: run the whole transaction again.
        """
        tokens = tokens_of(lease)
        session = drivers.session(connection)
        dialect = dialect_named(session.dialect)
        for token in tokens:
            seen: Any = None
            for each in statements(dialect, self.table, token, session.style):
                seen = session.run(each, returns=_returns(each))
            _refuse_autocommit(session)
            refuse_older(token, int(seen))


class AsyncFenceGuard(_SqlGuard):
    """Refuse the writes of older holders in an SQL database, for asyncio.

    It works on connections of psycopg 3 (``AsyncConnection``), asyncpg and SQLAlchemy 2
    (``AsyncConnection`` and ``AsyncSession``).
    """

    async def create(self, connection: Any) -> None:
        """Create the table unless it exists; in MySQL and MariaDB that commits.

        Raises:
            TypeError, ValueError: as ``FenceGuard.create``.
        """
        session = drivers.async_session(connection)
        await session.run(self._create(session.dialect), returns=False)

    async def check(self, connection: Any, lease: Fenced | FencedMany) -> None:
        """Raise unless the fence of ``lease`` is the greatest that the database has seen.

        As ``FenceGuard.check``, with its errors.
        """
        tokens = tokens_of(lease)
        session = drivers.async_session(connection)
        dialect = dialect_named(session.dialect)
        for token in tokens:
            seen: Any = None
            for each in statements(dialect, self.table, token, session.style):
                seen = await session.run(each, returns=_returns(each))
            _refuse_autocommit(session)
            refuse_older(token, int(seen))


def _returns(statement: Statement) -> bool:
    """Return True for a statement of a check that returns the stored fence."""
    return statement.text.startswith("SELECT") or statement.text.endswith("RETURNING fence")


def _refuse_autocommit(session: drivers.SqlSession | drivers.AsyncSqlSession) -> None:
    """Raise if the check has committed already: then it does not protect the writes after it."""
    if not session.in_transaction():
        raise ValueError(
            "connection commits each statement (autocommit): begin a transaction, check the fence"
            " in it, and write in the same transaction"
        )
