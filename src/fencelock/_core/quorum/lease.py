"""A quorum's lease: leases of single nodes, proved as long as a majority of them is proved.

Rules of this file:

- Each part is an ordinary lease of its node, renewed and ended by that node's port.
- The lease is proved until the k-th largest deadline of its parts; a part that was lost is gone.
- A lease that once could not be proved stays lost, whatever is renewed later (I8).
- When the lease is lost, its remaining parts are no longer renewed (I11). They are released with
  the hold, or expire. Until then they keep the next client out, because a body that has not checked
  yet may rely on the deadline that it saw last. Only a revoked lease is released at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, cast

from fencelock._core.deadlines import renewal_delay
from fencelock._core.lock.acquire import ROUNDING_SECONDS, revoked_before
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold, Observer, first_due
from fencelock._core.lock.release import release_call, retire
from fencelock._core.lock.renew import lose
from fencelock._core.lock.terms import Terms
from fencelock._core.port import Port
from fencelock._core.quorum.membership import LONG_SECONDS, Claimant, Membership
from fencelock._core.quorum.refresh import claim, give_up_claim
from fencelock._core.quorum.votes import order, proved_until

if TYPE_CHECKING:
    from fencelock._core.quorum.broadcast import QuorumPort


class Majority(list[Hold | None], Observer, Claimant):
    """The leases of single nodes, by node, that form one lease.

    It observes them, and moves the common deadline when one of theirs moves. ``first`` is the node
    in whose line the caller was.
    """

    __slots__ = ("_claims", "first", "hold", "named", "port", "reacquire_at")
    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]  # unlike other lists it is only itself

    def __init__(self, port: QuorumPort, hold: Hold, *, first: int) -> None:
        super().__init__([None] * len(port.nodes))
        self.port = port
        self.hold = hold
        self.first = first
        self.reacquire_at = inf
        self.named = 0  # how many ids it had apart from its own
        # of a long lease: relied on as long as it is claimed
        self._claims: Membership | None = None

    def begin(
        self, asked: Mapping[int, Attempt] | Sequence[Attempt], grants: Mapping[int, Grant]
    ) -> None:
        """Make grants of nodes parts of the lease, and track them; not once it is over.

        Parts of one length are due together. A later one is due no later than the first of them.
        """
        port, hold, made = self.port, self.hold, dict[int, Hold]()
        for node, grant in grants.items():
            one = asked[node]
            deadline = min(grant.deadline, one.terms.ends)
            part = made[node] = Hold(port.nodes[node], one, hold.fence, deadline)
            part.short = grant.lease < one.ttl - ROUNDING_SECONDS
            part.granted_at, part.observer = hold.granted_at, self
        with port.mutex:
            if not hold.open or hold.notified or hold.loss is not None:
                return
            for node, part in made.items():
                self[node] = part
            self.settle()
        now, lease, deadline, when = port.now(), 0.0, inf, inf
        for node, part in made.items():
            at, length = port.nodes[node], grants[node].lease
            if length != lease or part.deadline < deadline or when >= deadline:
                lease, deadline = length, part.deadline
                when = first_due(part, lease, port.jitter(), now)
            at.track(part, when)
            if at.lines.revoked:
                revoked_before(at, part)

    def cover(self, ttl: float) -> None:
        """Claim a lease of this length for as long as it is held; see membership.py."""
        if ttl > LONG_SECONDS:
            claim(self.port, self, ttl)
            with self.port.mutex:
                self._claims = self.port.membership
                self.settle()

    def another_id(self) -> bytes:
        """Return a new id by which a node may know this hold; see ``votes.known_as``."""
        self.named += 1
        return b"%b~%d" % (self.hold.holder_id, self.named)

    def in_release_order(self) -> list[tuple[int, Hold]]:
        """Return the parts with their nodes, in the order in which they are released.

        The next holder at the first node then finds the others free.
        """
        nodes = [*range(len(self))]
        nodes.append(nodes.pop(self.first))
        return [(node, part) for node in nodes if (part := self[node]) is not None]

    def missing(self) -> list[int]:
        """Return the nodes that have no lease of this hold."""
        return [node for node, part in enumerate(self) if part is None or part.loss is not None]

    def plan_reacquire(self, now: float) -> None:
        """Set when the nodes without a lease are asked again: at the interval of renewals.

        Only if a renewal may prolong the lease: otherwise re-acquiring would prolong it.
        """
        options = self.hold.terms.options
        heals = options.renew and options.max_renewals is None and self.missing()
        self.reacquire_at = now + renewal_delay(options.ttl, self.port.jitter()) if heals else inf

    def next_due(self) -> float:
        """Return when the hold is due: at its deadline, or to re-acquire missing nodes.

        At once if another thread has just lost its parts.
        """
        return max(self.port.now(), min(self.hold.deadline, self.reacquire_at))

    # -- what moves the deadline of the whole ---------------------------------------------------

    def deadline_moved(self, hold: Hold) -> None:  # noqa: ARG002 - whichever it was
        """Move the common deadline, unless the majority was not proved for a moment."""
        self.check_gap(self.port.now())
        with self.port.mutex:
            self.settle()

    def claim_renewed(self) -> None:
        """Move the deadline, if only the claim limited it."""
        self.deadline_moved(self.hold)

    def settle(self) -> None:
        """Set the deadline that a majority of the parts proves. Under the port's mutex."""
        hold = self.hold
        if hold.loss is not None:
            hold.move_deadline(hold.loss.since)
            return
        ends = [
            part.deadline
            for part in self
            # A part that was refused before its deadline proves nothing.
            if part and (part.loss is None or part.loss.since >= part.deadline)
        ]
        proved = proved_until(ends, self.port.needed)
        claimed = inf if self._claims is None else self._claims.claim_until
        hold.move_deadline(min(proved, claimed))

    def check_gap(self, now: float) -> None:
        """Lose a lease whose majority was not proved for a moment, before it is renewed."""
        hold = self.hold
        if hold.loss is None and now >= hold.deadline:
            self.final()
            hold.lose(hold.end, hold.deadline)

    def final(self) -> None:
        """Note why the lease will end, if that is known."""
        ends = [part.end for part in self if part is not None]
        if ends.count("max_hold") >= self.port.needed:
            self.hold.end = "max_hold"

    def lost(self, hold: Hold) -> None:
        """Notify of the loss of the majority, or schedule the lost part to be re-acquired."""
        port, whole = self.port, self.hold
        with port.mutex:
            self.settle()
        if whole.released or whole.notified or hold.loss is None:
            return
        now = port.now()
        if whole.loss is None and now < whole.deadline:
            if whole.open:
                self.plan_reacquire(now)
                port.move(whole, self.next_due())
            return
        reason, since, detail = hold.loss
        for part in self:  # a revocation says more than its consequences
            if part is not None and part.loss and part.loss.reason == "revoked":
                reason, detail = "revoked", part.loss.detail
        end = whole.deadline
        lose(port, whole, reason, since if end == -inf else end, detail)
        if reason == "revoked":
            drop_node_leases(port, whole)
        else:
            end_node_leases(port, whole)


def majority_of(hold: Hold) -> Majority:
    """Return the leases of single nodes that form this hold of a quorum."""
    return cast("Majority", hold.parts)


def node_terms(port: QuorumPort, terms: Terms) -> Sequence[Terms]:
    """Return a handle's terms at each node, made once."""
    made: Sequence[Terms] | None = getattr(terms, "nodes", None)
    if made is None:
        options = terms.options._replace(on_lost=None)
        made = terms.nodes = tuple(
            Terms(
                keys=terms.keys,
                options=options,
                client_channel=node.client_channel,
                ttl=terms.ttl,
                ends=terms.ends,
            )
            for node in port.nodes
        )
    return made


def adopted(port: Port, attempt: Attempt, ttl: float, hold_type: type[Hold]) -> Hold:
    """Return the hold of another process, known by its id, with a part at every node.

    Which of them granted it is not known. A node that did not grant it does no harm: it refuses,
    and a majority decides.
    """
    many = cast("QuorumPort", port)
    first = order(attempt.keys.lock, many.labels)[0]
    hold = hold_type(many, attempt, 0, -inf)
    parts = hold.parts = Majority(many, hold, first=first)
    for node, terms in enumerate(node_terms(many, attempt.terms)):
        one = Attempt(terms, attempt.holder_id, attempt.info)
        part = parts[node] = Hold(port, one, 0, port.now() + ttl)
        part.observer, part.port = parts, None  # nothing renews it
    with many.mutex:
        parts.settle()
    return hold


def end_node_leases(port: QuorumPort, hold: Hold) -> list[tuple[int, Hold]]:
    """End the renewal of a lost hold's parts; return those that had not ended, with their nodes.

    When the client is closed they are left to expire.
    """
    if port.closing:
        return []
    with port.mutex:
        parts = [(node, part) for node, part in enumerate(hold.parts) if part and not part.released]
    give_up_claim(port, majority_of(hold))
    for node, part in parts:
        retire(port.nodes[node], part)
    return parts


def drop_node_leases(port: QuorumPort, hold: Hold) -> None:
    """End and release the parts of a hold that proves nothing any more."""
    for node, part in end_node_leases(port, hold):
        if not part.forked:
            port.nodes[node].run_in_background(*release_call(part, part.fence))
