"""Every error fencelock raises, in one tree.

FencelockError
├── NotAcquired ── AcquireTimeout (also TimeoutError)
├── LeaseLost              we held it; we no longer do, or can no longer prove it
├── NotRenewable           (also RuntimeError) no thread can be started to renew it; given back
├── NotHeld                (also RuntimeError) release or renew without holding
│   └── OverReleased       (also ValueError) more permits than a bounded semaphore's handle has
├── BarrierBroken          (also RuntimeError) the parties of a barrier do not come together
├── OutcomeUnknown         (also ConnectionError) may or may not have run; undo is scheduled
├── QuorumNotReached       one cause per node
├── ClientClosed           (also RuntimeError) the client was closed before
└── ServerError            the server is the trouble, not the lock
    ├── ServerUnreachable  (also ConnectionError) no answer: refused, reset, frozen, loading
    ├── ServerDenied       (also PermissionError) wrong password, missing permission
    ├── NotAcknowledged    granted, but too few replicas said so in time; it is undone
    ├── ServerReadOnly     a replica, or a master that may not write now
    └── ServerUnsuitable   too old, wrong kind of key, misconfigured, out of memory

Bad arguments are ``TypeError`` and ``ValueError``, raised before anything is sent. Only more
permits than a semaphore's limit are refused by the server, which knows the limit in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class FencelockError(Exception):
    """Base of every error that fencelock raises by itself. It may be copied and pickled.

    ``name`` is the lock's, or another object's, and ``server`` says where it was asked for, without
    a password. Either is empty where the error is about none, or about several.
    """

    name = ""
    server = ""

    def __str__(self) -> str:
        """Return the message with the name and the server, unless it has them in its words."""
        text = super().__str__()
        if self.name and repr(self.name) not in text:
            text = f"{self.name!r}: {text}"
        if self.server and self.server not in text:
            text = f"{text} [{self.server}]"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how to make the same error again: not by calling its type, which asks for more."""
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[FencelockError], args: tuple[Any, ...]) -> FencelockError:
    """Return an error with these words; what it carries is put in afterwards."""
    error = kind.__new__(kind)
    error.args = args
    return error


class NotAcquired(FencelockError):
    """Others hold the lock and we stopped asking."""

    def __init__(self, message: str, *, name: str = "", server: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.server = server


class AcquireTimeout(NotAcquired, TimeoutError):
    """The time given to acquire ended before the lock was granted; nothing is left behind."""


class LeaseLost(FencelockError):
    """The lease was held and can no longer be proved.

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
        super().__init__(f"lease of {name!r} (fence {fence}) is lost: {reason}{extra}")
        self.name = name
        self.server = server
        self.fence = fence
        self.reason = reason
        self.since = since
        self.detail = detail


class NotRenewable(FencelockError, RuntimeError):
    """The lock was granted, and given back: no thread can be started that renews its lease.

    There are too many threads, or the interpreter ends. A lease with ``renew=False`` and without
    ``on_lost`` needs no thread.
    """

    def __init__(self, message: str, *, name: str = "", server: str = "") -> None:
        super().__init__(message)
        self.name: str = name
        self.server: str = server


class NotHeld(FencelockError, RuntimeError):
    """A release or renewal was asked for by somebody who does not hold the lock."""

    def __init__(self, message: str, *, name: str = "", server: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.server = server


class BarrierBroken(FencelockError, RuntimeError):
    """The parties of a barrier do not come together.

    It is ``threading.BrokenBarrierError`` too when it comes from ``Client``, and
    ``asyncio.BrokenBarrierError`` when it comes from ``AsyncClient``. ``reason`` is one of
    ``timeout``, ``abort``, ``reset``, ``dead``, ``lost``.
    """

    def __init__(self, message: str, *, name: str = "", reason: str = "", server: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.reason = reason
        self.server = server


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
    """The client was closed before, or while this waited. To ask again changes nothing."""


class ServerError(FencelockError):
    """The server is the trouble; never raised for a lock that is merely held.

    ``code`` is the first word of the server's error reply (``NOAUTH``, ``OOM``, …), or empty.
    The client's or the system's own exception is the ``__cause__``.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ServerUnreachable(ServerError, ConnectionError):
    """No usable answer came in time: refused, reset, silent, or still loading its data."""


class ServerDenied(ServerError, PermissionError):
    """The server refuses us: wrong password, or a command, key or channel we may not use."""


class NotAcknowledged(ServerError):
    """Too few replicas acknowledged in time, for a client that asks for it (``replicas=``).

    Of an acquire: the lock was granted, but a failover could forget it, so it is given back.
    Of a renewal: the lease stays as long as it was. ``acknowledged`` of ``wanted`` replicas had it.
    """

    def __init__(self, message: str, *, name: str = "", acknowledged: int, wanted: int) -> None:
        super().__init__(message)
        self.name = name
        self.acknowledged = acknowledged
        self.wanted = wanted


class ServerReadOnly(ServerError):
    """The server does not take writes now: a replica, or a master short of replicas."""


class ServerUnsuitable(ServerError):
    """The server answers but cannot serve: too old, out of memory, or the key has another type."""
