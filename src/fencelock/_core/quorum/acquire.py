"""Acquire a lock on a majority of independent servers.

Rules of this file:

- Every client acquires the lock on its first node, in the ordinary way and in its line, before it
  asks the others. So contenders meet in one line, no client polls, and votes are split only while
  clients disagree about which node comes first.
- Validity counts per node, from before its request was sent; the lease is what a majority proves.
- A grant is reported once a majority has recorded its fence (I3).
- A client that was handed the first node's lock asks nodes that refuse once more: that release may
  still be under way to them, and a client that gives up loses its place in line.
- Without a majority, all grants are released, the first node last, so that the next waiter in its
  line finds the others free. Requests at silent nodes are undone in the background.
- An id that was given up is never used again: its undo may reach a node late, on another
  connection, and would release what was granted there meanwhile.
- What ends an acquisition by an error or an interrupt is undone by the ladder of one server,
  ``undo``. What it has at the nodes is in the place of its tenure there: ``leave``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from fencelock._core.deadlines import retry_delay
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.in_line import queue, try_once
from fencelock._core.lock.terms import Terms, too_late
from fencelock._core.lock.waiting import EXPIRY_SLACK
from fencelock._core.quorum.broadcast import Ballot, Ballots, granted
from fencelock._core.quorum.lease import Majority, longest_of, part_terms
from fencelock._core.quorum.membership import SUSPECT_SECONDS, order, proved_until
from fencelock._core.types import closed
from fencelock._runtime.records import record
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import (
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerError,
    ServerUnreachable,
    ServerUnsuitable,
)
from fencelock.scripts import RAISE_FENCE, packed

if TYPE_CHECKING:
    from fencelock._core.quorum.engine import QuorumEngine

# If leases end within this time, the client that has the first node waits for them.
STAY_SECONDS = 0.1


class QuorumAttempt:
    """One acquisition: the attempt at its first node, that at all others, and what came of them.

    ``undo`` asks it to undo what it has. No other of the client waits in it.
    """

    node: int = -1  # its first node, in whose line it may stand
    first: Hold | None = None  # what it asked that node for: its lease there, once it is held
    vote: Hold  # what it asked all others for
    grants: dict[int, Grant]  # that of the first node comes first
    rounds: int = 0
    stood: bool = False  # we were in a node's line before it failed
    stand_at: int | None = None  # where a majority's holder is waited for

    def __init__(self, port: QuorumEngine, attempt: Hold) -> None:
        self.port = port
        self.attempt = attempt
        self.terms: Terms = part_terms(attempt.terms)
        self.longest: float = longest_of(attempt)
        self.order: Sequence[int] = order(attempt.keys.lock, port.labels)
        self.failures: dict[int, Exception] = {}
        self.before: dict[int, Exception] = {}  # of the last round that had any
        self.refused: list[int] = []
        self.asks: Ballots = Ballots(port)  # for the votes of this round, until they are given back

    def rename(self) -> None:
        """Continue with a new id: the old one was given up."""
        self.attempt.id = self.attempt.holder_id = self.port.new_id()
        self.first = None

    def claim_renewed(self) -> None:
        """Do nothing: no grant relies on its claim yet."""

    # -- its end ------------------------------------------------------------------------------

    def leave(self) -> None:
        """Undo what the nodes granted, and what they were asked for: no other continues it.

        A second call finishes what an interrupt left half done.
        """
        self.asks.undo(all_of_them=True)
        if self.first is not None:
            self.first.undo(self.port.nodes[self.node])

    def succeed(self) -> None:
        """Give its connections back, and its claim up: no other of the client comes next."""
        self.port.put_back(self.asks)
        self.port.give_up_claim(self)
        self.attempt.votes = None

    # -- its rounds ---------------------------------------------------------------------------

    async def acquire(self) -> bool:
        """Ask in rounds until a majority has granted, others hold it, or too many nodes fail."""
        port, at_once, give_up_at = self.port, self.attempt.at_once, self.attempt.give_up_at
        failing_since: float | None = None
        while True:
            failed: FencelockError | None = None
            try:
                await port.refresh(self.attempt, port.answer_by(port.now(), give_up_at))
            except QuorumNotReached as error:
                failed = error
            if self.rounds:
                self.rename()
            self.rounds += 1
            self.before = self.failures or self.before
            self.failures, self.refused = {}, []
            if failed is None:
                if await self._round():
                    return True
                # While a majority of the nodes answers, one that refuses is worth waiting for.
                few = len(port.nodes) - len(self.failures) < port.needed
                if self.failures and (few or not self.refused):  # errors prevented a majority
                    causes = self.before | self.failures  # it may have ended after one node
                    name = self.attempt.keys.name
                    failed = port.not_reached(f"{name!r} was not granted", causes)
            now = port.now()
            failing_since = (failing_since or now) if failed else None
            fails = failing_since is not None and now >= failing_since + port.server_timeout
            if at_once or fails or now >= give_up_at:
                if failed is None:
                    return False
                try:
                    raise failed
                finally:
                    del failed
            # After a jittered delay, so that competing clients do not split the vote again.
            pause = retry_delay(self.rounds, port.jitter())
            await port.sleep(min(give_up_at, port.now() + pause))

    async def _round(self) -> bool:
        """Acquire on the first healthy node, in its line if we may wait; then ask the others."""
        port = self.port
        for node in self.candidates():
            if len(self.failures) > len(port.nodes) - port.needed:
                return False
            if self.failures and not self.attempt.at_once and port.now() >= self.attempt.give_up_at:
                if self.stood:  # time ran out because of other holders
                    self.refused = [each for each in self.order if each not in self.failures]
                return False
            began = port.now()
            self.node, self.first = node, (first := self._asked())
            try:
                grant = await self._ask_first(first)
            except (ServerError, OutcomeUnknown) as error:
                if isinstance(error, ServerUnsuitable) and error.code == "WRONGTYPE":
                    raise  # the kind of a name is the same everywhere
                first.undo(port.nodes[node])
                self.fail(node, error)
                if port.now() > began + 2 * port.nodes[node].server_timeout:
                    self.stood = self.stood or first.stood
                self.rename()
                continue
            if grant is None:
                first.asks = None
                self.refused = list(range(len(port.nodes)))
                return False
            return await self._ask_others(first, grant)
        return False

    def _asked(self) -> Hold:
        """Return what nodes are asked for by the present id."""
        return Hold(self.terms, self.attempt.id, self.attempt.info)

    def _at(self, node: int) -> Hold:
        """Return what a node was asked for."""
        return self.first if self.first is not None and node == self.node else self.vote

    def candidates(self) -> list[int]:
        """Return the nodes to ask, in order; those that failed recently come last."""
        port, now = self.port, self.port.now()
        found = list(self.order)
        with port.mutex:
            for node in port.membership.without_vote(found):
                self.failures[node] = self._restarted(node, now)
                found.remove(node)
        if port.suspect or self.stand_at is not None:
            ill = port.suspect
            found.sort(key=lambda node: (ill.get(node, 0.0) > now, node != self.stand_at))
        return found

    def _restarted(self, node: int, now: float) -> ServerUnreachable:
        """Return the error for a node that may have forgotten a lease."""
        left = max(0.0, self.port.membership.votes_from(node) - now)
        text = f"it was restarted, and has no vote for another {left:.1f} s"
        return ServerUnreachable(text, code="RESTARTED")

    def fail(self, node: int, error: Exception) -> None:
        """Note that a node failed; one that was silent is avoided for a while."""
        self.failures[node] = error
        if not isinstance(error, ServerError) or isinstance(error, ServerUnreachable):
            self.port.suspect[node] = self.port.now() + SUSPECT_SECONDS

    # -- one round ----------------------------------------------------------------------------

    async def _ask_first(self, attempt: Hold) -> Grant | None:
        """Ask the first node; a thread or task that waits in that line can be in a deadlock."""
        whole, node = self.attempt, self.port.nodes[self.node]
        attempt.unit, attempt.give_up_at, attempt.event = whole.unit, whole.give_up_at, whole.event
        attempt.outlasts = False
        try:
            return await (try_once if whole.at_once else queue)(node, attempt)
        finally:
            for seen in (*attempt.held_by, attempt.seen):
                whole.saw(seen)
            if attempt.wait is not None:
                attempt.wait.end()

    async def _ask_others(self, first: Hold, grant: Grant) -> bool:
        port, grants, now = self.port, {self.node: grant}, self.port.now()
        self.grants = grants
        self.vote = vote = self._asked()
        latest = port.answer_by(now, self.attempt.give_up_at)
        well = [node for node in self.candidates() if node != self.node]
        ill: list[int] = []  # asked only if votes are missing
        if port.suspect:
            ill = [node for node in well if port.suspect.get(node, 0.0) > now]
            well = [node for node in well if node not in ill]
        for group in (well, ill):
            if not group or len(grants) >= port.needed:
                continue
            if vote.terms.ends < inf:
                vote.lasting(port.now())
            more = Ballots(port)
            more.put(group, vote, (vote.terms.vote(vote, vote.ttl, grant.fence),), granted)
            self.asks += more
            await more.broadcast(port.needed - len(grants), latest)
            self.count(more, vote)
            if len(grants) < port.needed and self.refused:
                if first.stood:  # that release may be under way to some node
                    more = await self._repeat(more, latest)
                await self._stay(more, latest)
        if await self._begin():
            if len(self.asks) >= len(grants):  # some of the votes were refused
                self.asks.undo(all_of_them=True, but=grants)
            return True
        self.asks.undo()
        port.put_back(self.asks)
        await self._give_back()
        self.asks, first.asks = Ballots(port), None
        self.stand_at = self.refused[0] if len(self.refused) >= port.needed else None
        return False

    def count(self, asks: Iterable[Ballot], vote: Attempt) -> None:
        """Sort the answers of further nodes into grants, refusals and failures."""
        grants, ttl, lasts = self.grants, vote.ttl, vote.terms.valid
        for ask in asks:
            if ask.good:
                given = int(ask.reply), ask.asked_at + lasts, ttl
                grants[ask.node] = record(Grant, given)
            elif ask.error is not None:
                self.failures[ask.node] = ask.error
            else:
                self.refused.append(ask.node)

    async def _stay(self, asks: Ballots, latest: float) -> None:
        """Ask nodes again where a lease ends in a moment: leases of one lock end one after another.

        Otherwise the first waiter would have to queue again, and could lose its place.
        """
        port, lacking = self.port, self.port.needed - len(self.grants)
        left_ms = [ask.reply[0] for ask in asks if _refused(ask)]  # of another client's lease
        ends = sorted(each / 1000 + EXPIRY_SLACK if each >= 0 else inf for each in left_ms)
        if lacking <= 0 or len(ends) < lacking or ends[lacking - 1] > STAY_SECONDS:
            return
        await port.sleep(port.now() + ends[lacking - 1])
        await self._repeat(asks, max(latest, port.now() + port.node_timeout))

    async def _repeat(self, asks: Ballots, latest: float) -> Ballots:
        """Ask the nodes that refused once more, if they decide; return the latest answers."""
        lacking, held = self.port.needed - len(self.grants), [ask for ask in asks if _refused(ask)]
        if not 0 < lacking <= len(held):
            return asks
        again, asked = Ballots(self.port), [ask.node for ask in held]
        again.put(asked, held[0].about, held[0].requests, granted)
        self.refused = [node for node in self.refused if node not in asked]
        self.asks += again
        await again.broadcast(lacking, latest)
        self.count(again, held[0].about)
        return again

    async def _give_back(self) -> None:
        """Release partial grants; the first node last: its next waiter then asks the other nodes.

        A node that does not answer soon is asked in the background.
        """
        asks = Ballots(self.port)
        for node in sorted(self.grants, key=self.node.__eq__):
            at = self._at(node)
            asks.put((node,), at, (packed(*at.terms.abandon(at)),))
        span = self.port.node_timeout
        await asks.first_node_last(len(asks), lambda at: at.terms.abandon(at), span)

    # -- a lease of the grants ----------------------------------------------------------------

    def _voting(self) -> bool:
        """Drop the grants of nodes that were restarted meanwhile; True if a majority is left."""
        port, now, grants = self.port, self.port.now(), self.grants
        with port.mutex:
            gone = port.membership.without_vote(grants)
        for node in gone:
            self.failures[node] = self._restarted(node, now)
        if len(grants) - len(gone) < port.needed:
            return False
        for node in gone:
            del grants[node]
            attempt = self._at(node)
            port.nodes[node].run_in_background(*attempt.terms.abandon(attempt))
        return True

    async def _written(self, fence: int) -> bool:
        """Have a majority record the fence that some have; return True at once if it has."""
        low = [node for node, grant in self.grants.items() if grant.fence < fence]
        lacking = self.port.needed - (len(self.grants) - len(low))
        if lacking <= 0:
            return True
        call = RAISE_FENCE, self.attempt.keys.renew, (self.attempt.holder_id, b"%d" % fence)
        asks = Ballots(self.port)
        asks.put(low, self.vote, (packed(*call),), lambda ask: bool(ask.reply == 1))
        good = await asks.ask(lacking)
        self.failures |= asks.failures
        return good >= lacking

    async def _begin(self) -> bool:
        """Make each grant an ordinary hold of its node, and of all one; False without enough."""
        port, attempt, grants = self.port, self.attempt, self.grants.values()
        fence = max(grants).fence  # which a grant begins with
        if not self._voting() or (min(grants).fence < fence and not await self._written(fence)):
            return False
        if proved_until([each.deadline for each in grants], port.needed) <= port.now():
            raise too_late(attempt.ttl)
        parts = Majority(port, attempt, first=self.node)
        attempt.start_lease(port, fence, -inf, parts)  # from here on ``undo`` finds them
        parts.cover(self.longest)
        parts.begin(self.grants, self.vote, self.first)
        if attempt.deadline <= port.now() and not port.closing:  # parts were lost before that
            raise too_late(attempt.ttl)
        if attempt.registry is not None:
            attempt.registry.add(attempt)
        if len(self.grants) < len(port.nodes):
            parts.plan_reacquire(port.now())
        port.track(attempt, parts.next_due())
        if port.closing:  # while it was granted: nothing would give it back
            raise closed()
        return True


def _refused(ask: Ballot) -> bool:
    """Return True if another client has the lease at this node."""
    return ask.error is None and not ask.good
