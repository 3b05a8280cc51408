"""One acquisition of one lock: what was wanted, and, once granted, what is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fencelock._core.keys import LockKeys
from fencelock._core.timing import CLAIM_SECONDS, validity
from fencelock.errors import ServerUnreachable
from fencelock.lease import BaseLease

# A record outlives its lease by this much; as in _fence.lua.
RECORD_MS = 600_000
# A renewal that ``max_hold`` cuts short must gain this part of a ttl to be worth a command.
LEAST_GAIN = 0.05


class Terms(NamedTuple):
    """How a lock is to be held: the validated options of a handle."""

    ttl: float
    renew: bool
    max_hold: float | None = None
    max_renewals: int | None = None
    on_lost: Any = None
    fixed_end: bool = False  # until an instant: nothing prolongs it
    plain: bool = False  # Poll: plain commands, no line, no fence
    interval: float = 0.0  # of Poll
    max_tries: int | None = None  # of Poll

    def first_ttl(self) -> float:
        """Return the length of the first lease: ``max_hold`` bounds it too."""
        return self.ttl if self.max_hold is None else min(self.ttl, self.max_hold)


class Want:
    """One request for a lock. ``waiter`` names the request, ``holder`` proves the tenure.

    They are the same but for an explicit owner, whose holder id is shared by all its requests.
    """

    __slots__ = ("holder", "home", "info", "keys", "owned", "terms", "ttl", "waiter")

    def __init__(
        self,
        *,
        keys: LockKeys,
        terms: Terms,
        waiter: bytes,
        holder: bytes,
        home: bytes,
        info: bytes,
        ttl: float,
        owned: bool = False,
    ) -> None:
        self.keys = keys
        self.terms = terms
        self.waiter = waiter
        self.holder = holder
        self.home = home
        self.info = info
        self.ttl = ttl  # of this request: the terms' first ttl, or what is left until an instant
        self.owned = owned

    @property
    def plain(self) -> bool:
        """Tell whether only the plain form may be used."""
        return self.terms.plain

    @property
    def claim(self) -> float:
        """Return the lease that a handoff starts with: short when renewal will prolong it."""
        return min(self.ttl, CLAIM_SECONDS) if self.terms.renew else self.ttl

    def acquire_args(self, channel: bytes) -> tuple[bytes | int, ...]:
        """Return the arguments of ``acquire.lua``."""
        ttl = milliseconds(self.ttl)
        args = (self.holder, channel, ttl, ttl + RECORD_MS, self._words())
        return (*args, self.waiter) if self.owned else args

    def _words(self) -> bytes:
        """Return what the scripts call the terms; see ``_grant.lua``."""
        ttl, claim = milliseconds(self.ttl), milliseconds(self.claim)
        return b"%d %d %d %b %b" % (ttl, claim, self.owned, self.home, self.info)

    def entry(self, channel: bytes) -> bytes:
        """Return the waiter entry as ``acquire.lua`` writes it."""
        return b" ".join((self.waiter, self.holder, channel, self._words()))

    def abandon_args(self, channel: bytes) -> tuple[bytes, ...]:
        """Return the arguments of ``abandon.lua``."""
        entry = self.entry(channel) if channel else b""
        return (self.waiter, self.holder, b"1" if self.owned else b"0", entry, self.home)


class Grant(NamedTuple):
    """The server's yes, judged by our clock."""

    fence: int
    deadline: float
    lease: float  # seconds that were granted; a handoff may start short


def _nothing(_: Hold) -> None:
    """Do nothing: the taker keeps no list of its holds."""


class Taker(NamedTuple):
    """For whom a lock is taken: the face's type of lease, the thread or task, and its handle."""

    lease_type: type[BaseLease]
    unit: object
    admit: Callable[[Hold], None]
    dismiss: Callable[[Hold], object] = _nothing


class Hold:
    """A granted acquisition and its lease."""

    __slots__ = (
        "body",
        "bucket",
        "cancelled",
        "cancelling",
        "count",
        "failures",
        "granted_at",
        "lease",
        "open",
        "renewals",
        "told",
        "unit",
        "want",
    )

    def __init__(
        self, want: Want, lease: BaseLease, granted_at: float, unit: object = None
    ) -> None:
        self.want = want
        self.lease = lease
        self.granted_at = granted_at
        self.unit: Any = unit  # the thread id or task that acquired it
        self.body: Any = None  # the task whose body a loss cancels
        self.cancelled = False  # it was cancelled for that reason
        self.cancelling = 0  # cancellations that the body's task had before ours
        self.count = 1  # re-entries of an implicit owner
        self.open = True  # False once released or given up: never renewed again (I11)
        self.renewals = 0
        self.failures = 0
        self.told = False  # the holder was told of a loss (I8: once)
        self.bucket = -1  # where the renewal book keeps it

    def renewable(self, now: float) -> bool:
        """Tell whether a renewal at ``now`` makes sense: asked for, and within its limits."""
        terms = self.want.terms
        if not terms.renew or not self.open:
            return False
        if terms.max_renewals is not None and self.renewals >= terms.max_renewals:
            return False
        # Near ``max_hold`` a renewal must gain something: a lease of a few ms is none.
        gained = now + validity(self.next_ttl(now)) - self.lease.deadline
        return terms.max_hold is None or gained > terms.ttl * LEAST_GAIN

    def next_ttl(self, now: float) -> float:
        """Return the length of the next lease: ``max_hold`` cuts the last one short."""
        terms = self.want.terms
        if not terms.renew:
            return self.want.ttl
        if terms.max_hold is None:
            return terms.ttl
        return min(terms.ttl, self.granted_at + terms.max_hold - now)

    def final(self) -> None:
        """Note that nothing prolongs the lease any more, and why it will have ended."""
        terms = self.want.terms
        if terms.renew and (terms.max_hold is not None or terms.max_renewals is not None):
            self.lease._end = "max_hold"


def milliseconds(seconds: float) -> int:
    """Return the wire form of a span, never below 1: PEXPIRE 0 would delete the lock."""
    return max(1, round(seconds * 1000))


def too_late(want: Want) -> ServerUnreachable:
    """Return the error for answers that outlast the lease they bring."""
    return ServerUnreachable(
        f"answers of the server take longer than the ttl of {want.ttl} s can prove;"
        " use a longer ttl"
    )
