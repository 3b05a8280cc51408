"""What a client does with its locks on a quorum of independent servers.

Rules of this file:

- Each node has an ordinary port of its own, which renews that node's leases: a silent node holds up
  no other node's.
- A request without an answer to wait for goes to every node.
- What people ask is answered by a majority, or ends with QuorumNotReached.
- Clients keep the nodes informed of each other; the rules are in membership.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from math import ceil, inf

from fencelock._core.deadlines import DRIFT_RATE
from fencelock._core.engine import Engine
from fencelock._core.keys import LockKeys, membership_key
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.quorum.acquire import QuorumAttempt
from fencelock._core.quorum.broadcast import Ballot, Ballots
from fencelock._core.quorum.lease import Majority, longest_of, majority_of, part_terms
from fencelock._core.quorum.membership import (
    CLAIMED_TTLS,
    KEPT_SECONDS,
    LONG_SECONDS,
    UNDECIDED_FACTOR,
    Membership,
    agreed,
    majority,
    order,
)
from fencelock._core.round_trips import CALL_TRIPS, RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Call, Carrier, Keys, NoReply, Reply
from fencelock._runtime.log import log
from fencelock._runtime.typed import TypeVar
from fencelock.errors import (
    ClientClosed,
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerError,
    ServerUnreachable,
    ServerUnsuitable,
)
from fencelock.scripts import MEMBERSHIP, SHOW, Script, packed

T = TypeVar("T")

# How many leases are re-acquired in one go: a node that forgot many gets them back gradually.
REACQUIRED_AT_ONCE = 50

# Takes a node's run id, and the instant before it was asked for it.
Identified = Callable[[bytes, float], None]


class QuorumEngine(Engine):
    """One client at several independent servers; each port adds how it waits for all of them.

    What a quorum refuses (see ``options.py``) is left as on one server, and never called.
    """

    nodes: Sequence[Engine]
    labels: tuple[str, ...]
    membership_key: bytes
    membership: Membership
    suspect: dict[int, float]  # node -> the instant until which it is avoided
    _node_timeout: float

    halves = False  # an acquisition has several questions

    # -- its leases -------------------------------------------------------------------------------

    async def take(self, attempt: Hold) -> Hold | None:
        """Acquire on a majority; None when others hold it, QuorumNotReached on errors."""
        votes = attempt.votes = QuorumAttempt(self, attempt)
        self.claim(votes, votes.longest)
        granted = await votes.acquire()
        votes.succeed()
        return attempt if granted else None

    async def maintain(self) -> None:
        """Do what is due: notify of losses, re-acquire missing parts; raises no server's error."""
        now, takes = self.now(), self.renewals.takes
        try:
            with self.mutex:
                due = self.renewals.due(now)
            lasting = [hold for hold in due if not majority_of(hold).lapsed(now)]
            heals = [hold for hold in lasting if now >= majority_of(hold).reacquire_at]
            for hold in heals[:REACQUIRED_AT_ONCE]:
                await majority_of(hold).reacquire()
            if due:
                await self.refresh_while_held(max(due, key=longest_of))
        finally:  # cancelled, or a bug: no hold may be lost from the schedule
            with self.mutex:
                taken = self.renewals.taken_since(takes)
                left = [hold for bucket in taken for hold in bucket]
                self.renewals.settle(taken)
            for hold in left:
                self.move(hold, majority_of(hold).next_due())

    async def renew(self, holds: Sequence[Hold], ttl: float | None) -> None:
        """Renew a lease on all its nodes; a quorum has no multi."""
        (hold,) = holds
        await majority_of(hold).renew(ttl)

    async def give_back(
        self, hold: Hold, log: Seat, reply: Reply = None, until: float = 0.0
    ) -> int:
        """Release a hold on all its nodes."""
        del log, reply, until  # as of one server
        await majority_of(hold).give_back()
        return 0

    def release_later(self, hold: Hold, undo_connection: Carrier | None) -> None:
        """Release a hold in the background, on each node."""
        del undo_connection  # as of one server
        majority_of(hold).release_later()

    async def hand_back(self, holds: Sequence[Hold], until: float) -> Sequence[Hold]:
        """Release leases that ended with their client; return those that no majority confirmed.

        Each on all its nodes, the first one last. What is for a silent node is sent in the
        background, so that it holds up no other node.
        """
        silent: set[int] = set()
        left: list[Hold] = []
        for hold in holds:
            hold.retire(self)
            given = 0
            for number, part in majority_of(hold).in_release_order():
                node, asked = self.nodes[number], part.terms.release(part)
                if number not in silent:
                    try:
                        await node.call(*asked, min(until, self.now() + node.server_timeout))
                        given += 1
                        continue
                    except (NoReply, ServerError):
                        silent.add(number)
                node.run_in_background(*asked)
            if given < self.needed:
                left.append(hold)
        return left

    def adopt(self, hold: Hold, ttl: float) -> None:
        """Make an attempt the hold of another process, known by its id, with a part at every node.

        Which of them granted it is not known. A node that did not grant it does no harm: it
        refuses, and a majority decides.
        """
        parts = Majority(self, hold, first=order(hold.keys.lock, self.labels)[0])
        hold.start_lease(self, 0, -inf, parts)
        for node in range(len(parts)):
            part = parts[node] = Hold(part_terms(hold.terms), hold.holder_id, hold.info)
            part.start_lease(self, 0, self.now() + ttl)
            part.majority, part.port = parts, None  # nothing renews it
        with self.mutex:
            parts.settle()

    def clean_up(self, hold: Hold) -> None:
        """Undo what may still come of the requests of a hold that has ended."""
        whole = majority_of(hold)
        self.give_up_claim(whole)
        first = whole.first  # no other was asked twice
        part = whole[first]
        if part is not None and part.owed:
            part.undo_owed(self.nodes[first])

    # -- what people ask: a majority must answer ---------------------------------------------------

    async def replies(self, name: str, calls: Sequence[Call], /) -> list[list[Reply]]:
        """Return for each question the answers of the nodes, at least of a majority."""
        answers: list[list[Reply]] = []
        for call in calls:
            now = self.now()
            asks = Ballots(self)
            asks.put(self.healthy(now), None, (packed(*call),))
            if await asks.ask(self.needed, now + self.server_timeout) < self.needed:
                raise self.not_reached(f"no node answers about {name!r}", asks.failures)
            answers.append([ask.reply for ask in asks.good])
        return answers

    async def value_of(self, keys: LockKeys, /) -> bytes | None:
        """Return the id of the present holder on a majority, or None."""
        (found,) = await self.replies(keys.name, [(SHOW, keys.grant, (0,))])
        if any(shown[0] not in {b"string", b"none"} for _, shown in found):
            raise ServerUnsuitable(f"{keys.name!r} is another kind of object", code="WRONGTYPE")
        return agreed([shown[1] for _, shown in found], self.needed)

    async def on_each(self, name: str, flow: Callable[[Engine], Awaitable[T]], /) -> Sequence[T]:
        """Run a flow on one node after the other; raise when it fails on too many."""
        done: list[T] = []
        failures: dict[int, Exception] = {}
        for number, node in enumerate(self.nodes):
            try:
                done.append(await flow(node))
            except FencelockError as error:
                failures[number] = error
        if len(done) < self.needed:
            raise self.not_reached(name, failures)
        return done

    def not_reached(self, what: str, failures: dict[int, Exception]) -> FencelockError:
        """Return the error for a missing majority, with one cause per node."""
        causes: dict[str, Exception] = {}
        for node, error in sorted(failures.items()):
            if isinstance(error, ClientClosed):
                return error
            made = error
            if isinstance(error, NoReply):  # as a user may see it
                made = OutcomeUnknown(str(error)) if error.sent else ServerUnreachable(str(error))
                made.__cause__ = error.__cause__
            causes[self.labels[node]] = made
        told_apart = ((label, str(error)) for label, error in causes.items())
        words = "; ".join(
            text if label in text else f"{label}: {text}" for label, text in told_apart
        )
        return QuorumNotReached(f"{what}: no majority of {len(self.nodes)} nodes: {words}", causes)

    # -- its members; the rules are in membership.py -----------------------------------------------

    def claim(self, claimant: Majority | QuorumAttempt, ttl: float) -> None:
        """Note a holder or request of leases of this length, before a node is asked for one."""
        if ttl > LONG_SECONDS:
            with self.mutex:
                self.membership.claimants.add(claimant)

    def give_up_claim(self, claimant: Majority | QuorumAttempt) -> None:
        """Note that it has no lease any more; after the last one that has, give up the claim."""
        membership = self.membership
        if not membership.claimants:
            return
        with self.mutex:
            membership.claimants.discard(claimant)
            number = membership.drop_claim()
        if number:
            self.run_in_background(
                MEMBERSHIP,
                (self.membership_key,),
                _words(0.0, self.client_channel, number, 0.0, 0.0),
            )

    async def refresh(
        self,
        one: Attempt,
        latest: float,
        renewed: float = 0.0,
        *,
        again: bool = False,
    ) -> None:
        """Make sure that a majority knows the voters and the longest lease; it nearly always does.

        ``renewed`` is a ttl that was requested later; with ``again`` a claim is renewed in good
        time. Raises QuorumNotReached when no majority answers by ``latest``.
        """
        now = self.now()
        ttl = max(longest_of(one), renewed)
        with self.mutex:
            if not self.membership.stale(ttl, now) and not again:
                return
            asks_all = not self.membership.met or self.membership.unsure(now)
        if asks_all:
            await self._ask_members(one, ttl, None, latest)
            with self.mutex:
                twins = self.membership.twins()
                if twins:
                    self.membership.met = False  # so it is checked every time
                else:
                    self.membership.judge()
            if twins:  # the vote of one server would count twice
                labels = ", ".join(sorted(self.labels[node] for node in twins))
                raise ServerUnsuitable(
                    "the nodes of a quorum must be different servers, but these are the same:"
                    f" {labels}"
                )
        with self.mutex:
            voters = self.membership.voters(self.now())
        await self._ask_members(one, ttl, voters, latest)
        with self.mutex:
            if ttl <= LONG_SECONDS:
                self.membership.longest = max(self.membership.longest, ttl)
            self.membership.written, self.membership.written_at = voters, self.now()

    async def _ask_members(
        self, one: Attempt, ttl: float, voters: Collection[bytes] | None, latest: float
    ) -> None:
        """Ask the nodes, and write the voters to them; with None, only ask.

        The first time, wait for each node as long as for an undecided vote: if all servers are new,
        a distant one would otherwise leave the others without a vote.
        """
        now, membership = self.now(), self.membership
        first = voters is None and not membership.met
        claims_too = voters is not None and ttl > LONG_SECONDS
        with self.mutex:
            number, claimed, until = membership.claim(ttl, now) if claims_too else (0, 0.0, now)
            waiting = () if voters is None else [b"?" + each for each in membership.waiting(now)]
        # On a clock that runs faster than ours it must not end sooner.
        lasts = (until - now) * (1 + 2 * DRIFT_RATE) + 1 if claims_too else 0.0
        short = ttl if ttl <= LONG_SECONDS else 0.0
        words = _words(short, self.client_channel, number, claimed, lasts)
        call: Call = (MEMBERSHIP, (self.membership_key,), (*words, *(voters or ()), *waiting))
        nodes = range(len(self.nodes)) if voters is None else self.healthy(now)
        asks = Ballots(self)
        asks.put(nodes, one, (packed(*call),))
        needed = len(asks) if first else self.needed
        await asks.ask(needed, latest, patient=not first)
        good = asks.good
        claims: list[tuple[float, float]] = []
        with self.mutex:
            for ask in good:
                longest, longest_claimed, left, *known = ask.reply
                membership.read(ask.node, longest / 1000, known, self.now())
                claims.append((longest_claimed / 1000, left / 1000))
            if len(good) >= self.needed:
                membership.read_claims(claims, self.now())
                if claims_too:
                    membership.claim_holds(claimed, until)
                    for claimant in membership.claimants:
                        claimant.claim_renewed()
        if len(good) < self.needed:
            raise self.not_reached(f"{one.terms.keys.name!r} was not asked for", asks.failures)

    async def refresh_while_held(self, one: Attempt) -> None:
        """Keep the membership records alive while leases are held; retry with the next one."""
        now, ttl = self.now(), longest_of(one)
        again = (
            ttl > LONG_SECONDS and self.membership.claim_until < now + (CLAIMED_TTLS - 0.5) * ttl
        )
        try:
            await self.refresh(one, now + self.node_timeout, again=again)
        except FencelockError as error:
            log.info("the nodes of a quorum could not be informed about each other: %s", error)

    # -- its nodes ---------------------------------------------------------------------------------

    def healthy(self, now: float) -> Sequence[int]:
        """Return the nodes to ask: not those that failed recently, unless too few would be left."""
        nodes = range(len(self.nodes))
        well = [node for node in nodes if self.suspect.get(node, 0.0) <= now]
        return well if len(well) >= self.needed else nodes

    async def exchange(
        self, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

        That is ``latest`` until the answers decide, and earlier from then on. Every ask has then
        ended. A cancellation leaves some that have not.
        """
        raise NotImplementedError

    def put_back(self, asks: Iterable[Ballot]) -> None:
        """Return the connections to the pools; close those with an unread answer.

        Except one that an undo still uses.
        """
        raise NotImplementedError

    def begin_quorum(self, labels: Sequence[str], prefix: str, node_timeout: float) -> None:
        """Note the nodes, before their ports are made."""
        self.labels = tuple(labels)
        self.needed: int = majority(len(labels))
        self._node_timeout = node_timeout
        self.membership_key = membership_key(prefix)
        self.know_nothing()

    def know_nothing(self) -> None:
        """Start without knowledge of the nodes: at first, and in a child process."""
        self.suspect = {}
        self.membership = Membership(len(self.labels))

    def name_nodes(self) -> None:
        """Have all nodes know this client by one channel: what they are asked is one text."""
        for node in self.nodes:
            node.client_channel = self.client_channel

    @property
    def node_timeout(self) -> float:
        """Return how long a straggler is awaited once the others have decided."""
        return self.trips.within(self._node_timeout)

    @property
    def undecided_timeout(self) -> float:
        """Return how long votes are awaited that may decide."""
        return self.trips.within(self._node_timeout * UNDECIDED_FACTOR, CALL_TRIPS)

    def far(self) -> RoundTrips:
        """Return the round trips that decide: of the slowest node of the quickest majority."""
        trips = RoundTrips().of_several(len(self.nodes) - self.needed)
        for node in self.nodes:
            trips.include(node.trips)
        return trips

    def identified(self, number: int) -> Identified:
        """Return the callback that takes a node's identity."""
        membership, mutex = self.membership, self.mutex

        def saw(run_id: bytes, asked_at: float) -> None:
            with mutex:
                membership.saw(number, run_id, asked_at)

        return saw

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Refuse: a flow for one server must not run here."""
        del keys, args, until, waiter
        raise RuntimeError(f"{script.name}: a quorum is not one server")

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Send to every node."""
        del undo_connection  # the nodes' own requests have them
        for node in self.nodes:
            node.run_in_background(script, keys, args)


def _words(ttl: float, client: bytes, number: int, claimed: float, lasts: float) -> Args:
    spans = [ceil(seconds * 1000) for seconds in (KEPT_SECONDS, ttl, claimed, lasts)]
    return (*spans[:2], client, number, *spans[2:])
