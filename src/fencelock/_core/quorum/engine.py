"""What a client does with its locks on a quorum of independent servers.

Rules of this file:

- Each node has an ordinary port of its own, which renews that node's leases: a silent node holds up
  no other node's.
- A request without an answer to wait for goes to every node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from fencelock._core.engine import Engine
from fencelock._core.keys import LockKeys, membership_key
from fencelock._core.quorum.acquire import take
from fencelock._core.quorum.broadcast import (
    Ballot,
    Ballots,
    give_up_claim,
    healthy,
    not_reached,
)
from fencelock._core.quorum.lease import (
    give_back,
    hand_back,
    maintain,
    majority_of,
    release_later,
    renew,
)
from fencelock._core.quorum.membership import (
    FIRST_FACTOR,
    UNDECIDED_FACTOR,
    Membership,
    agreed,
    majority,
)
from fencelock._core.round_trips import CALL_TRIPS, RoundTrips
from fencelock._core.types import Args, Call, Keys, Reply
from fencelock._runtime.typed import TYPE_CHECKING, Any, TypeVar
from fencelock.errors import FencelockError, ServerUnsuitable
from fencelock.scripts import SHOW, Script, packed

if TYPE_CHECKING:
    from fencelock._core.lock.hold import Hold

T = TypeVar("T")

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
    take = take
    maintain = maintain
    renew = renew
    give_back = give_back
    release_later = release_later
    hand_back = hand_back

    def clean_up(self, hold: Hold) -> None:
        """Undo what may still come of the requests of a hold that has ended."""
        give_up_claim(self, majority_of(hold))
        first = majority_of(hold).first  # no other was asked twice
        part = hold.parts[first]
        if part is not None and part.owed:
            part.undo_owed(self.nodes[first])

    # -- what people ask: a majority must answer ---------------------------------------------------

    async def replies(self, name: str, calls: Sequence[Call], /) -> list[list[Reply]]:
        """Return for each question the answers of the nodes, at least of a majority."""
        answers: list[list[Reply]] = []
        for call in calls:
            now = self.now()
            asks = Ballots(self)
            asks.put(healthy(self, now), None, (packed(*call),))
            if await asks.ask(self.needed, now + self.server_timeout) < self.needed:
                raise not_reached(self, f"no node answers about {name!r}", asks.failures)
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
            raise not_reached(self, name, failures)
        return done

    # -- its nodes ---------------------------------------------------------------------------------

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

    @property
    def first_seconds(self) -> float:
        """Return how long the first node may take to answer a request for a lock."""
        return self.node_timeout * FIRST_FACTOR

    def far(self, nodes: Sequence[Engine]) -> RoundTrips:
        """Return the round trips that decide: of the slowest node of the quickest majority."""
        trips = RoundTrips().of_several(len(nodes) - self.needed)
        for node in nodes:
            trips.include(node.trips)
        return trips

    def identified(self, number: int) -> Identified:
        """Return the callback that takes a node's identity."""
        membership, mutex = self.membership, self.mutex

        def saw(run_id: bytes, asked_at: float) -> None:
            with mutex:
                membership.saw(number, run_id, asked_at)

        return saw

    async def call(self, script: Script, *_: Any, **__: Any) -> Reply:
        """Refuse: a flow for one server must not run here."""
        raise RuntimeError(f"{script.name}: a quorum is not one server")

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: object = None
    ) -> None:
        """Send to every node."""
        del undo_connection  # the nodes' own requests have them
        for node in self.nodes:
            node.run_in_background(script, keys, args)
