"""What a client makes that many may hold at once, for threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._core.shares import READ, WRITE
from fencelock._ports.blocking import BlockingPort
from fencelock.blocking.lease import Lease
from fencelock.blocking.rwlock import RWLock
from fencelock.blocking.semaphore import BoundedSemaphore, Semaphore
from fencelock.handles import Defaults, settings
from fencelock.options import Queue, Seconds
from fencelock.permits import checked_limit
from fencelock.quorums import refuse
from fencelock.sides import Side, Sides


class MakesShares:
    """The factories of ``Client`` for semaphores and reader/writer locks."""

    _port: BlockingPort
    _defaults: Defaults
    _sides: Sides

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Semaphore:
        """Return a handle of the semaphore ``name`` with ``limit`` permits; sends nothing.

        All who use a name at a time must name the same limit: another one is refused while
        anybody holds or waits. ``Semaphore.set_limit`` changes it for everybody.
        The other options are those of ``lock``, for the lease of each acquisition.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "semaphore")
        chosen = settings(
            self._defaults,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            max_renewals=max_renewals,
            timeout=timeout,
            wait=Queue(),
            on_lost=on_lost,
            label=label,
            cancels=False,
        )
        keys = LockKeys(self._defaults.key_prefix, options.lock_name(name))
        return Semaphore(self._port, keys, chosen, checked_limit(limit))

    def bounded_semaphore(
        self,
        name: str,
        limit: int,
        *,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> BoundedSemaphore:
        """Return a handle whose release of more than it holds is a ValueError; sends nothing.

        Otherwise it is as ``semaphore`` with the same options, and the same object on the server.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "semaphore")
        chosen = settings(
            self._defaults,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            max_renewals=max_renewals,
            timeout=timeout,
            wait=Queue(),
            on_lost=on_lost,
            label=label,
            cancels=False,
        )
        keys = LockKeys(self._defaults.key_prefix, options.lock_name(name))
        return BoundedSemaphore(self._port, keys, chosen, checked_limit(limit))

    def rwlock(
        self,
        name: str,
        *,
        read_ttl: Seconds | None = None,
        write_ttl: Seconds | None = None,
        reentrant: bool = False,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> RWLock:
        """Return a handle of the reader/writer lock ``name``; sends nothing.

        Its ``read`` and ``write`` are used as locks, with leases of ``read_ttl`` and ``write_ttl``
        (the client's ttl by default). ``reentrant`` lets a thread that writes enter the write side
        again; the read side is reentrant always. The other options are those of ``lock``, for both
        sides.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        keys = LockKeys(self._defaults.key_prefix, options.lock_name(name))

        def side(ttl: Seconds | None, side: int, *, again: bool) -> Side:
            chosen = settings(
                self._defaults,
                ttl=ttl,
                renew=renew,
                max_hold=max_hold,
                max_renewals=max_renewals,
                timeout=timeout,
                wait=Queue(),
                on_lost=on_lost,
                label=label,
                cancels=False,
            )
            return Side(keys, chosen, Lease, self._sides, side, reentrant=again)

        read = side(options.side_ttl("read_ttl", read_ttl), READ, again=True)
        write = side(options.side_ttl("write_ttl", write_ttl), WRITE, again=bool(reentrant))
        return RWLock(self._port, keys, read, write)
