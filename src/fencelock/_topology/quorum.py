"""The common part of a quorum's ports, for threads, a loop and the simulator.

Rules of this file:

- Each node has an ordinary port of its own, which renews that node's leases: a silent node holds up
  no other node's.
- A request without an answer to wait for goes to every node.
- A node identifies itself each time a connection to it is opened: its run id is new after a
  restart.
- A node that refuses connections is not retried: there are others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fencelock._core.engine import Engine
from fencelock._core.keys import membership_key
from fencelock._core.quorum.acquire import take
from fencelock._core.quorum.broadcast import holder_of, on_each, replies
from fencelock._core.quorum.lease import (
    clean_up,
    give_back,
    hand_back,
    maintain,
    release_later,
    renew,
)
from fencelock._core.quorum.membership import (
    FIRST_FACTOR,
    UNDECIDED_FACTOR,
    Membership,
    majority,
    run_id_of,
)
from fencelock._core.round_trips import CALL_TRIPS, RoundTrips
from fencelock._core.types import Args, Keys, NoReply, Reply
from fencelock._runtime.clock import now
from fencelock.scripts import Script

# Takes a node's run id, its uptime in seconds, and the instant before it was asked for them.
Identified = Callable[[bytes, float], None]


class NodePortRules(Engine):
    """What the real ports of a quorum's nodes have in common."""

    is_node = True
    most: float  # how long a connection may take to open
    given: Any

    @property
    def server_timeout(self) -> float:
        """Return how long it may take to answer, if it is the first node."""
        return self.trips.within(self.given.node_timeout * FIRST_FACTOR)

    @server_timeout.setter
    def server_timeout(self, seconds: float) -> None:
        self.most = seconds

    def _keep_pace(self, trips: RoundTrips) -> None:
        """Leave ``most`` as it is: ``server_timeout`` follows by itself."""


class QuorumPortRules(Engine):
    """The common part of the three ports of a quorum; each adds how it waits for several nodes.

    What a quorum refuses (see ``options.py``) is left as on one server, and never called.
    """

    halves = False  # an acquisition has several questions
    take = take
    maintain = maintain
    renew = renew
    give_back = give_back
    release_later = release_later
    hand_back = hand_back
    clean_up = clean_up
    replies = replies
    on_each = on_each
    value_of = holder_of

    nodes: Sequence[Any]
    labels: tuple[str, ...]
    mutex: Any  # of the port that carries this
    client_channel: bytes

    def begin_quorum(self, labels: Sequence[str], prefix: str, node_timeout: float) -> None:
        """Note the nodes, before their ports are made."""
        self.labels = tuple(labels)
        self.needed = majority(len(labels))
        self._node_timeout = node_timeout
        self.membership_key = membership_key(prefix)
        self.know_nothing()

    def know_nothing(self) -> None:
        """Start without knowledge of the nodes: at first, and in a child process."""
        self.suspect: dict[int, float] = {}
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

    def far(self, nodes: Sequence[Any]) -> RoundTrips:
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


async def identify(
    connection: Any,
    command: Callable[[Sequence[bytes], float], Awaitable[Any]],
    until: float,
    saw: Identified,
) -> None:
    """Ask a node for its identity, on a connection that has just been opened.

    Without an answer the connection is closed: the actual request was not sent on it.
    """
    asked_at = now()
    try:
        info = await command((b"INFO", b"server"), until)
    except BaseException as error:
        connection.close()
        if isinstance(error, NoReply):
            raise NoReply(str(error), sent=False) from error.__cause__
        raise
    saw(run_id_of(info), asked_at)
