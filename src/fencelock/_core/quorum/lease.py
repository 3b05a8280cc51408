"""A quorum's lease: leases of single nodes, proved as long as a majority of them is proved.

Rules of this file:

- Each part is an ordinary lease of its node, renewed and ended by that node's port. This file
  notifies of a lost majority (I8).
- The lease is proved until the k-th largest deadline of its parts; a part that was lost is gone.
- A lease that once could not be proved stays lost, whatever is renewed later (I8).
- When the lease is lost, its remaining parts are no longer renewed (I11). They are released with
  the hold, or expire. Until then they keep the next client out, because a body that has not checked
  yet may rely on the deadline that it saw last. Only a revoked lease is released at once.
- A node that lost its part while the majority holds is asked for it again, at the interval of
  renewals, and with another id: the undo of the last one may arrive late (see acquire.py).
- A release goes to all parts at once, to the first node last: the next holder there finds the
  others free.
  Silent nodes are released in the background.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from fencelock._core import events
from fencelock._core.deadlines import renewal_delay, validity
from fencelock._core.lock.acquire import ROUNDING_SECONDS, revoked_before
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold, first_due, lose
from fencelock._core.lock.maintain import Renewer, renewal_request
from fencelock._core.lock.release import leaving, lost_as
from fencelock._core.lock.renew import check_tended, length_of
from fencelock._core.lock.terms import Terms
from fencelock._core.quorum.broadcast import Ballot, Ballots, granted
from fencelock._core.quorum.membership import LONG_SECONDS, Membership, proved_until
from fencelock.errors import FencelockError
from fencelock.scripts import packed

if TYPE_CHECKING:
    from fencelock._core.engine import Engine
    from fencelock._core.quorum.engine import QuorumEngine


class Majority(list[Hold | None]):
    """The leases of single nodes, by node, that form one lease.

    It hears of each, and moves the common deadline when one of theirs moves. ``first`` is the node
    in whose line the caller was.
    """

    __slots__ = ("_claims", "first", "hold", "named", "port", "reacquire_at")

    def __init__(self, port: QuorumEngine, hold: Hold, *, first: int) -> None:
        super().__init__([None] * len(port.nodes))
        self.port: QuorumEngine = port
        self.hold: Hold = hold
        self.first: int = first
        self.reacquire_at: float = inf
        self.named: int = 0  # how many ids it had apart from its own
        # of a long lease: relied on as long as it is claimed
        self._claims: Membership | None = None

    def __eq__(self, other: object) -> bool:
        return self is other  # unlike other lists

    def __hash__(self) -> int:  # type: ignore[override]  # as above
        return id(self)

    def begin(self, grants: Mapping[int, Grant], vote: Attempt, first: Hold | None = None) -> None:
        """Make grants of nodes parts of the lease, and track them; not once it is over.

        They were granted to a ``vote``, that of the node in whose line the caller was to its
        ``first``, which is held there from here on. Parts of one length are due together. A later
        one is due no later than the first.
        """
        port, hold, nodes = self.port, self.hold, self.port.nodes
        fence, granted_at, now = hold.fence, hold.granted_at, port.now()
        lease, ends, when = 0.0, inf, inf
        begun: list[tuple[Engine, Hold, float]] = []
        with port.mutex:
            if not hold.open or hold.notified or hold.loss is not None:
                return
            for node, grant in grants.items():
                at = nodes[node]
                if first is not None and node == self.first:
                    part, lasts = first, first.ttl
                else:
                    part, lasts = Hold(vote.terms, vote.id, vote.info), vote.ttl
                part.start_lease(at, fence, grant.deadline)
                part.granted_at, part.majority, deadline = granted_at, self, part.deadline
                self[node] = part
                if grant.lease < lasts - ROUNDING_SECONDS:
                    part.short = True
                if grant.lease != lease or deadline < ends or when >= ends:
                    lease, ends = grant.lease, deadline
                    when = first_due(at, part, lease, port.jitter(), now)
                at.renewals.unplaced[part] = when
                begun.append((at, part, when))
            self.settle()
        for at, part, when in begun:
            at.attend(part, when)
            if at.lines.revoked:
                revoked_before(at, part)

    def cover(self, ttl: float) -> None:
        """Claim a lease of this length for as long as it is held; see membership.py."""
        if ttl > LONG_SECONDS:
            self.port.claim(self, ttl)
            with self.port.mutex:
                self._claims = self.port.membership
                self.settle()

    def another_id(self) -> bytes:
        """Return a new id by which a node may know this hold; see ``membership.known_as``."""
        self.named += 1
        return b"%b~%d" % (self.hold.holder_id, self.named)

    def in_release_order(self) -> list[tuple[int, Hold]]:
        """Return the parts with their nodes, in the order in which they are released.

        The next holder at the first node then finds the others free.
        """
        parts = [each for each in enumerate(self) if each[1] is not None]
        first = self.first, self[self.first]
        if first[1] is not None:
            parts.remove(first)
            parts.append(first)
        return parts  # type: ignore[return-value]  # without those that there are not

    def retire(self) -> None:
        """End the renewal of the parts, and what they prove; see ``Hold.retire``.

        No part is a turn: no other of its client waits for it.
        """
        with self.port.mutex:
            for part in self:
                if part is None:
                    continue
                part.open, part.released, at = False, True, part.port
                if at is not None:
                    if part.bucket is None:
                        at.renewals.unplaced.pop(part, None)
                    else:
                        at.renewals.discard(part)
                    part.port = None

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

    def deadline_moved(self) -> None:
        """Move the common deadline, unless the majority was not proved for a moment."""
        self.check_gap(self.port.now())
        with self.port.mutex:
            self.settle()

    def claim_renewed(self) -> None:
        """Move the deadline, if only the claim limited it."""
        self.deadline_moved()

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
        if self._claims is not None:
            proved = min(proved, self._claims.claim_until)
        hold.move_deadline(proved)

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
        self.end_parts(drops=reason == "revoked")

    # -- what is due, and its end -------------------------------------------------------------

    def lapsed(self, now: float) -> bool:
        """Lose a lease that a majority does not prove any more; return True if so."""
        hold = self.hold
        if hold.loss is None and now < hold.deadline:
            return False
        self.final()
        lose(self.port, hold, hold.end, hold.deadline)
        self.end_parts(drops=True)
        return True

    def end_parts(self, *, drops: bool) -> None:
        """End the renewal of a lost lease's parts; with ``drops`` release them, too.

        When the client is closed they are left to expire.
        """
        port = self.port
        if port.closing:
            return
        with port.mutex:
            parts = [(node, part) for node, part in enumerate(self) if part and not part.released]
        port.give_up_claim(self)
        for node, part in parts:
            part.retire(port.nodes[node])
            if drops and not part.forked:
                port.nodes[node].run_in_background(*part.terms.release(part))

    async def reacquire(self) -> None:
        """Acquire the lease again on the nodes that lack it."""
        port, hold, now = self.port, self.hold, self.port.now()
        ttl = hold.next_ttl(now)
        asks = Ballots(port)
        for node in self.missing() if hold.open and ttl > 0 else ():
            if port.suspect.get(node, 0.0) <= now:
                vote = Attempt(part_terms(hold.terms), self.another_id(), hold.info)
                vote.ttl = ttl
                asks.put((node,), vote, (vote.terms.vote(vote, ttl, hold.fence),), granted)
        try:
            if asks:
                await asks.broadcast(len(asks))
                for ask in asks.good:
                    grant = Grant(hold.fence, ask.asked_at + validity(ttl), ttl)
                    self.check_gap(port.now())
                    self.begin({ask.node: grant}, ask.about)
        finally:  # what is no part of the hold is undone, also after an interrupt
            joined = {part.id for part in self if part is not None}
            asks.undo(all_of_them=True, but={ask.node for ask in asks if ask.about.id in joined})
            port.put_back(asks)
            self.plan_reacquire(port.now())

    async def give_back(self) -> None:
        """Release it on all its nodes.

        Raises when no majority confirmed it: LeaseLost if the nodes say so, and QuorumNotReached if
        too few answered. It is repeated in the background.
        """
        port, hold, lost = self.port, self.hold, self.hold.lost
        hold.retire(port)
        if lost:
            if not (hold.forked or hold.closed):
                self.release_later()
            raise hold.lost_error()
        asks = Ballots(port)
        # A lost part may still be held on its node: releasing it does no harm.
        holder, request = b"", (b"",)
        for node, part in self.in_release_order():
            if part.holder_id is not holder:  # nearly always one for all
                holder, request = part.holder_id, (part.terms.packed_release(part),)
            asks.append(Ballot(node, part, request, _released, asks.ends))
        given = await asks.first_node_last(port.needed, lambda part: part.terms.release(part))
        if given >= port.needed:
            return
        failed = asks.failures
        if given + len(failed) >= port.needed:
            raise self._unconfirmed(failed)
        words = [ask.reply[1] for ask in asks if ask.error is None and not ask.good]
        # Report the most specific reason: revoked, then taken, then expired.
        word = max((word for word in words if word is not None), key=len, default=None)
        raise lost_as(port, hold, word)

    def _unconfirmed(self, failed: dict[int, Exception]) -> FencelockError:
        """Return the error for a release that too few nodes confirmed."""
        return self.port.not_reached(f"release of {self.hold.name!r} was not confirmed", failed)

    def release_later(self) -> None:
        """Release it in the background, on each node with the id that the node knows."""
        for node, part in self.in_release_order():
            self.port.nodes[node].run_in_background(*part.terms.release(part))

    async def leave(self, seconds: float) -> None:
        """Release it on each node so long from now; raises without a majority.

        It claims a ttl of that length for so long: a node that is restarted may have forgotten it.
        """
        port, hold = self.port, self.hold
        hold.check()
        await self._claim_first(seconds)
        hold.retire(port)
        asks = Ballots(port)
        for node, part in self.in_release_order():
            request = packed(*leaving(part, seconds))
            asks.put((node,), part, (request,), lambda ask: bool(ask.reply == 1))
        try:
            if await asks.ask(port.needed) < port.needed:
                raise self._unconfirmed(asks.failures)
        finally:
            events.end_hold(hold)

    # -- its renewal by hand ------------------------------------------------------------------

    async def renew(self, ttl: float | None) -> None:
        """Renew it on all its nodes; raises LeaseLost, or QuorumNotReached without a majority."""
        port, hold = self.port, self.hold
        await self._claim_first(hold.next_ttl(port.now()) if ttl is None else ttl)
        asks = await self._renew_parts(ttl)
        if sum(ask.error is None and ask.reply == [] for ask in asks) < port.needed:
            check_tended(hold)
            raise port.not_reached(f"renewal of {hold.name!r}", asks.failures)
        hold.check()

    async def _claim_first(self, span: float) -> None:
        """Claim a longer ttl before it is asked for: a node that restarts must abstain so long."""
        port, hold = self.port, self.hold
        port.claim(self, span)
        await port.refresh(hold, min(port.now() + port.server_timeout, hold.deadline), span)
        self.cover(span)

    async def _renew_parts(self, ttl: float | None) -> Ballots:
        """Renew all parts; return the requests to their nodes."""
        port, now = self.port, self.port.now()
        asks, asked = Ballots(port), dict[int, tuple[Hold, float]]()
        for node, part in enumerate([*self]):
            if part is not None and part.loss is None and part.open:
                asked[node] = part, (length := length_of(part, ttl, now))
                request = (packed(*renewal_request([part], [length])),)
                asks.put((node,), part, request, lambda ask: bool(ask.reply == []))
        await asks.ask(port.needed, min(now + port.server_timeout, self.hold.deadline))
        for ask in asks:
            at, (part, length) = port.nodes[ask.node], asked[ask.node]
            if ask.good:
                Renewer(at).apply([part], [length], ask.asked_at, {})
            elif ask.error is None:
                lose(at, part, ask.reply[1].decode(), port.now())
        return asks


def majority_of(hold: Hold) -> Majority:
    """Return the leases of single nodes that form this hold of a quorum."""
    if not hold.parts:
        raise TypeError(f"{hold.keys.name!r} is held at one server")
    return hold.parts


def longest_of(one: Attempt) -> float:
    """Return the longest lease that an attempt or a hold may bring, in seconds."""
    options = one.terms.options
    return max(one.ttl, options.ttl if options.renew else 0.0)


def part_terms(terms: Terms) -> Terms:
    """Return a handle's terms at each node, made once: all know the client by one channel."""
    made: Terms | None = getattr(terms, "part", None)
    if made is None:
        made = terms.part = Terms(
            keys=terms.keys,
            options=terms.options._replace(on_lost=None),
            client_channel=terms.client_channel,
            ttl=terms.ttl,
            ends=terms.ends,
        )
        made.steady = 0.0  # each part tells of its deadline
    return made


def _released(ask: Ballot) -> bool:
    """Return True if a release ran: "not the holder" means so, when it had to be repeated (I4)."""
    return bool(ask.reply == 1) or ask.sent
