# Generated from aio/redisson.py by generate_blocking.py: change that, and run the script.
"""Locks in the layout of Redisson's ``RLock`` and ``RFencedLock``, for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencelock import options
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.redisson import RedissonKeys, force_unlock, tell_count
from fencelock._handles.body import Body
from fencelock._handles.redisson import RedissonHolds
from fencelock._io.threads import run_blocking
from fencelock._runtime import process
from fencelock.blocking.client import Client
from fencelock.blocking.lease import BlockingHold, Lease
from fencelock.blocking.lock import RLock
from fencelock.lease import NoFence
from fencelock.options import Seconds


class UnfencedHold(BlockingHold):
    """A hold of a lock that grants without a fence."""

    __slots__ = ()

    if not TYPE_CHECKING:
        fence = NoFence(
            "Redisson's RLock grants without one: a resource that must refuse late writes needs"
            " a FencedLock, and getFencedLock in Java"
        )


# Users see it by the public name.
UnfencedHold.__name__ = UnfencedHold.__qualname__ = Lease.__name__


class RedissonLock(RLock):
    """Redisson's ``RLock``: programs in Java and threads of any process exclude each other.

    As ``RLock``, in Redisson's layout: the thread owns it, through any handle of the client, and
    enters it again without waiting. ``lease.lost``, ``on_lost`` and timeouts are as everywhere.

    It competes as Redisson's clients do, and has no more than these: no order of arrival and no
    handoff, no fence, no cohort, no ``linger``, and no replicas or quorum.
    """

    __slots__ = ()

    _fenced = False
    _hold_type: type[Hold] = UnfencedHold
    _holds: RedissonHolds

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        lease_time: Seconds | None = None,
        watchdog_timeout: Seconds = options.TTL,
        timeout: Seconds | None = None,
        max_hold: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
        template: str | None = None,
        **other: object,
    ) -> None:
        """Make a handle of the lock ``name``; sends nothing.

        ``name`` is the key as it is, without the client's prefix: what Redisson's ``NameMapper``
        makes of its name. With ``lease_time`` a lease is so many seconds long, and ends then. By
        default it is ``watchdog_timeout`` long, 30 s as in Redisson, and renewed at a third of it
        while it is held, for ``max_hold`` seconds at most (None: without bound).
        ``timeout`` bounds ``with`` (None: waits for ever). The others are those of ``client.lock``.

        Raises:
            TypeError: an option that such a lock lacks, such as ``linger`` or ``cohort``.
            ValueError: an option that cannot work, or a client of a quorum or with replicas.
        """
        port, chosen, table = client.__redisson__(locals(), other)
        keys = RedissonKeys(options.lock_name(name), fenced=self._fenced)
        super().__init__(port, RedissonHolds(keys, chosen, self._hold_type, table))

    def force_unlock(self) -> bool:
        """Take the lock from its holder, in whichever program; True if it was held.

        Those that wait are notified as by a release. A holder of this client is notified at once,
        another one finds out at its next renewal: until then its work goes on.

        Raises:
            ServerError, OutcomeUnknown: the server refuses, or no answer came.
        """
        return run_blocking(force_unlock(self._port, self._holds.keys))

    def _enter(self, body: Body, seconds: float | None) -> Hold | None:
        """Acquire, or enter once more, and write that."""
        hold = super()._enter(body, seconds)
        if hold is not None and hold.count > 1:
            tell_count(self._port, hold)
        return hold

    def _leave(self) -> int:
        """Leave once, and write how often it is still entered."""
        hold = self._holds.of(process.here.unit)
        left = super()._leave()
        if hold is not None and left:
            tell_count(self._port, hold)
        return left

    def _end_body(self, body: Body | None) -> None:
        """End a body, and write the same."""
        hold = None if body is None else self._holds.of_body(body)
        count = 0 if hold is None else hold.count
        super()._end_body(body)
        if hold is not None and count > 1:
            tell_count(self._port, hold)


class RedissonFencedLock(RedissonLock):
    """Redisson's ``RFencedLock``: as its ``RLock``, with a token that each grant raises.

    ``lease.fence`` is that token, the same for a thread that enters again. In Java re-entry raises
    it, too. It is a count at a key of its own without a ttl: ``delete()`` in Java restarts it, and
    a resource that keeps the highest one refuses everything then.
    """

    __slots__ = ()

    _fenced = True
    _hold_type = BlockingHold
