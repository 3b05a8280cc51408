"""What a port is over a quorum of independent servers, in threads, in a loop and in the simulator.

Rules of this file:

- Each node has an ordinary port of its own, which renews that node's leases: a silent node holds up
  no other's.
- What is sent to the quorum without an answer to wait for goes to every node.
- A node says who it is each time a connection to it is opened: its run id is new after a restart.
- A node that refuses connections is not asked again: there are others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from fencelock._core.keys import membership_key
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.quorum.lease import detach
from fencelock._core.quorum.membership import Membership, parse_info
from fencelock._core.quorum.votes import FIRST_FACTOR, majority
from fencelock._core.types import Args, Keys, NoReply, Reply
from fencelock._topology.flows.quorum import QUORUM
from fencelock.scripts import Script

# How long a connection may take to open, however soon its caller gives up; in a loop, after such a
# silence one is given up. A busy loop is silent, too.
DIAL_SECONDS = 1.0

# Takes a node's run id, its uptime in seconds, and the instant before it was asked for them.
Identified = Callable[[bytes, float, float], None]


class QuorumPortRules:
    """What the three ports of a quorum have in common; each adds how it waits for several."""

    flows = QUORUM
    nodes: Sequence[Any]
    labels: Sequence[str]
    book: RenewalSchedule
    mutex: Any  # of the port that carries this

    def begin_quorum(self, labels: Sequence[str], prefix: str, node_timeout: float) -> None:
        """Note which nodes there are, before their ports are made."""
        self.labels = labels
        self.needed = majority(len(labels))
        self.node_timeout = node_timeout
        self.membership_key = membership_key(prefix)
        self.know_nothing()

    def know_nothing(self) -> None:
        """Begin with nodes of which nothing is known: at first, and in a child process."""
        self.suspect: dict[int, float] = {}
        self.membership = Membership(len(self.labels))

    @property
    def first_seconds(self) -> float:
        """Return for how long the first node is asked for a lock."""
        return self.node_timeout * FIRST_FACTOR

    def identified(self, number: int) -> Identified:
        """Return what takes the identity of a node."""
        membership, mutex = self.membership, self.mutex

        def saw(run_id: bytes, uptime: float, asked_at: float) -> None:
            with mutex():
                membership.saw(number, run_id, uptime, asked_at)

        return saw

    async def call(self, script: Script, *_: Any, **__: Any) -> Reply:
        """Refuse: a flow that asks one server has no business here."""
        raise RuntimeError(f"{script.name}: a quorum is not one server")

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: object = None
    ) -> None:
        """Send to every node."""
        del undo_connection  # the nodes' own requests have them
        for node in self.nodes:
            node.run_in_background(script, keys, args)

    def move(self, hold: Hold, when: float) -> None:
        """Have a hold get attention at another instant."""
        with self.mutex():
            if not hold.open or hold.notified:
                return
            self.book.discard(hold)
            self.book.add(hold, when)
        self.attend_by(when)

    def attend_by(self, when: float) -> None:
        """See that ``Flows.maintain`` runs by an instant."""

    def let_go(self) -> None:
        """Let the nodes' leases end with their ports: the whole is notified by itself."""
        with self.mutex():
            detach(self.book.tracked())


class Greeted(Protocol):
    """A connection that was opened a moment ago."""

    def close(self) -> None:
        """Close it."""


async def identify(
    connection: Greeted,
    command: Callable[[Sequence[bytes], float], Awaitable[Any]],
    asked_at: float,
    until: float,
    saw: Identified,
) -> None:
    """Ask a node who it is, on a connection that was opened a moment ago.

    Without an answer the connection is closed: what is asked for has not been sent on it.
    """
    try:
        told = await command((b"INFO", b"server"), until)
    except BaseException as error:
        connection.close()
        if isinstance(error, NoReply):
            raise NoReply(str(error), sent=False) from error.__cause__
        raise
    saw(*parse_info(told), asked_at)
