"""RWLock and its two sides, for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencelock._handles.rwlock import SideHolds
from fencelock._io.port_asyncio import AioPort
from fencelock._runtime.hints import SIDES, Elsewhere, made_by_clients, unnamed
from fencelock._runtime.process import ProcessBound
from fencelock.aio.caller import by_caller
from fencelock.aio.lock import AsyncLockBase


@unnamed
class AsyncRWLockSide(AsyncLockBase):
    """What ``AsyncReadLock`` and ``AsyncWriteLock`` share."""

    __slots__ = ()

    _holds: SideHolds

    @by_caller
    async def release(self) -> int:
        """Leave this side once; return how many holds of it this task has left (0: released).

        Hands it to the first waiters in line: one writer, or all readers up to the next writer.
        Ends within ``server_timeout``. Cancelled, it is still carried out, in the background.

        Raises:
            NotHeld: this task does not hold this side through this handle.
            LeaseLost: the lease had ended before; another client may hold the lock.
            OutcomeUnknown, ServerUnreachable: no answer came; the release is repeated in the
                background, and the lease ends by its ttl at the latest.
        """
        return await self._leave()

    async def locked(self) -> bool:
        """Ask the server whether this side would have to be waited for now.

        Raises:
            ServerUnsuitable: the name is in use as another kind of object.
            ServerError: the server cannot tell, or no answer came.
        """
        return await self._holds.is_busy(self._port())

    async def owned(self) -> bool:
        """Ask the server whether this handle holds this side now.

        Sends nothing, and is False, when this handle holds nothing.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return await self._holds.is_owned(self._port())


class AsyncReadLock(AsyncRWLockSide):
    """The read side of a reader/writer lock: many may hold it while there is no writer.

    ``AsyncRWLock.read``. The task owns it, and may enter it again and again. A task that writes
    gets it at once: released after the write side, it is a downgrade without a gap.
    """

    __slots__ = ()


class AsyncWriteLock(AsyncRWLockSide):
    """The write side of a reader/writer lock: one holds it, without any other reader or writer.

    ``AsyncRWLock.write``. The task owns it. A task that reads cannot get it, and one that writes
    enters again only with ``reentrant=True``: both get NotAcquired.
    """

    __slots__ = ()


class AsyncRWLock(ProcessBound):
    """A lock that many read or one writes, for all tasks, processes and hosts.

    Made by ``AsyncClient.rwlock``. Each reader and each writer has a lease of its own. First come,
    first served: adjacent readers in line are granted together, and no waiter overtakes another, so
    that neither side is starved. Fences order reads and writes.

    What a task holds counts for all handles of its client. Two clients know nothing of each
    other: do not nest their locks, as each would wait for the other.
    """

    __slots__ = ("read", "write")

    if not TYPE_CHECKING:
        acquire = Elsewhere(SIDES)
        release = Elsewhere(SIDES)
        read_lock = Elsewhere(SIDES)
        write_lock = Elsewhere(SIDES)

    read: AsyncReadLock
    write: AsyncWriteLock

    @made_by_clients
    def __init__(self, port: Callable[[], AioPort], read: SideHolds, write: SideHolds) -> None:
        self.read = AsyncReadLock(port, read)
        self.write = AsyncWriteLock(port, write)

    @property
    def name(self) -> str:
        """Return the lock's name, without the prefix."""
        return self.read.name

    def __repr__(self) -> str:
        """Show the name and both sides, as this process knows them."""
        return (
            f"<fencelock.AsyncRWLock object name={self.name!r} read={self.read} write={self.write}>"
        )
