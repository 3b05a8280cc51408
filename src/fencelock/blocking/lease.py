# Generated from aio/lease.py by generate_blocking.py: change that, and run the script.
"""The lease of one lock, and that of several, for threads."""

from __future__ import annotations

from fencelock import options
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew import renew_now
from fencelock._handles.multi_lease import BaseMultiLease
from fencelock.blocking.caller import in_loop_of
from fencelock.lease import BaseLease
from fencelock.options import Seconds


class Lease(BaseLease):
    """One timed tenure of a lock, in threads; ``with lock as lease`` gives it.

    ``name``, ``fence``, ``holder`` and ``ttl`` say what is held; ``remaining()``, ``lost`` and
    ``check()`` answer from the local monotonic clock and send nothing.
    """

    __slots__ = ()

    def renew(self, ttl: Seconds | None = None) -> None:
        """Renew the lease now, for ``ttl`` seconds or for as long as usual, within ``max_hold``.

        It never makes the lease end earlier: where more is left, that stays. To give a lease back
        sooner, release it.

        Raises:
            LeaseLost: it was lost before, or the server refuses it.
            NotHeld: it was released, or its handle is gone.
            OutcomeUnknown, ServerUnreachable: no answer came while the lease lasted.
        """
        span = None if ttl is None else options.lease_ttl(ttl)
        if not isinstance(self, BlockingHold):  # all leases of threads are
            raise NotImplementedError
        port = self.renewing_port()
        in_loop_of(port, renew_now(port, self, span))


class BlockingHold(Hold, Lease):
    """A hold of a thread, or of the code that it passes its lease to."""

    __slots__ = ()


# Users see it by the public name.
BlockingHold.__name__ = BlockingHold.__qualname__ = Lease.__name__


class MultiLease(BaseMultiLease):
    """One tenure of several locks, in threads; ``with multi as lease`` gives it.

    ``fences`` maps each name to its fencing token. ``remaining()``, ``lost`` and ``check()`` speak
    of all of them, answer from the local monotonic clock and send nothing.
    """

    __slots__ = ()

    def renew(self, ttl: Seconds | None = None) -> None:
        """Renew all leases now, for ``ttl`` seconds or for as long as usual; one command each.

        In a Cluster all nodes are asked at once: a silent one holds up only its own leases.

        Raises:
            LeaseLost: one was lost before, or the server refuses it.
            NotHeld: they were released.
            OutcomeUnknown, ServerUnreachable: no answer came while the leases lasted.
        """
        span = None if ttl is None else options.lease_ttl(ttl)
        self.check()
        port = next(lease.renewing_port() for lease in self.__holds__)
        in_loop_of(port, port.renew(self.__holds__, span))
