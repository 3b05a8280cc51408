"""Distributed locks for Python over Redis and Valkey: renewed leases, fencing tokens, FIFO handoff.

Threads: ``Client``. asyncio: ``AsyncClient``. Shell: ``fencelock run NAME -- CMD``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencelock.errors import (
    AcquireTimeout,
    BarrierBroken,
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
    from fencelock.aio import (
        AsyncBarrier,
        AsyncClient,
        AsyncCondition,
        AsyncEvent,
        AsyncLatch,
        AsyncLease,
        AsyncLock,
        AsyncRLock,
    )
    from fencelock.blocking import Barrier, Client, Condition, Event, Latch, Lease, Lock, RLock

__version__ = "0.1.0"

__all__ = [
    "AcquireTimeout",
    "AsyncBarrier",
    "AsyncClient",
    "AsyncCondition",
    "AsyncEvent",
    "AsyncLatch",
    "AsyncLease",
    "AsyncLock",
    "AsyncRLock",
    "Barrier",
    "BarrierBroken",
    "Client",
    "Condition",
    "Event",
    "FencelockError",
    "Latch",
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
    """Import a face when it is first used: the command line needs neither, a program just one."""
    if name not in __all__:
        raise AttributeError(f"module 'fencelock' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as the faces

    face = import_module("fencelock.aio" if name.startswith("Async") else "fencelock.blocking")
    found = globals()[name] = getattr(face, name)
    return found


def __dir__() -> list[str]:
    """Name what is not imported yet, too."""
    return sorted({*globals(), *__all__})
