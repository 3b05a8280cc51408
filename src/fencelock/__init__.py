"""Distributed locks for Python over Redis and Valkey: renewed leases, fencing tokens, FIFO handoff.

Threads: ``Client``. asyncio: ``AsyncClient``. Shell: ``fencelock run NAME -- CMD``.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal itself takes a tenth of the start

from fencelock._runtime.typed import TYPE_CHECKING, Any
from fencelock._runtime.typed import in_command as _in_command

# The command, while it starts, answers Ctrl-C as a shell's own commands do: it ends, without a
# traceback. ``cli.main`` takes Python's own answer back.
if _in_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from fencelock import errors as _errors
from fencelock.errors import *  # noqa: F403 - its ``__all__`` says what that is
from fencelock.options import Cohort, History, Poll, Queue

if TYPE_CHECKING:
    from fencelock import embedded as embedded
    from fencelock._handles.once import Outcome
    from fencelock.aio.barrier import AsyncBarrier
    from fencelock.aio.client import AsyncClient
    from fencelock.aio.election import AsyncElection
    from fencelock.aio.event_latch import AsyncEvent, AsyncLatch
    from fencelock.aio.lease import AsyncLease, AsyncMultiLease
    from fencelock.aio.lock import AsyncLock, AsyncRLock
    from fencelock.aio.multi import AsyncMultiLock
    from fencelock.aio.once import AsyncOnce
    from fencelock.aio.rwlock import AsyncReadLock, AsyncRWLock, AsyncWriteLock
    from fencelock.aio.semaphore import AsyncBoundedSemaphore, AsyncSemaphore
    from fencelock.blocking.barrier import Barrier
    from fencelock.blocking.client import Client
    from fencelock.blocking.election import Election
    from fencelock.blocking.event_latch import Event, Latch
    from fencelock.blocking.lease import Lease, MultiLease
    from fencelock.blocking.lock import Lock, RLock
    from fencelock.blocking.multi import MultiLock
    from fencelock.blocking.once import Once
    from fencelock.blocking.rwlock import ReadLock, RWLock, WriteLock
    from fencelock.blocking.semaphore import BoundedSemaphore, Semaphore
    from fencelock.closing import ashutdown, shutdown
    from fencelock.status import (
        HistoryEntry,
        HolderStatus,
        Leader,
        LockStatus,
        SignalStatus,
        WaiterStatus,
    )
    from fencelock.threads import to_thread

__version__ = "0.1.0"

__all__ = [
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
    "BoundedSemaphore",
    "Client",
    "Cohort",
    "Election",
    "Event",
    "History",
    "HistoryEntry",
    "HolderStatus",
    "Latch",
    "Leader",
    "Lease",
    "Lock",
    "LockStatus",
    "MultiLease",
    "MultiLock",
    "Once",
    "Outcome",
    "Poll",
    "Queue",
    "RLock",
    "RWLock",
    "ReadLock",
    "Semaphore",
    "SignalStatus",
    "WaiterStatus",
    "WriteLock",
    "ashutdown",
    "shutdown",
    "to_thread",
]
__all__ += _errors.__all__

# What is public in the modules of each face; a name of ``aio`` begins with ``Async``.
_OF_FACES: dict[str, tuple[str, ...]] = {
    "barrier": ("Barrier",),
    "client": ("Client",),
    "election": ("Election",),
    "event_latch": ("Event", "Latch"),
    "lease": ("Lease", "MultiLease"),
    "lock": ("Lock", "RLock"),
    "multi": ("MultiLock",),
    "once": ("Once",),
    "rwlock": ("ReadLock", "RWLock", "WriteLock"),
    "semaphore": ("BoundedSemaphore", "Semaphore"),
}
# What else few programs use, and takes long to import.
_APART: dict[str, tuple[str, ...]] = {
    "_handles.once": ("Outcome",),
    "closing": ("ashutdown", "shutdown"),
    "status": (
        *("HistoryEntry", "HolderStatus", "Leader", "LockStatus", "SignalStatus"),
        "WaiterStatus",
    ),
    "threads": ("to_thread",),
}


def __getattr__(name: str) -> Any:
    """Import a client on first use: the command line needs neither, and a program just one."""
    if name not in {*__all__, "embedded"}:
        hint = ""
        if name in {"Condition", "AsyncCondition"}:
            from fencelock._runtime.hints import CONDITION  # noqa: PLC0415 - only for this error

            hint = f": {CONDITION}"
        raise AttributeError(f"module 'fencelock' has no attribute {name!r}{hint}")
    from importlib import import_module  # noqa: PLC0415 - as the faces

    if name == "embedded":
        return import_module("fencelock.embedded")
    face, bare = "aio" if name.startswith("Async") else "blocking", name.removeprefix("Async")
    places = _APART | {f"{face}.{module}": names for module, names in _OF_FACES.items()}
    place = next(each for each, names in places.items() if bare in names)
    found = globals()[name] = getattr(import_module(f"fencelock.{place}"), name)
    return found


def __dir__() -> list[str]:
    """List the public API, including what is not imported yet."""
    own = (name for name in globals() if name.startswith("__") and name.endswith("__"))
    return sorted({*own, *__all__})
