"""The lease: one timed tenure of a lock, as its holder may rely on it.

Rules of this file (I2, I8):

- A lease is judged by this process's monotonic clock alone, never by asking a server.
- A child process holds none of its parent's leases.
- Once a lease is lost it stays lost, whatever arrives later.
- Whoever notices a loss first (the deadline, a renewal, a release, ``check``), it is noted in one
  place, ``_lose``, and from there its holder is notified, once. That sends nothing.
- A lease that is being given back proves nothing from that instant on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencelock import process
from fencelock.errors import LeaseLost, NotHeld
from fencelock.hints import Elsewhere, unnamed

Clock = Callable[[], float]


@unnamed
class BaseLease(process.Rooted):
    """What holds of a lease in threads and in asyncio; see ``Lease`` and ``AsyncLease``.

    ``fence`` is the fencing token: it grows with every grant of the lock, so that a resource can
    refuse writes that carry an older one. It is 0 for a lock taken with ``Poll``, whose plain form
    has none. ``ttl`` is the length asked for, in seconds.
    """

    _partial = False  # it is that of one node of a quorum, whose loss is no news

    if not TYPE_CHECKING:
        extend = Elsewhere("to renew it now, call renew(), with another ttl if you like")
        refresh = Elsewhere("to renew it now, call renew(), with another ttl if you like")
        release = Elsewhere("call release() of the lock, or end its with block")

    __slots__ = (
        "__weakref__",
        "_clock",
        "_deadline",
        "_end",
        "_generation",
        "_hold",
        "_holder",
        "_loss",
        "_port",
        "_released",
        "_server",
        "_unnoticed",
        "fence",
        "name",
        "ttl",
    )

    def __init__(  # noqa: PLR0917 - made in one place, for each acquisition: keywords cost time
        self, name: str, fence: int, holder: bytes, ttl: float, deadline: float, clock: Clock
    ) -> None:
        self.name: str = name
        self.fence: int = fence
        self._holder = holder
        self.ttl: float = ttl
        self._deadline = deadline
        self._clock = clock
        self._end = "expired"  # the reason, when the deadline comes
        self._loss: tuple[str, float, str] | None = None
        self._released = False  # it is given back, or is being given back
        self._unnoticed = True  # until its loss is noticed: then this is gone
        self._generation = process.generation
        self._port: Any = None
        self._hold: Any = None

    @property
    def holder(self) -> str:
        """Return the unguessable string that proves the tenure to the server."""
        return self._holder.decode()

    def _bind(self, port: object, hold: object) -> None:
        """Tie the lease to what renews it, and what is notified of its loss."""
        self._port = port
        self._hold = hold

    def _untie(self) -> None:
        """Let go of what renewed it. It stays known which server it was of, for its errors."""
        port = self._port
        if port is not None:
            self._server = port.label
            self._port = self._hold = None

    def _where(self) -> str:
        """Return what a person calls its server; empty when that is unknown."""
        port = self._port
        return getattr(self, "_server", "") if port is None else port.label

    @property
    def deadline(self) -> float:
        """Return the instant, on fencelock's monotonic clock, until which the lease is proved."""
        return self._deadline

    @property
    def lost(self) -> bool:
        """Return True if the lease was lost or can no longer be proved; sends nothing.

        False from the start of a release in time: what was given back was not lost.
        """
        if self._loss is not None:
            return True
        if self._forked():
            self._lose("forked", self._clock())
            return True
        if self._released or self._clock() < self._deadline:
            return False
        self._lose(self._end, self._deadline)
        return True

    def _forked(self) -> bool:
        """Return True if this is a parent's lease, seen in its child: not ours to touch."""
        return self._generation != process.generation

    def remaining(self) -> float:
        """Return how many seconds of the lease can still be proved; 0.0 once lost or released."""
        if self._released or self.lost:
            return 0.0
        return max(0.0, self._deadline - self._clock())

    def expires_at(self) -> float:
        """Return the instant the proved part ends, as Unix time in seconds by this host's clock.

        For people and for other programs on this host. Never compare it with the clock of another
        machine: ``remaining()`` is what decides.
        """
        return time.time() + self.remaining()

    def check(self) -> None:
        """Raise when the lease cannot be proved now; sends nothing.

        Raises:
            LeaseLost: it expired, was taken or revoked, or reached ``max_hold``.
            NotHeld: it was released, or a release of it has begun.
        """
        if self.lost:
            raise self._lost_error()
        if self._released:
            text = f"the lease of {self.name!r} was released"
            raise NotHeld(text, name=self.name, server=self._where())

    def _bound(self) -> tuple[Any, Any]:
        """Return the port and the hold by which it is renewed; raise as ``check``."""
        bound = self._port, self._hold  # read first: a release unties them
        self.check()
        return bound

    def _lost_error(self) -> LeaseLost:
        reason, since, detail = self._loss or (self._end, self._deadline, "")
        return LeaseLost(
            self.name,
            fence=self.fence,
            reason=reason,
            since=since,
            detail=detail,
            server=self._where(),
        )

    def _lose(
        self, reason: str, since: float, detail: str = "", *, at_release: bool = False
    ) -> bool:
        """Note the loss, and have the holder notified; False when it was noticed before.

        Of a lease that is given back only its release knows: ``at_release``.
        """
        if self._released and not at_release:
            return False
        try:
            del self._unnoticed  # one instruction: of several threads one is the first
        except AttributeError:
            return False
        port, hold = self._port, self._hold
        if hold is not None and reason != "forked":
            detail = detail or hold.cause(reason, since)
        self._loss = (reason, since, detail)
        if hold is not None and reason != "forked":
            hold.told = True
            port.tell(hold)
        return True

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self._released else "held"
        return f"<{state} {type(self).__name__} of {self.name!r} fence={self.fence}>"
