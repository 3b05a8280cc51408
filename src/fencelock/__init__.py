"""Distributed locks for Python over Redis and Valkey: renewed leases, fencing tokens, FIFO handoff.

Threads: ``Client``. asyncio: ``AsyncClient``. Shell: ``fencelock run NAME -- CMD``.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal itself takes a tenth of the start
import sys as _sys

# The command, while it starts, answers Ctrl-C as a shell's own commands do: it ends, without a
# traceback. ``cli.main`` takes Python's own answer back.
_program = _sys.orig_argv[1:3]
if (
    _program == ["-m", "fencelock"] or "".join(_program[:1]).endswith("/fencelock")
) and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from typing import TYPE_CHECKING, Any

from fencelock.errors import (
    AcquireTimeout,
    BarrierBroken,
    Blocked,
    ClientClosed,
    Deadlock,
    FencelockError,
    LeaseLost,
    NotAcknowledged,
    NotAcquired,
    NotHeld,
    NotRenewable,
    OutcomeUnknown,
    OverReleased,
    QuorumNotReached,
    ServerDenied,
    ServerError,
    ServerReadOnly,
    ServerUnreachable,
    ServerUnsuitable,
    Stale,
)
from fencelock.options import Cohort, History, Poll, Queue

if TYPE_CHECKING:
    from fencelock import embedded as embedded
    from fencelock._core.objects.election import Leader
    from fencelock._handles.once import Outcome
    from fencelock.aio import (
        AsyncBarrier,
        AsyncBoundedSemaphore,
        AsyncClient,
        AsyncEvent,
        AsyncLatch,
        AsyncLease,
        AsyncLock,
        AsyncReadLock,
        AsyncRLock,
        AsyncRWLock,
        AsyncSemaphore,
        AsyncWriteLock,
    )
    from fencelock.aio.election import AsyncElection
    from fencelock.aio.lease import AsyncMultiLease
    from fencelock.aio.multi import AsyncMultiLock
    from fencelock.aio.once import AsyncOnce
    from fencelock.blocking import (
        Barrier,
        BoundedSemaphore,
        Client,
        Event,
        Latch,
        Lease,
        Lock,
        ReadLock,
        RLock,
        RWLock,
        Semaphore,
        WriteLock,
    )
    from fencelock.blocking.election import Election
    from fencelock.blocking.lease import MultiLease
    from fencelock.blocking.multi import MultiLock
    from fencelock.blocking.once import Once
    from fencelock.closing import ashutdown, shutdown
    from fencelock.status import HistoryEntry, HolderStatus, LockStatus, SignalStatus, WaiterStatus

__version__ = "0.1.0"

__all__ = [
    "AcquireTimeout",
    "AsyncBarrier",
    "AsyncBoundedSemaphore",
    "AsyncClient",
    "AsyncElection",
    "AsyncEvent",
    "AsyncLatch",
    "AsyncLease",
    "AsyncLock",
    "AsyncMultiLease",
    "AsyncMultiLock",
    "AsyncOnce",
    "AsyncRLock",
    "AsyncRWLock",
    "AsyncReadLock",
    "AsyncSemaphore",
    "AsyncWriteLock",
    "Barrier",
    "BarrierBroken",
    "Blocked",
    "BoundedSemaphore",
    "Client",
    "ClientClosed",
    "Cohort",
    "Deadlock",
    "Election",
    "Event",
    "FencelockError",
    "History",
    "HistoryEntry",
    "HolderStatus",
    "Latch",
    "Leader",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockStatus",
    "MultiLease",
    "MultiLock",
    "NotAcknowledged",
    "NotAcquired",
    "NotHeld",
    "NotRenewable",
    "Once",
    "Outcome",
    "OutcomeUnknown",
    "OverReleased",
    "Poll",
    "Queue",
    "QuorumNotReached",
    "RLock",
    "RWLock",
    "ReadLock",
    "Semaphore",
    "ServerDenied",
    "ServerError",
    "ServerReadOnly",
    "ServerUnreachable",
    "ServerUnsuitable",
    "SignalStatus",
    "Stale",
    "WaiterStatus",
    "WriteLock",
    "ashutdown",
    "shutdown",
]

# Kept apart from the two clients: these take longer to import, and few programs use them.
_APART = {
    "AsyncElection": "fencelock.aio.election",
    "AsyncMultiLease": "fencelock.aio.lease",
    "AsyncMultiLock": "fencelock.aio.multi",
    "AsyncOnce": "fencelock.aio.once",
    "Election": "fencelock.blocking.election",
    "Leader": "fencelock._core.objects.election",
    "MultiLease": "fencelock.blocking.lease",
    "MultiLock": "fencelock.blocking.multi",
    "HistoryEntry": "fencelock.status",
    "HolderStatus": "fencelock.status",
    "LockStatus": "fencelock.status",
    "SignalStatus": "fencelock.status",
    "WaiterStatus": "fencelock.status",
    "Once": "fencelock.blocking.once",
    "Outcome": "fencelock._handles.once",
    "ashutdown": "fencelock.closing",
    "shutdown": "fencelock.closing",
}


def __getattr__(name: str) -> Any:
    """Import a client on first use: the command line needs neither, and a program just one."""
    if name not in {*__all__, "embedded"}:
        told = ""
        if name in {"Condition", "AsyncCondition"}:
            from fencelock._runtime.hints import CONDITION  # noqa: PLC0415 - only for this error

            told = f": {CONDITION}"
        raise AttributeError(f"module 'fencelock' has no attribute {name!r}{told}")
    from importlib import import_module  # noqa: PLC0415 - as the faces

    if name == "embedded":
        return import_module("fencelock.embedded")
    face = "fencelock.aio" if name.startswith("Async") else "fencelock.blocking"
    found = globals()[name] = getattr(import_module(_APART.get(name, face)), name)
    return found


def __dir__() -> list[str]:
    """List the public API, including what is not imported yet."""
    own = (name for name in globals() if name.startswith("__") and name.endswith("__"))
    return sorted({*own, *__all__})
