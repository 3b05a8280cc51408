"""Ask several nodes of a quorum at once, and keep them informed of each other.

Rules of this file:

- Requests are sent to all before an answer is awaited.
- A request without an answer is undone on its own connection (I4, I9): ``undo``, then
  ``put_back``. It is undone once, and that connection serves one follower: two clean-ups would read
  one connection.
- A silent node costs ``node_timeout`` when the others have decided, and a bounded multiple of it
  when they have not.
- What people ask is answered by a majority, or ends with QuorumNotReached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from math import ceil, inf

from fencelock._core.deadlines import DRIFT_RATE
from fencelock._core.lock.attempt import Attempt
from fencelock._core.quorum.membership import (
    CLAIMED_TTLS,
    KEPT_SECONDS,
    LONG_SECONDS,
    SUSPECT_SECONDS,
    Claimant,
    decided,
)
from fencelock._core.seat import Question
from fencelock._core.types import Args, Call, NoReply, Reply, closed
from fencelock._runtime.log import log
from fencelock._runtime.typed import TYPE_CHECKING, TypeVar
from fencelock.errors import (
    ClientClosed,
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerUnreachable,
    ServerUnsuitable,
)
from fencelock.scripts import MEMBERSHIP, packed

if TYPE_CHECKING:
    from fencelock._core.quorum.engine import QuorumEngine

T = TypeVar("T")
Good = Callable[["Ballot"], bool]
Packed = Sequence[bytes]  # the one request of a ballot, in wire form


class Ballot(Question):
    """One question at one node, and its outcome.

    ``about`` is what was asked for, or granted, there; None of a question that only reads.
    ``wanted`` says which answer is good; None: any. ``ends`` is that of its round.
    """

    good = False  # the answer is a wanted one
    undone = False
    followed = False  # an undo or a repetition was sent behind it, on its connection

    about: Attempt

    def __init__(
        self,
        node: int,
        about: Attempt | None,
        requests: Packed,
        wanted: Good | None,
        ends: list[bool],
    ) -> None:
        self.about = about  # type: ignore[assignment]  # who only reads does not look at it
        self.node, self.requests, self.wanted, self.ends = node, requests, wanted, ends

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer."""
        self.reply, self.answered_at, self.ended = reply, now, True
        self.good = good = self.wanted is None or self.wanted(self)
        self.ends.append(good)

    def fail(self, error: NoReply | FencelockError) -> None:
        """Take the error instead of an answer."""
        super().fail(error)
        self.ends.append(False)

    def follow(self) -> object:
        """Return the connection on which to send what must run after it; once, None later."""
        path = None if self.followed else self.undo_connection or self.connection
        self.followed = True
        return path

    @property
    def silent(self) -> bool:
        """Return True if the request may have run, and no answer came."""
        unanswered = self.error is None or isinstance(self.error, (NoReply, ClientClosed))
        return self.began and self.answered_at == 0 and unanswered


class Ballots(list[Ballot]):
    """Questions that go out together to nodes of a quorum.

    ``ends`` has for each question that has ended whether its answer is good: what a round counts,
    whenever one more has ended.
    """

    def __init__(self, port: QuorumEngine) -> None:
        self.port: QuorumEngine = port
        self.ends: list[bool] = []

    def put(
        self,
        nodes: Iterable[int],
        about: Attempt | None,
        requests: Packed,
        wanted: Good | None = None,
    ) -> None:
        """Add the same question at several nodes."""
        ends = self.ends
        for node in nodes:
            self.append(Ballot(node, about, requests, wanted, ends))

    @property
    def good(self) -> list[Ballot]:
        """Return those with a wanted answer."""
        return [ask for ask in self if ask.good]

    @property
    def failures(self) -> dict[int, Exception]:
        """Return the errors of the nodes that failed."""
        return {ask.node: ask.error for ask in self if ask.error is not None}

    async def broadcast(
        self, needed: int, latest: float | None = None, *, patient: bool = False
    ) -> int:
        """Ask all at once and return how many have a wanted answer: ``needed`` of these decide.

        Waits until ``latest`` at most; with ``patient`` until then if necessary, because nothing is
        held meanwhile. The caller puts the asks back after it has undone them.
        """
        port, ends = self.port, self.ends
        last = port.now() + port.undecided_timeout
        if latest is not None:
            last = latest if patient else min(last, latest)
        until = inf  # the answers decide: the others are awaited for ``node_timeout`` from then on

        def limit() -> float:
            nonlocal until
            if until == inf:
                if not decided(ends.count(True), len(self) - len(ends), needed):
                    return last
                until = min(last, port.now() + port.node_timeout)
            return until

        await self._exchange(self, last, limit)
        if ends.count(True) < len(self):  # ask again, on other connections, where one broke
            errors = [(ask, ask.error) for ask in self if isinstance(ask.error, NoReply)]
            broken = [ask for ask, error in errors if error.sent and error.undo_connection is None]
            if broken and port.now() < limit():
                port.put_back(broken)
                for ask in broken:
                    ask.error, ask.ended = None, False
                    ends.remove(False)
                await self._exchange(broken, last, limit)
        good = ends.count(True)
        if good < len(self) or port.suspect:
            self._note_ill()
        return good

    async def _exchange(
        self, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once; nothing once the client is closed."""
        if not self.port.closing:
            await self.port.exchange(asks, latest, limit)
            return
        for ask in asks:
            ask.fail(closed())

    def _note_ill(self) -> None:
        """Avoid the nodes that failed for a while; those that answered are healthy."""
        for ask in self:
            if isinstance(ask.error, (NoReply, ServerUnreachable)):
                self.port.suspect[ask.node] = self.port.now() + SUSPECT_SECONDS
            else:
                self.port.suspect.pop(ask.node, None)

    async def ask(self, needed: int, latest: float | None = None, *, patient: bool = False) -> int:
        """Do as ``broadcast``, where nothing has to be undone: put the asks back."""
        try:
            return await self.broadcast(needed, latest, patient=patient)
        finally:
            self.port.put_back(self)

    def undo(self, *, all_of_them: bool = False, but: Container[int] = ()) -> None:
        """Release in the background on nodes that did not answer, or on all of them but some."""
        for ask in self:
            if ask.node in but or ask.undone or not (ask.silent or (all_of_them and ask.began)):
                continue
            node, about = self.port.nodes[ask.node], ask.about
            with node.mutex:
                node.lines.give_up(about)
            node.run_in_background(*about.terms.abandon(about), ask.follow())
            ask.undone = True

    async def first_node_last(
        self, needed: int, repeated: Callable[[Attempt], Call], span: float = inf
    ) -> int:
        """Release all at once, the last one last: its next waiter then finds the others free.

        One that is slower refuses that waiter, which asks it again. A node that does not answer,
        soon or within a ``span``, is asked again in the background. Returns how many confirmed it.
        """
        port = self.port
        try:
            good = await self.broadcast(needed, port.now() + span)
            if good < len(self):
                self.retry_in_background(repeated)
        finally:
            port.put_back(self)
        return good

    def retry_in_background(self, repeated: Callable[[Attempt], Call]) -> None:
        """Repeat in the background what has no answer, behind the request where that is known."""
        for ask in self:
            if isinstance(ask.error, (NoReply, ServerUnreachable, ClientClosed)):
                node = self.port.nodes[ask.node]
                node.run_in_background(*repeated(ask.about), ask.follow())


def healthy(port: QuorumEngine, now: float) -> Sequence[int]:
    """Return the nodes to ask: not those that failed recently, unless too few would be left."""
    nodes = range(len(port.nodes))
    well = [node for node in nodes if port.suspect.get(node, 0.0) <= now]
    return well if len(well) >= port.needed else nodes


def granted(ask: Ballot) -> bool:
    """Return True if the answer of a further node is a grant."""
    return isinstance(ask.reply, bytes)


def not_reached(port: QuorumEngine, what: str, failures: dict[int, Exception]) -> FencelockError:
    """Return the error for a missing majority, with one cause per node."""
    causes: dict[str, Exception] = {}
    for node, error in sorted(failures.items()):
        if isinstance(error, ClientClosed):
            return error
        made = error
        if isinstance(error, NoReply):  # as a user may see it
            made = OutcomeUnknown(str(error)) if error.sent else ServerUnreachable(str(error))
            made.__cause__ = error.__cause__
        causes[port.labels[node]] = made
    told_apart = ((label, str(error)) for label, error in causes.items())
    words = "; ".join(text if label in text else f"{label}: {text}" for label, text in told_apart)
    return QuorumNotReached(f"{what}: no majority of {len(port.nodes)} nodes: {words}", causes)


# -- its members; the rules are in membership.py ---------------------------------------------------


def longest_of(one: Attempt) -> float:
    """Return the longest lease that an attempt or a hold may bring, in seconds."""
    options = one.terms.options
    return max(one.ttl, options.ttl if options.renew else 0.0)


def claim(port: QuorumEngine, claimant: Claimant, ttl: float) -> None:
    """Note a holder or request of leases of this length, before a node is asked for one."""
    if ttl > LONG_SECONDS:
        with port.mutex:
            port.membership.claimants.add(claimant)


def give_up_claim(port: QuorumEngine, claimant: Claimant) -> None:
    """Note that it has no lease any more; after the last one that has, give up the claim."""
    membership = port.membership
    if not membership.claimants:
        return
    with port.mutex:
        membership.claimants.discard(claimant)
        number = membership.drop_claim()
    if number:
        port.run_in_background(
            MEMBERSHIP, (port.membership_key,), _words(0.0, port.client_channel, number, 0.0, 0.0)
        )


def _words(ttl: float, client: bytes, number: int, claimed: float, lasts: float) -> Args:
    spans = [ceil(seconds * 1000) for seconds in (KEPT_SECONDS, ttl, claimed, lasts)]
    return (*spans[:2], client, number, *spans[2:])


async def refresh(
    port: QuorumEngine,
    one: Attempt,
    latest: float,
    renewed: float = 0.0,
    *,
    again: bool = False,
) -> None:
    """Make sure that a majority knows the voters and the longest lease; it nearly always does.

    ``renewed`` is a ttl that was requested later; with ``again`` a claim is renewed in good time.
    Raises QuorumNotReached when no majority answers by ``latest``.
    """
    now = port.now()
    ttl = max(longest_of(one), renewed)
    with port.mutex:
        if not port.membership.stale(ttl, now) and not again:
            return
        asks_all = not port.membership.met or port.membership.unsure(now)
    if asks_all:
        await _ask(port, one, ttl, None, latest)
        with port.mutex:
            twins = port.membership.twins()
            if twins:
                port.membership.met = False  # so it is checked every time
            else:
                port.membership.judge()
        if twins:  # the vote of one server would count twice
            labels = ", ".join(sorted(port.labels[node] for node in twins))
            raise ServerUnsuitable(
                f"the nodes of a quorum must be different servers, but these are the same: {labels}"
            )
    with port.mutex:
        voters = port.membership.voters(port.now())
    await _ask(port, one, ttl, voters, latest)
    with port.mutex:
        if ttl <= LONG_SECONDS:
            port.membership.longest = max(port.membership.longest, ttl)
        port.membership.written, port.membership.written_at = voters, port.now()


async def _ask(
    port: QuorumEngine, one: Attempt, ttl: float, voters: Collection[bytes] | None, latest: float
) -> None:
    """Ask the nodes, and write the voters to them; with None, only ask.

    The first time, wait for each node as long as for an undecided vote: if all servers are new, a
    distant one would otherwise leave the others without a vote.
    """
    now, membership = port.now(), port.membership
    first = voters is None and not membership.met
    claims_too = voters is not None and ttl > LONG_SECONDS
    with port.mutex:
        number, claimed, until = membership.claim(ttl, now) if claims_too else (0, 0.0, now)
        waiting = () if voters is None else [b"?" + each for each in membership.waiting(now)]
    # On a clock that runs faster than ours it must not end sooner.
    lasts = (until - now) * (1 + 2 * DRIFT_RATE) + 1 if claims_too else 0.0
    short = ttl if ttl <= LONG_SECONDS else 0.0
    words = _words(short, port.client_channel, number, claimed, lasts)
    call: Call = (MEMBERSHIP, (port.membership_key,), (*words, *(voters or ()), *waiting))
    nodes = range(len(port.nodes)) if voters is None else healthy(port, now)
    asks = Ballots(port)
    asks.put(nodes, one, (packed(*call),))
    needed = len(asks) if first else port.needed
    await asks.ask(needed, latest, patient=not first)
    good = asks.good
    claims: list[tuple[float, float]] = []
    with port.mutex:
        for ask in good:
            longest, longest_claimed, left, *known = ask.reply
            membership.read(ask.node, longest / 1000, known, port.now())
            claims.append((longest_claimed / 1000, left / 1000))
        if len(good) >= port.needed:
            membership.read_claims(claims, port.now())
            if claims_too:
                membership.claim_holds(claimed, until)
                for claimant in membership.claimants:
                    claimant.claim_renewed()
    if len(good) < port.needed:
        raise not_reached(port, f"{one.terms.keys.name!r} was not asked for", asks.failures)


async def refresh_while_held(port: QuorumEngine, one: Attempt) -> None:
    """Keep the membership records alive while leases are held; retry a failure with the next."""
    now, ttl = port.now(), longest_of(one)
    again = ttl > LONG_SECONDS and port.membership.claim_until < now + (CLAIMED_TTLS - 0.5) * ttl
    try:
        await refresh(port, one, now + port.node_timeout, again=again)
    except FencelockError as error:
        log.info("the nodes of a quorum could not be informed about each other: %s", error)
