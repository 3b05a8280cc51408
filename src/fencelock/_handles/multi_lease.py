"""The lease of several locks: lost when one of them is, proved as long as all of them are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fencelock._core.lock.hold import Hold
from fencelock._runtime.hints import unnamed
from fencelock._runtime.process import ProcessBound


@unnamed
class BaseMultiLease(ProcessBound):
    """One tenure of several locks; see ``MultiLease`` and ``AsyncMultiLease``.

    ``__holds__`` are the leases of the locks. ``__untold__`` is empty once the loss is reported.
    """

    __slots__ = ("__holds__", "__untold__", "__weakref__", "fences", "names", "ttl")

    names: tuple[str, ...]
    fences: Mapping[str, int]
    ttl: float

    def __init__(self, leases: Sequence[Hold]) -> None:
        self.__holds__: tuple[Hold, ...] = tuple(leases)
        self.__untold__: list[bool] = [True]
        self.names = tuple(lease.name for lease in leases)
        self.fences = MappingProxyType({lease.name: lease.fence for lease in leases})
        self.ttl = min(lease.ttl for lease in leases)

    @property
    def deadline(self) -> float:
        """Return the earliest deadline: the instant until which all are proved.

        On fencelock's monotonic clock.
        """
        return min(lease.deadline for lease in self.__holds__)

    @property
    def lost(self) -> bool:
        """Return True if any of the leases was lost or can no longer be proved; sends nothing.

        False after a release in time.
        """
        return any(lease.lost for lease in self.__holds__)

    def remaining(self) -> float:
        """Return how many seconds all can still be proved; 0.0 once one is lost, or released."""
        return min(lease.remaining() for lease in self.__holds__)

    def expires_at(self) -> float:
        """Return the instant the proved part ends, as Unix time in seconds by this host's clock.

        For people and for other programs on this host, as with ``Lease``.
        """
        return time.time() + self.remaining()

    def check(self) -> None:
        """Raise when not all of them can be proved now; sends nothing.

        Raises:
            LeaseLost: one of them was lost; it names that one.
            NotHeld: they were released.
        """
        for lease in sorted(self.__holds__, key=lambda each: not each.lost):
            lease.check()

    def __repr__(self) -> str:
        """Show the state, and the name and fence of each."""
        released = all(lease.released for lease in self.__holds__)
        state = "lost" if self.lost else "released" if released else "held"
        fences = ", ".join(f"{name!r} fence={fence}" for name, fence in self.fences.items())
        return f"<{state} {type(self).__name__} of {fences}>"
