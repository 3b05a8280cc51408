"""Locks around database transactions: released after the commit, or with a warning.

Rules of this file:

- The writes of a transaction are visible to others after its commit. If the lock is released
  before, the next holder works on old data.
- Django cancels an asynchronous view whose client leaves, and what ``sync_to_async`` runs for it
  goes on in its thread. The lock is held until that has ended.
- A lock that waits for the commit is released by a rollback, too. Django forgets the callbacks of
  ``on_commit`` then, so the release is also the finalizer of the callback.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from types import TracebackType
from typing import Any, Literal

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from fencelock._runtime.log import log
from fencelock.aio.lease import AsyncLease
from fencelock.aio.lock import AsyncLock
from fencelock.blocking.lease import Lease
from fencelock.contrib.django.clients import aclient, client
from fencelock.contrib.running import RunningFunctions, running_in
from fencelock.errors import FencelockError

Release = Literal["end", "on_commit", "now"]


class ReleasedInTransaction(UserWarning):
    """A lock was released inside an open transaction, whose writes the next holder cannot see."""


def lock(
    name: str,
    *,
    release: Release = "end",
    using: str = DEFAULT_DB_ALIAS,
    **given: Any,
) -> LockAround:
    """Return a context manager that holds the lock ``name``, for ``with`` and ``async with``.

    ``release`` says when: ``"end"``, at the end of ``with``, which warns
    (``ReleasedInTransaction``) when a transaction is open then; ``"on_commit"``, once the
    transaction of the database ``using`` has been committed or rolled back; ``"now"``, at the end
    without a warning. The transaction in which ``TestCase`` runs a test does not count. The other
    options are those of ``Client.lock``.

    ``async with`` acquires it by ``aclient()``, and releases at its end without a look at
    transactions: Django's are blocking, so they begin and end within one ``sync_to_async``.

    Raises:
        ValueError: ``release`` is something else; and all that ``Client.lock`` raises.
    """
    if release not in {"end", "on_commit", "now"}:
        raise ValueError(f'release must be "end", "on_commit" or "now", not {release!r}')
    return LockAround(client().lock(name, **given), release, using, given)


def alock(name: str, **given: Any) -> AsyncLock:
    """Return the lock ``name`` of ``aclient()``, for ``async with``; call it in a coroutine.

    The options are those of ``AsyncClient.lock``, ``on_lost="cancel"`` among them. A body that is
    cancelled keeps it until the functions have ended that it runs by ``sync_to_async``.

    Raises:
        RuntimeError: no event loop runs; and all that ``AsyncClient.lock`` raises.
    """
    return _AsyncLock(*aclient().lock(name, **given).__shared__())


class _AsyncLock(AsyncLock):
    """A lock whose body may run functions in threads; as ``AsyncLock`` to all others."""

    __slots__ = ()

    async def __aenter__(self) -> AsyncLease:
        lease = await super().__aenter__()
        RunningFunctions(self).begin()
        return lease

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        functions = running_in(self) if error is not None else None
        cancelled = functions is not None and await functions.ended()
        await super().__aexit__(kind, error, trace)
        if cancelled and not isinstance(error, asyncio.CancelledError):
            raise asyncio.CancelledError from error


_AsyncLock.__name__ = _AsyncLock.__qualname__ = AsyncLock.__name__


class LockAround:
    """Holds a lock during ``with``, and perhaps until the commit; ``lock`` makes it."""

    def __init__(self, handle: Any, release: Release, using: str, given: dict[str, Any]) -> None:
        self._handle = handle
        self._release = release
        self._using = using
        self._given = given
        self._held = contextlib.ExitStack()
        self._held_async = contextlib.AsyncExitStack()

    def __enter__(self) -> Lease:
        """Acquire the lock within its ``timeout`` and return the lease."""
        lease: Lease = self._held.enter_context(self._handle)
        return lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Release the lock now, or once the transaction has ended."""
        if self._release == "on_commit" and connections[self._using].in_atomic_block:
            later = _ReleaseLater(self._held.pop_all(), self._handle.name)
            transaction.on_commit(later, using=self._using)
            return None
        for alias in open_transactions() if self._release != "now" and error is None else ():
            warnings.warn(
                f"{self._handle.name!r} is released inside a transaction of the database {alias!r}:"
                " the next holder cannot see what it wrote. Take the lock outside the transaction,"
                ' or pass release="on_commit"',
                ReleasedInTransaction,
                stacklevel=2,
            )
        return self._held.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncLease:
        """Acquire the lock within its ``timeout`` and return the lease; ValueError if on commit."""
        if self._release == "on_commit":
            raise ValueError(
                'release="on_commit" needs `with`, in the function that runs the transaction'
            )
        handle = alock(self._handle.name, **self._given)
        return await self._held_async.enter_async_context(handle)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Release the lock."""
        return await self._held_async.__aexit__(kind, error, trace)


def open_transactions() -> list[str]:
    """Return the databases with an open transaction in this thread, without that of a test."""
    found: list[str] = []
    for each in connections.all(initialized_only=True):
        blocks = getattr(each, "atomic_blocks", ())
        of_test = bool(blocks) and all(getattr(block, "_from_testcase", False) for block in blocks)
        # Then each statement is in a transaction, which the program ends by itself.
        manual = each.connection is not None and not each.autocommit
        if (manual or each.in_atomic_block) and not of_test:
            found.append(each.alias)
    return found


class _ReleaseLater:
    """Releases when it is called at the commit, or collected after a rollback."""

    def __init__(self, held: contextlib.ExitStack, name: str) -> None:
        self._held = held
        self._name = name

    def __call__(self) -> None:
        try:
            self._held.close()  # a second time it does nothing
        except FencelockError as error:
            log.warning("releasing %r after its transaction: %s", self._name, error)

    def __del__(self) -> None:
        self()
