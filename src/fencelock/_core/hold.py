"""One granted acquisition of one lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencelock._core.timing import GROW_SECONDS, gathered, renewal_delay, validity
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
        self.failures: int = 0
        self.told: bool = False  # the holder was told of a loss (I8: once)
        self.bucket: int = -1  # where the renewal book keeps it

    @property
    def ids(self) -> Sequence[bytes]:
        """Return the ids by which servers know it: several where it has parts."""
        parts = [part.want.holder for part in self.parts if part is not None]
        return self.want.holder, *parts

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


def first_attention(hold: Hold, lease: float, jitter: float, now: float) -> float:
    """Return when a hold with a new lease wants attention: at its renewal, or at its end."""
    deadline = hold.lease.deadline
    delay = renewal_delay(min(lease, deadline - now), jitter)
    if lease < hold.want.ttl:  # handed over and short: whoever stalls now would lose it soon
        delay = min(delay, GROW_SECONDS)
    if not hold.renewable(now + delay):
        hold.final()
        return deadline
    return min(deadline, gathered(now + delay, lease))
