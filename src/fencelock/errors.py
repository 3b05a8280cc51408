"""Every error fencelock raises, in one tree.

FencelockError
├── NotAcquired
│   ├── AcquireTimeout     (also TimeoutError)
│   └── Deadlock           it waits in a cycle, which it is refused to end
├── LeaseLost              the lease was held, and has ended or may have ended
├── Stale                  a resource has seen a greater fence: the write is refused
├── NotRenewable           (also RuntimeError) no thread can be started to renew; given back
├── NotHeld                (also RuntimeError) release or renew without holding
│   └── OverReleased       (also ValueError) more permits than a bounded semaphore's handle has
├── BarrierBroken          (also RuntimeError) the barrier broke before all parties had arrived
├── OutcomeUnknown         (also ConnectionError) may or may not have run; undo is scheduled
├── QuorumNotReached       too few nodes granted or confirmed; one cause per failed node
├── ClientClosed           (also RuntimeError) the client was closed before
└── ServerError            the server failed or refused; that says nothing about the lock
    ├── ServerUnreachable  (also ConnectionError) no answer: refused, reset, frozen, loading
    ├── ServerDenied       (also PermissionError) wrong password, missing permission
    ├── NotAcknowledged    too few replicas acknowledged it in time; a grant is undone
    ├── ServerReadOnly     a replica, or a master that refuses writes now
    └── ServerUnsuitable   too old, wrong kind of key, misconfigured, out of memory

Bad arguments raise ``TypeError`` and ``ValueError`` before anything is sent. One check needs the
server: whether a semaphore's request has more permits than the limit in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencelock.status import HolderStatus

__all__ = [
    "AcquireTimeout",
    "BarrierBroken",
    "Blocked",
    "ClientClosed",
    "Deadlock",
    "FencelockError",
    "LeaseLost",
    "NotAcknowledged",
    "NotAcquired",
    "NotHeld",
    "NotRenewable",
    "OutcomeUnknown",
    "OverReleased",
    "QuorumNotReached",
    "ServerDenied",
    "ServerError",
    "ServerReadOnly",
    "ServerUnreachable",
    "ServerUnsuitable",
    "Stale",
]


class FencelockError(Exception):
    """Base of every error that fencelock raises by itself. It can be copied and pickled.

    ``name`` is the name of the lock or other object, and ``server`` the server that was asked,
    without a password. Either is empty if the error is about none, or about several.
    """

    name = ""
    server = ""

    def __str__(self) -> str:
        """Return the message, with the name and the server unless the message contains them."""
        text = super().__str__()
        if self.name and repr(self.name) not in text:
            text = f"{self.name!r}: {text}"
        if self.server and self.server not in text:
            text = f"{text} [{self.server}]"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild the error without calling its type, whose ``__init__`` needs more arguments."""
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[FencelockError], args: tuple[Any, ...]) -> FencelockError:
    """Return an error with these arguments; pickle restores its attributes afterwards."""
    error = kind.__new__(kind)
    error.args = args
    return error


class _AboutOne(FencelockError):
    """An error about one object, or about several: then it has no name."""

    def __init__(self, message: str, *, name: str = "", server: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.server = server


class NotAcquired(_AboutOne):
    """The lock was not granted: other clients hold it, and the call has stopped waiting.

    ``held_by`` is who held it, as of the last answer of the server about it; of a semaphore or
    reader/writer lock the one whose lease ends first. None if that is unknown, or no client.
    """

    def __init__(
        self, message: str, *, name: str = "", server: str = "", held_by: HolderStatus | None = None
    ) -> None:
        text = f"{message}: held by {held_by.words}" if held_by else message
        super().__init__(text, name=name, server=server)
        self.held_by: HolderStatus | None = held_by


class AcquireTimeout(NotAcquired, TimeoutError):
    """The timeout ended before the lock was granted; no place in line and no grant is left."""


class Blocked(NamedTuple):
    """One step of a deadlock: who waits for which lock. The next step of the cycle holds it.

    ``unit`` is the name of the thread or task, ``label`` that of its client; ``fence`` is that of
    the lease that it waits for.
    """

    name: str
    host: str = ""
    pid: int = 0
    unit: str = ""
    label: str = ""
    fence: int = 0

    def __str__(self) -> str:
        """Return who it is, in words."""
        label = f", {self.label}" if self.label else ""
        return f"{self.unit or 'a client'} ({self.host}:{self.pid}{label})"


class Deadlock(NotAcquired):
    """Granting could never happen: threads or tasks wait for one another in a cycle.

    This wait began last of them, and was ended so that the others can go on once this thread or
    task releases what it holds. ``cycle`` has a ``Blocked`` for each wait; each waits for the next
    one, and the last for the first.
    """

    def __init__(self, name: str, *, cycle: Sequence[Blocked], server: str = "") -> None:
        self.cycle: tuple[Blocked, ...] = tuple(cycle)
        others = [*self.cycle[1:], *self.cycle[:1]]
        steps = [
            f"{each} waits for {each.name!r}, held by {other}"
            for each, other in zip(self.cycle, others, strict=True)
        ]
        text = f"deadlock: {name!r} would never be granted: {'; '.join(steps)}"
        super().__init__(text, name=name, server=server)


class LeaseLost(_AboutOne):
    """The lease was held, and has ended or may have ended.

    ``reason`` is one of ``expired``, ``taken``, ``revoked``, ``max_hold``, ``forked``, ``closed``;
    ``detail`` carries an operator's text, or why the lease expired; ``since`` is the instant of the
    loss on this process's monotonic clock, in seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        fence: int,
        reason: str,
        since: float,
        detail: str = "",
        server: str = "",
    ) -> None:
        extra = f": {detail}" if detail else ""
        text = f"lease of {name!r} (fence {fence}) is lost: {reason}{extra}"
        super().__init__(text, name=name, server=server)
        self.fence = fence
        self.reason = reason
        self.since = since
        self.detail = detail


class Stale(_AboutOne):
    """A resource refuses a write: it has seen a greater fence than ``fence``, namely ``seen``.

    Raised by the guards of ``fencelock.fences``. It is no ``LeaseLost``: it says what a resource
    knows, also to code that never had the lease. Treat it as one: a newer holder has written.
    """

    def __init__(self, name: str, *, fence: int, seen: int) -> None:
        text = f"fence {fence} of {name!r} is too old: fence {seen} was seen"
        super().__init__(text, name=name)
        self.fence = fence
        self.seen = seen


class NotRenewable(_AboutOne, RuntimeError):
    """The lock was granted and given back: no thread can be started to renew its lease.

    The process has too many threads, or the interpreter is shutting down. A lease with
    ``renew=False`` and without ``on_lost`` needs no thread.
    """


class NotHeld(_AboutOne, RuntimeError):
    """The caller asked to release or renew something that it does not hold."""


class BarrierBroken(_AboutOne, RuntimeError):
    """The barrier is broken, or broke before all parties had arrived.

    It is ``threading.BrokenBarrierError`` too when it comes from ``Client``, and
    ``asyncio.BrokenBarrierError`` when it comes from ``AsyncClient``. ``reason`` is one of
    ``timeout``, ``abort``, ``reset``, ``deleted``, ``dead``, ``lost``.
    """

    def __init__(self, message: str, *, name: str = "", reason: str = "", server: str = "") -> None:
        super().__init__(message, name=name, server=server)
        self.reason = reason


class OverReleased(NotHeld, ValueError):
    """A bounded semaphore was asked to release more permits than this handle holds."""


class OutcomeUnknown(FencelockError, ConnectionError):
    """The server may or may not have run the request; its undo is scheduled."""


class QuorumNotReached(FencelockError):
    """Fewer than a majority of nodes agreed; ``causes`` maps each failed node to its error."""

    def __init__(self, message: str, causes: Mapping[str, BaseException]) -> None:
        super().__init__(message)
        self.causes: dict[str, BaseException] = dict(causes)


class ClientClosed(FencelockError, RuntimeError):
    """The client was closed before the call, or during it. Trying again cannot succeed."""


class ServerError(FencelockError):
    """The server failed or refused; never raised because the lock is held.

    ``code`` is the first word of the server's error reply (``NOAUTH``, ``OOM``, …), or empty.
    The client's or the system's own exception is the ``__cause__``.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ServerUnreachable(ServerError, ConnectionError):
    """No usable answer came in time: refused, reset, silent, or still loading its data."""


class ServerDenied(ServerError, PermissionError):
    """The server refuses: wrong password, or a command, key or channel without permission."""


class NotAcknowledged(ServerError):
    """Too few replicas acknowledged a grant or renewal in time (option ``replicas`` of the client).

    From an acquire: the lock was granted, but a failover could forget it, so it is given back.
    From a renewal: the lease keeps its length. ``acknowledged`` of ``wanted`` replicas answered.
    """

    def __init__(self, message: str, *, name: str = "", acknowledged: int, wanted: int) -> None:
        super().__init__(message)
        self.name = name
        self.acknowledged = acknowledged
        self.wanted = wanted


class ServerReadOnly(ServerError):
    """The server refuses writes now: it is a replica, or a master with too few replicas."""


class ServerUnsuitable(ServerError):
    """The server answers but cannot serve: too old, out of memory, or wrong type of key."""
