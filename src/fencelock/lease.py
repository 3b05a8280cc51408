"""The lease: one timed tenure of a lock, as its holder may rely on it.

This file is what users see of a lease. ``_core.lock.hold.Hold`` is the lease itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fencelock._runtime import process
from fencelock._runtime.hints import Elsewhere, unnamed
from fencelock._runtime.typed import TYPE_CHECKING, Any


@unnamed
class BaseLease(process.ProcessBound):
    """What a lease offers in threads and in asyncio; see ``Lease`` and ``AsyncLease``.

    ``fence`` is the fencing token: it grows with every grant of the lock, so that a resource can
    refuse writes that carry an older one. It is 0 for a lock taken with ``Poll``, whose plain form
    has none. ``ttl`` is the length asked for, in seconds.
    """

    __slots__ = ("fence", "ttl")

    fence: int
    ttl: float

    if not TYPE_CHECKING:
        extend = Elsewhere("to renew it now, call renew(), with another ttl if you like")
        refresh = Elsewhere("to renew it now, call renew(), with another ttl if you like")
        release = Elsewhere("call release() of the lock, or end its with block")

    @property
    def name(self) -> str:
        """Return the name of the lock, without the prefix."""
        raise NotImplementedError

    @property
    def holder(self) -> str:
        """Return the unguessable string that proves the tenure to the server."""
        raise NotImplementedError

    @property
    def unchanged(self) -> bool:
        """Return True if surely no other client held the lock since this client held it before.

        Then what was computed under the lock before is still valid. True where the lease stayed
        with the client in between: it was kept (``linger``) or passed on (``Cohort``), or was
        released and granted again by one command. False after anything else, also where perhaps no
        client held the lock.
        """
        raise NotImplementedError

    @property
    def deadline(self) -> float:
        """Return the instant, on fencelock's monotonic clock, until which the lease is proved."""
        raise NotImplementedError

    @property
    def lost(self) -> bool:
        """Return True if the lease was lost or can no longer be proved; sends nothing.

        False from the start of a release in time: what was given back was not lost.
        """
        raise NotImplementedError

    def remaining(self) -> float:
        """Return how many seconds of the lease can still be proved; 0.0 once lost or released.

        It is less than the ttl from the start: 1 % and 2 ms are kept back, as clocks run at
        different rates, and so is the time that the request took. A renewed lease that another
        client handed over starts with 2 s, whatever the ttl, and grows in a quarter of a second.
        """
        raise NotImplementedError

    def expires_at(self) -> float:
        """Return the instant the proved part ends, as Unix time in seconds by this host's clock.

        For people and for other programs on this host. Never compare it with the clock of another
        machine: ``remaining()`` is what decides.
        """
        return time.time() + self.remaining()

    def check(self) -> None:
        """Raise when the lease cannot be proved now; sends nothing.

        Raises:
            LeaseLost: it expired, was taken or revoked, or reached ``max_hold``.
            NotHeld: it was released, or a release of it has begun.
        """
        raise NotImplementedError


# The fence of a lease, for errors, events and logs; 0 where its users get a hint instead.
_FENCE: Any = vars(BaseLease)["fence"]
fence_of: Callable[[object], int] = _FENCE.__get__


class NoFence(Elsewhere):
    """The fence of leases without one: asking for it says why, and what to use instead."""

    def __set__(self, instance: object, value: int) -> None:
        """Keep what errors and events say."""
        _FENCE.__set__(instance, value)
