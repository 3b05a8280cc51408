"""Condition, for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fencelock import options
from fencelock._core.objects.condition import ALL
from fencelock._handles.condition import BaseCondition
from fencelock._io.port_asyncio import AioPort
from fencelock._runtime.clock import now
from fencelock.aio.caller import by_caller, caller
from fencelock.aio.lease import AsyncLease
from fencelock.aio.lock import AsyncLock, AsyncRLock

T = TypeVar("T")


class AsyncCondition(BaseCondition):
    """A condition variable, as ``asyncio.Condition`` but for all processes of all hosts.

    Made by ``AsyncClient.condition`` over a lock. Its methods need the lock to be held through that
    lock's handle. After a wait the lock is held with a new lease and a new fence: ``lock.lease`` is
    that lease. All handles with the same lock and the same ``name`` are one condition.
    """

    __slots__ = ()

    _reentrant = AsyncRLock
    lock: AsyncLock | AsyncRLock

    @property
    def _port(self) -> AioPort:
        return self.lock.__shared__()[0]()

    @by_caller
    async def acquire(self, blocking: bool = True, timeout: options.Seconds = -1) -> bool:
        """Acquire the lock, as ``AsyncLock.acquire`` does, in the same time and with its errors."""
        return await self.lock.acquire(blocking, timeout)

    @by_caller
    async def release(self) -> int | None:
        """Release the lock, as ``AsyncLock.release`` does, and with its errors."""
        return await self.lock.release()

    async def locked(self) -> bool:
        """Ask the server whether any client holds the lock now, as ``AsyncLock.locked`` does."""
        return await self.lock.locked()

    @by_caller
    async def wait(self, timeout: options.Seconds | None = None) -> bool:
        """Release the lock, wait to be notified, and acquire the lock again; True when notified.

        False when no notification came within ``timeout`` seconds; without one it waits for ever.
        Then it holds the lock again, with all entries of an ``AsyncRLock``, however long that
        takes: the timeout does not limit it. After a server restart that lost data it
        may return True without a notification: use ``wait_for``, or a loop.

        After a cancellation it acquires the lock again first. A notification that this task had
        received goes to another waiter.

        Raises:
            NotHeld: the lock is not held through its handle.
            LeaseLost: the lease had ended before; it did not wait, and nothing is held.
            ServerUnreachable, OutcomeUnknown: no answer within ``server_timeout``; nothing is held.
            ServerError: the server refuses; nothing is held.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        task = caller()
        return await self._waited(self._port, task, task, timeout)

    @by_caller
    async def wait_for(
        self, predicate: Callable[[], T], timeout: options.Seconds | None = None
    ) -> T:
        """Wait until ``predicate`` is true, and return what it returned last.

        It is called with the lock held, at once and after each notification. A false value is
        returned when it was not true within ``timeout`` seconds.

        Raises:
            NotHeld, LeaseLost, ServerError, OutcomeUnknown: as ``wait``.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        seconds = options.wait_timeout(timeout)
        end = None if seconds is None else now() + seconds
        while not (result := predicate()):
            left = None if end is None else end - now()
            if left is not None and left <= 0:
                break
            await self.wait(left)
        return result

    @by_caller
    async def notify(self, n: int = 1) -> None:
        """Wake the first ``n`` waiting tasks: they get the lock one after the other.

        The lock stays held until it is released. Dead waiters are skipped; without waiters nothing
        happens.

        Raises:
            NotHeld: the lock is not held through its handle.
            LeaseLost: the lease has ended.
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``.
            TypeError, ValueError: ``n`` is not a whole number of at least 1.
        """
        await self._notified(self._port, caller(), options.count("n", n))

    @by_caller
    async def notify_all(self) -> None:
        """Wake all waiting tasks: they get the lock one after the other.

        Raises:
            NotHeld, LeaseLost, ServerError, OutcomeUnknown: as ``notify``.
        """
        await self._notified(self._port, caller(), ALL)

    async def __aenter__(self) -> AsyncLease:
        """Acquire the lock, as ``async with lock``, and return the lease."""
        return await self.lock.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Release the lock, as the end of ``async with lock``."""
        await self.lock.__aexit__(kind, error, trace)
