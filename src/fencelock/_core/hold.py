"""One granted acquisition of one lock."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

from fencelock._core.timing import GROW_SECONDS, gathered, renewal_delay, spanning, validity
from fencelock._core.want import Want
from fencelock.lease import BaseLease

# A renewal that ``max_hold`` cuts short must gain this part of a ttl to be worth a command.
LEAST_GAIN = 0.05


class Grant(NamedTuple):
    """The server's yes, judged by our clock."""

    fence: int
    deadline: float
    lease: float  # seconds that were granted; a handoff may start short


class Taker:
    """For whom a lock is taken: gives the face's type of lease, and may keep the holds."""

    __slots__ = ("lease_type",)

    def __init__(self, lease_type: type[BaseLease]) -> None:
        self.lease_type: type[BaseLease] = lease_type

    def add(self, hold: Hold) -> None:
        """Keep a hold, before anybody else can see it."""

    def remove(self, hold: Hold) -> bool:
        """Drop a hold; False when it was not kept."""
        del hold
        return False


class Hold:
    """A granted acquisition and its lease."""

    parts: Sequence[Hold | None] = ()  # of a quorum's: the holds of its nodes

    __slots__ = (
        "asked_until",
        "body",
        "bucket",
        "cancelled",
        "cancelling",
        "count",
        "failures",
        "granted_at",
        "lease",
        "open",
        "reach",
        "renewals",
        "short",
        "told",
        "trouble",
        "unit",
        "want",
    )

    def __init__(
        self, want: Want, lease: BaseLease, granted_at: float, unit: object = None
    ) -> None:
        self.want: Want = want
        self.lease: BaseLease = lease
        self.granted_at: float = granted_at
        self.unit: Any = unit  # the thread id or task that acquired it
        self.body: Any = None  # the task whose body a loss cancels
        self.cancelled: bool = False  # it was cancelled for that reason
        self.cancelling: int = 0  # cancellations that the body's task had before ours
        self.count: int = 1  # re-entries of an implicit owner
        self.open: bool = True  # False once released or given up: never renewed again (I11)
        self.renewals: int = 0
        self.short: bool = False  # it was handed over, and has not grown to its full length yet
        self.failures: int = 0
        self.trouble: Exception | None = None  # why the last renewal failed
        self.asked_until: float = (
            0.0  # until then, at the latest, the holder's own renewal is under way
        )
        # A renewal for so many seconds got no answer. It may run at any time and shorten the lease
        # (I2), so no later renewal is relied on for longer.
        self.reach: float = inf
        self.told: bool = False  # the holder was told of a loss (I8: once)
        self.bucket: int = -1  # where the renewal book keeps it

    @property
    def ids(self) -> Sequence[bytes]:
        """Return the ids by which servers know it: several where it has parts."""
        parts = [part.want.holder for part in self.parts if part is not None]
        return self.want.holder, *parts

    def renewable(self, now: float) -> bool:
        """Return True if a renewal from ``now`` on makes sense: wanted, and within its limits."""
        terms = self.want.terms
        if not self.open:
            return False
        if self.short:  # to grow to what was asked for is no renewal
            return True
        if not terms.renew:
            return False
        if terms.max_renewals is not None and self.renewals >= terms.max_renewals:
            return False
        if terms.max_hold is None:
            return True
        # Near ``max_hold`` a renewal must gain something: a lease of a few ms is none.
        gained = now + validity(self.granted_at + terms.max_hold - now) - self.lease.deadline
        return gained > self.want.ttl * LEAST_GAIN

    @property
    def usual(self) -> float:
        """Return the length of a lease where no limit is near."""
        terms = self.want.terms
        return terms.ttl if terms.renew else self.want.ttl

    def next_ttl(self, now: float) -> float:
        """Return the length of the next lease: ``max_hold`` cuts the last one short."""
        ttl = self.within_limits(self.usual, now)
        return max(ttl, self.least(now)) if self.want.plain else ttl

    def least(self, now: float) -> float:
        """Return the shortest length of a next lease that ends this one no earlier.

        Only the plain form needs it: its script sets the ttl whatever the lease has left.
        """
        return spanning(self.lease.deadline - now) if self.want.plain else 0.0

    def within_limits(self, ttl: float, now: float) -> float:
        """Return the length that a lease from now on may have, of the ``ttl`` that is wanted."""
        most = self.want.terms.max_hold
        ttl = min(ttl, self.want.form.ends - now)
        return ttl if most is None else min(ttl, self.granted_at + most - now)

    def cause(self, reason: str, since: float) -> str:
        """Return in words why a lease was lost, as far as ``reason`` does not say it."""
        if reason == "taken":
            return "the server has another holder"
        if reason != "expired":
            return ""
        terms, lease = self.want.terms, self.lease
        if since < lease.deadline:
            return "it was no longer on the server"
        if not terms.renew:
            return "it was not renewed, as requested"
        if self.trouble is not None:
            return f"its last renewal failed: {self.trouble}"
        return "no renewal was answered in time; was the process stopped or suspended?"

    def final(self) -> None:
        """Note that nothing prolongs the lease any more, and why it will have ended."""
        terms = self.want.terms
        if terms.renew and (terms.max_hold is not None or terms.max_renewals is not None):
            self.lease._end = "max_hold"


def first_attention(hold: Hold, lease: float, jitter: float, now: float) -> float:
    """Return when a hold with a new lease wants attention: at its renewal, or at its end.

    A lease that was renewed for longer than usual is left alone until it is as long as usual.
    """
    deadline, terms = hold.lease.deadline, hold.want.terms
    usual = min(lease, terms.ttl)
    spare = max(0.0, deadline - now - usual)
    delay = spare + renewal_delay(min(usual, deadline - now), jitter)
    if hold.short:  # handed over and short: whoever stalls now would lose it soon
        delay = min(delay, GROW_SECONDS)
    if not hold.renewable(now + delay):
        hold.final()
        return deadline
    return min(deadline, gathered(now + delay, usual))
