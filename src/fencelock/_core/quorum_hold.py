"""A lease of a quorum: many leases of single nodes, proved as long as a majority of them is.

Rules of this file:

- Each part is an ordinary lease of its node, renewed and ended by that node's port.
- The lease is proved until the k-th largest deadline of its parts; a part that was lost is gone.
- A lease that once could not be proved stays lost, whatever is renewed later (I8).
- When the lease is lost, nobody renews the parts that are left (I11). They are given back with the
  hold, or expire: until then they keep the next client out, for a body that has not looked yet may
  rely on the deadline that it saw last. Only what an operator revoked is given back at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, cast

from fencelock._core.hold import Hold, Taker
from fencelock._core.meet import claim, give_up_claim
from fencelock._core.release import request, retire
from fencelock._core.renew import lose
from fencelock._core.roster import LONG_SECONDS, Roster
from fencelock._core.timing import renewal_delay
from fencelock._core.votes import proved_until
from fencelock._core.want import Want
from fencelock.lease import BaseLease, Clock

if TYPE_CHECKING:
    from fencelock._core.fan import QuorumPort

Parts = list[Hold | None]


class NodeLease(BaseLease):
    """The lease of one node. It tells the whole when it is lost, and before it is prolonged."""

    _partial = True
    whole: QuorumHold | None = None
    _until: float

    @property
    def counts(self) -> bool:
        """Return True if its deadline still says something: not when it was refused before."""
        return self._loss is None or self._loss[1] >= self._until

    @property
    def _deadline(self) -> float:
        return self._until

    @_deadline.setter
    def _deadline(self, instant: float) -> None:
        if self.whole is not None:
            self.whole.check_gap(self._clock())
        self._until = instant

    def _lose(
        self, reason: str, since: float, detail: str = "", *, at_release: bool = False
    ) -> bool:
        first = super()._lose(reason, since, detail, at_release=at_release)
        if first and self.whole is not None and self._loss is not None:
            self.whole.part_lost(*self._loss)
        return first


class _Majority:
    """What makes a face's lease one of a quorum: its deadline is that of a majority of parts."""

    __slots__ = ()

    _parts: Parts
    _needed: int
    _claims: Roster | None  # of a long lease: it is relied on as long as it is claimed
    _loss: Any

    @property
    def _deadline(self) -> float:
        if self._loss is not None:
            since: float = self._loss[1]
            return since
        ends = [
            part.lease._deadline
            for part in self._parts
            if part is not None and cast("NodeLease", part.lease).counts
        ]
        proved = proved_until(ends, self._needed)
        return proved if self._claims is None else min(proved, self._claims.claim_until)

    @_deadline.setter
    def _deadline(self, instant: float) -> None:
        """Leave it to the parts."""


_made: dict[str, type[Any]] = {}


def majority_of(lease_type: type[BaseLease]) -> type[Any]:
    """Return the face's type of lease with a majority's deadline."""
    name = f"{lease_type.__module__}.{lease_type.__qualname__}"
    if name not in _made:
        members = {
            "__slots__": ("_claims", "_needed", "_parts"),
            "__module__": lease_type.__module__,
        }
        _made[name] = type(lease_type.__name__, (_Majority, lease_type), members)
    return _made[name]


class QuorumHold(Hold):
    """A granted acquisition of a quorum. ``first`` is the node in whose line its caller stood."""

    __slots__ = ("first", "heal_at", "named", "parts", "port")

    def __init__(
        self, port: QuorumPort, want: Want, lease: BaseLease, unit: object, *, first: int
    ) -> None:
        super().__init__(want, lease, port.now(), unit)
        self.port = port
        self.first = first
        self.parts: Parts = [None] * len(port.nodes)
        self.heal_at = inf
        self.named = 0  # how many ids it had beside its own

    def renewable(self, now: float) -> bool:  # noqa: ARG002 - as Hold
        """Leave renewal to the parts."""
        return False

    def cause(self, reason: str, since: float) -> str:
        """Return in words why a lease was lost: what its parts know of it, too."""
        troubles = [part.trouble for part in self.parts if part is not None and part.trouble]
        self.trouble = troubles[0] if troubles else None
        return super().cause(reason, since)

    def final(self) -> None:
        """Say why the lease will have ended, where that is known."""
        ends = [part.lease._end for part in self.parts if part is not None]
        if ends.count("max_hold") >= self.port.needed:
            self.lease._end = "max_hold"

    def join(self, node: int, part: Hold) -> bool:
        """Take a node's lease in; False when it is too late for that. Under the port's mutex."""
        if not self.open or self.told or self.lease._loss is not None:
            return False
        part.granted_at = self.granted_at
        lease = cast("NodeLease", part.lease)
        self.parts[node] = part
        lease.whole = self
        return True

    def another_id(self) -> bytes:
        """Return a new id by which a node may know this hold; see ``votes.known_as``."""
        self.named += 1
        return b"%b~%d" % (self.want.holder, self.named)

    def lasting(self) -> dict[int, Hold]:
        """Return the parts that were not lost, by their nodes."""
        parts = enumerate(self.parts)
        return {node: part for node, part in parts if part and part.lease._loss is None}

    def missing(self) -> list[int]:
        """Return the nodes that have no lease of this hold."""
        lasting = self.lasting()
        return [node for node in range(len(self.parts)) if node not in lasting]

    def plan_healing(self, now: float) -> None:
        """Set when the nodes without a lease are asked again: at the rhythm of renewal.

        Only where a renewal may prolong the lease: else it would grow by being healed.
        """
        terms = self.want.terms
        heals = terms.renew and terms.max_renewals is None and self.missing()
        self.heal_at = now + renewal_delay(terms.ttl, self.port.jitter()) if heals else inf

    def next_attention(self) -> float:
        """Return when this hold wants attention: at its deadline, or to be healed."""
        return min(self.lease._deadline, self.heal_at)

    def check_gap(self, now: float) -> None:
        """Lose a lease whose majority was not proved for a moment, before it is prolonged."""
        lease = self.lease
        if lease._loss is None and now >= lease._deadline:
            self.final()
            lease._lose(lease._end, lease._deadline)

    def part_lost(self, reason: str, since: float, detail: str) -> None:
        """Reconsider: tell the loss of the majority at once, or have the part healed."""
        port = self.port
        if not self.open or self.told:
            return
        now = port.now()
        if self.lease._loss is None and now < self.lease._deadline:
            self.plan_healing(now)
            port.move(self, self.next_attention())
            return
        for part in self.parts:  # an operator's word says more than its consequences
            if part is not None and part.lease._loss and part.lease._loss[0] == "revoked":
                reason, detail = "revoked", part.lease._loss[2]
        end = self.lease._deadline
        lose(port, self, reason, since if end == -inf else end, detail)
        if reason == "revoked":
            drop_parts(port, self)
        else:
            end_parts(port, self)


class PartTaker(Taker):
    """Takes the lease of one node."""

    def __init__(self) -> None:
        super().__init__(NodeLease)


PARTS = PartTaker()


def make_hold(
    port: QuorumPort, want: Want, fence: int, taker: Taker, unit: object, *, first: int
) -> QuorumHold:
    """Return a hold without parts, and its lease."""
    clock: Clock = port.now
    lease = majority_of(taker.lease_type)(want.keys.name, fence, want.holder, want.ttl, -inf, clock)
    hold = QuorumHold(port, want, lease, unit, first=first)
    lease._parts, lease._needed, lease._claims = hold.parts, port.needed, None
    lease._bind(port, hold)
    return hold


def cover(hold: QuorumHold, ttl: float) -> None:
    """Have a lease of this length claimed as long as it is held; see roster.py."""
    if ttl > LONG_SECONDS:
        claim(hold.port, hold, ttl)
        hold.lease._claims = hold.port.roster  # type: ignore[attr-defined]  # majority_of made it


def end_parts(port: QuorumPort, hold: Hold) -> list[tuple[int, Hold]]:
    """End the renewal of a lost hold's parts; return those that had not ended, with their nodes.

    At the end of the client they are left to themselves.
    """
    if port.closing:
        return []
    with port.mutex():
        parts = [(node, part) for node, part in enumerate(hold.parts) if part and part.open]
    give_up_claim(port, hold)
    for node, part in parts:
        retire(port.nodes[node], part)
    return parts


def drop_parts(port: QuorumPort, hold: Hold) -> None:
    """End the parts of a hold on which nobody may rely any more, and give them back."""
    for node, part in end_parts(port, hold):
        if not part.lease._forked():
            port.nodes[node].post(*request(part.want, part.lease.fence))


def let_go(holds: Sequence[Hold]) -> None:
    """Let parts end without notifying the whole, which is notified by itself."""
    for hold in holds:
        for part in hold.parts:
            if part is not None:
                cast("NodeLease", part.lease).whole = None
