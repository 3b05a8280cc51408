"""Distributed locks for Python over Redis and Valkey: renewed leases, fencing tokens, FIFO handoff.

Threads: ``Client``. asyncio: ``AsyncClient``. Shell: ``fencelock run NAME -- CMD``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencelock.blocking import Client, Lease, Lock, RLock
from fencelock.errors import (
    AcquireTimeout,
    FencelockError,
    LeaseLost,
    NotAcquired,
    NotHeld,
    OutcomeUnknown,
    QuorumNotReached,
    ServerDenied,
    ServerError,
    ServerReadOnly,
    ServerUnreachable,
    ServerUnsuitable,
)
from fencelock.options import Poll, Queue

if TYPE_CHECKING:
    from fencelock.aio import AsyncClient, AsyncLease, AsyncLock, AsyncRLock

__version__ = "0.1.0"

__all__ = [
    "AcquireTimeout",
    "AsyncClient",
    "AsyncLease",
    "AsyncLock",
    "AsyncRLock",
    "Client",
    "FencelockError",
    "Lease",
    "LeaseLost",
    "Lock",
    "NotAcquired",
    "NotHeld",
    "OutcomeUnknown",
    "Poll",
    "Queue",
    "QuorumNotReached",
    "RLock",
    "ServerDenied",
    "ServerError",
    "ServerReadOnly",
    "ServerUnreachable",
    "ServerUnsuitable",
]


def __getattr__(name: str) -> Any:
    """Import the asyncio face when it is first used: the command line does not pay for it."""
    if name in {"AsyncClient", "AsyncLease", "AsyncLock", "AsyncRLock"}:
        from fencelock import aio  # noqa: PLC0415 - see above

        return getattr(aio, name)
    raise AttributeError(f"module 'fencelock' has no attribute {name!r}")
