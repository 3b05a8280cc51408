"""A lease that tells every deadline it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencelock.lease import BaseLease


def watched(tell: Callable[[float], None]) -> type[BaseLease]:
    """Return a lease type that calls ``tell`` with each new deadline, in whatever thread sets it.

    The first call comes from its constructor, that is, as soon as the lock is granted.
    """
    slot: Any = BaseLease.__dict__["_deadline"]  # set by renewal; there is no event for it

    class Watched(BaseLease):
        __slots__ = ()

        @property
        def _deadline(self) -> float:
            deadline: float = slot.__get__(self)
            return deadline

        @_deadline.setter
        def _deadline(self, value: float) -> None:
            slot.__set__(self, value)
            tell(value)

    return Watched
