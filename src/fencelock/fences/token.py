"""The fencing token that a guard compares: a lock's name and the fence of one of its leases."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from fencelock import options
from fencelock.errors import Stale

# The largest number that a signed 64-bit column stores.
FENCE_MAX = 2**63 - 1


class FencingToken(NamedTuple):
    """A lock's name and a fence, for code that writes but does not have the lease itself.

    Such as a worker that received both with its task, or a command that ``fencelock run`` started,
    which finds the fence in ``FENCELOCK_FENCE``.
    """

    name: str
    fence: int


class Fenced(Protocol):
    """A lease of one lock, or a ``FencingToken``."""

    @property
    def name(self) -> str:
        """Return the lock's name."""

    @property
    def fence(self) -> int:
        """Return the fence."""


class FencedMany(Protocol):
    """A lease of several locks, as ``multi`` grants it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the locks."""

    @property
    def fences(self) -> Any:
        """Return the fence of each, by its name."""


def tokens_of(lease: object) -> list[FencingToken]:
    """Return the tokens to compare, after a check of the lease; sorted against deadlocks.

    Raises LeaseLost or NotHeld when a lease cannot be proved, and TypeError or ValueError for what
    has no fence.
    """
    found = _tokens(lease)
    check = getattr(lease, "check", None)
    if check is not None:
        check()
    return found


def _tokens(lease: Any) -> list[FencingToken]:
    fences = getattr(lease, "fences", None)
    if fences is not None:
        return [_token(name, fences[name]) for name in sorted(fences)]
    if not (hasattr(lease, "name") and hasattr(lease, "fence")):
        raise TypeError(f"lease must be a lease or a FencingToken(name, fence), not {lease!r}")
    return [_token(lease.name, lease.fence)]


def _token(name: Any, fence: Any) -> FencingToken:
    if isinstance(fence, bool) or not isinstance(fence, int):
        raise TypeError(f"fence must be int, not {fence!r}")
    if fence == 0:
        raise ValueError(
            f"the lease of {name!r} has fence 0, which is no fencing token:"
            " acquire with wait=Queue(), not Poll()"
        )
    if not 0 < fence <= FENCE_MAX:
        raise ValueError(f"fence must be from 1 to {FENCE_MAX}, not {fence}")
    return FencingToken(options.lock_name(name), fence)


def refuse_older(token: FencingToken, seen: int) -> None:
    """Raise Stale if a resource has seen a greater fence than that of the token."""
    if seen > token.fence:
        raise Stale(token.name, fence=token.fence, seen=seen)
