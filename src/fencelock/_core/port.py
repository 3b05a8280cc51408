"""Everything a flow may ask of the world. Nothing else in ``_core`` can block.

Three ports implement this: the blocking one (its coroutines block and never suspend), the asyncio
one, and the simulated one of the tests (every method suspends into a scheduler that the test owns).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew_request import Answer
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Call, Keys, Reply
from fencelock._runtime.records import NamedTuple
from fencelock.errors import NotAcknowledged
from fencelock.scripts import Script


class Replicas(Protocol):
    """The replicas that must have a grant or a renewal before it counts."""

    @property
    def wanted(self) -> int:
        """Return how many must have it."""

    @property
    def timeout(self) -> float:
        """Return within how many seconds."""

    async def acknowledge(self, waiter: Seat, until: float) -> int:
        """Return how many replicas have all that the server did for this waiter so far.

        Returns when as many as wanted have it, or at ``until`` with the number that is known. Only
        for a waiter with a connection: its server is meant, and no other. Raises ``NoReply`` when
        that connection is gone, and a ``ServerError`` like ``Port.call``.
        """


# A port, as the flows of its topology see it: some need a ``SlottedPort``, or a quorum's.
AnyPort = Any


class Flows(NamedTuple):
    """What is done differently on one server, in a Cluster, with replicas, or over a quorum.

    A port carries the flows that fit it, and a flow calls those of its port: so it never asks which
    servers it runs on. See ``_topology/flows``.
    """

    # Take a lock and register its hold.
    take: Callable[[AnyPort, Attempt], Awaitable[Hold | None]]
    # Ask for a lock and a place in its line; None when it was not granted at once.
    line_up: Callable[[AnyPort, Attempt, float], Awaitable[Grant | None]]
    # Send the heartbeat of this client's waiters by an instant; learn their places in line.
    heartbeat: Callable[[AnyPort, float, Attempt], Awaitable[None]]
    # Return True if one script can touch all these locks, as far as is known.
    one_script: Callable[[AnyPort, Sequence[Terms]], bool]

    # Do what the renewal schedule has due: notify holders of losses, renew the rest.
    maintain: Callable[[AnyPort], Coroutine[Any, Any, None]]
    # Renew leases, sorted by their kinds, in the background.
    renew_due: Callable[[AnyPort, Sequence[list[Hold]]], Awaitable[None]]
    # Renew one lease at its holder's request; ``True``: that may shorten it.
    renew: Callable[[AnyPort, Hold, float | None, bool], Awaitable[None]]
    # Renew several leases together at their holder's request.
    renew_all: Callable[[AnyPort, Sequence[Hold], float | None], Awaitable[None]]
    # Ask the server to renew leases of one kind by an instant; replicas may take until another, and
    # leases may be shortened until a third one, by the server's clock.
    renew_batch: Callable[
        [AnyPort, Sequence[Hold], Sequence[float], float, float, int], Awaitable[Answer]
    ]
    # End a lease whose deadline has come.
    ended: Callable[[AnyPort, Hold], None]

    # Release a hold; return how many an explicit owner has left.
    give_back: Callable[[AnyPort, Hold, Seat], Awaitable[int]]
    # Release a hold in the background, after a request if its ``undo_connection`` is given.
    release_in_background: Callable[[AnyPort, Hold, object], None]
    # Release leases that ended with their client, in order and by an instant; return those that no
    # server confirmed.
    hand_back: Callable[[AnyPort, Sequence[Hold], float], Awaitable[Sequence[Hold]]]
    # Undo what may still come of the requests of a hold that has ended.
    clean_up: Callable[[AnyPort, Hold], None]

    # Return the answers to a question about a name: one, or a majority's.
    replies: Callable[[AnyPort, str, Call], Awaitable[list[Reply]]]
    # Return for each of several locks what each server shows of it, with so many waiters.
    survey: Callable[[AnyPort, Sequence[LockKeys], int], Awaitable[list[list[Any]]]]
    # Run a flow on each independent server; return what it returned.
    on_each: Callable[[AnyPort, str, Callable[[Any], Awaitable[Any]]], Awaitable[Sequence[Any]]]
    # Return the id of a lock's holder, or None, also for an idle lease that its client keeps.
    holder_of: Callable[[AnyPort, LockKeys], Awaitable[bytes | None]]
    # Return True if the client of a holder's id keeps its lease and does not use it.
    is_idle: Callable[[AnyPort, LockKeys, bytes], Awaitable[bool]]
    # Ask the clients of these channels who waits inside them, by an instant.
    local_rows: Callable[[AnyPort, Mapping[bytes, LockKeys], float], Awaitable[Sequence[Any]]]
    # Run scripts; return their replies, or what each would raise.
    side_by_side: Callable[[AnyPort, Sequence[Call], float], Awaitable[Sequence[Reply | Exception]]]

    # Return once replicas have what a waiter's connection brought: by its lease's deadline, and by
    # its caller's.
    confirm: Callable[[AnyPort, Seat, float, float], Awaitable[None]]
    # Ask; return the answer, and the error when too few replicas have what it did.
    ask_confirmed: Callable[
        [AnyPort, Hold, Call, float, Seat],
        Awaitable[tuple[Reply, NotAcknowledged | None]],
    ]
    # Return how long replicas may take to acknowledge, in seconds.
    confirm_seconds: Callable[[AnyPort], float]
    confirms: bool  # replicas count: ``confirm`` does something


class Port(Protocol):
    """The world as the flows see it."""

    mutex: AbstractContextManager[Any]  # guards shared tables; nothing may be awaited inside
    label: str  # the server, as a person calls it; no password
    client_channel: bytes  # identifies this client; revocations arrive on it
    lines: Lines  # this client's waiters
    renewals: RenewalSchedule  # when which lease is due
    waits: UnitWaits  # what the threads and tasks of this process wait for
    server_timeout: float  # seconds without any answer before a call gives up
    flows: Flows  # those that fit the servers behind this port
    needed: int  # how many answers decide: one, or a majority of a quorum's nodes

    @property
    def hears(self) -> bool:
        """Return True while messages to this client arrive, as far as is known."""

    def now(self) -> float:
        """Return the monotonic instant, in seconds."""

    def new_id(self) -> bytes:
        """Return an unguessable id without spaces."""

    def jitter(self) -> float:
        """Return a random number in [0, 1)."""

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a script and return its reply; all its keys are in one slot.

        With a waiter, on the connection that the waiter listens on. Raises ``NoReply`` when no
        answer came by ``until``, and a ``ServerError`` when the answer is an error.
        """

    async def parts(self, until: float) -> Sequence[bytes]:
        """Return one key for each server: commands with these keys reach everything there is."""

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a packed script call that touches this key; ends like ``call``."""

    async def command(
        self, args: Sequence[bytes | int], key: bytes, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a plain command where this key is; ends like ``call``."""

    def open_now(self, waiter: Seat, *, listen: bool) -> bool:
        """Do what ``open`` does if that needs no answer; return True if that was all."""

    async def open(self, waiter: Seat, until: float, *, listen: bool = True) -> None:
        """Connect a waiter: set ``waiter.connection``; ends like ``call``.

        With ``listen`` the connection receives grants: set ``waiter.channel``. A connection may
        serve as an ``undo_connection``.
        """

    def close(self, waiter: Seat) -> None:
        """Take the waiter's connection back."""

    async def wait(self, waiter: Seat, until: float) -> None:
        """Return when the waiter was notified (``waiter.news``), or at ``until``."""

    def wake(self, waiter: Seat) -> None:
        """Make a waiting ``wait`` return soon; it may come late, never wrong."""

    async def sleep(self, until: float) -> None:
        """Return at ``until``."""

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: object = None
    ) -> None:
        """Send now, and handle the answer in the background; never blocks, never raises.

        It is sent after the request whose ``undo_connection`` is given. It is repeated until it is
        answered, for a bounded time.
        """

    def repeating(
        self, flow: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> AbstractAsyncContextManager[None]:
        """Run a flow every ``seconds`` while the block runs; it must not raise."""

    def track(self, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal schedule; have ``renew.maintain`` run by ``when``."""

    def attend_by(self, when: float) -> None:
        """Have ``renew.maintain`` run by ``when``."""

    def hear_soon(self) -> None:
        """Have messages to this client arrive soon: until then ``hears`` is False."""

    def notify_loss(self, hold: Hold) -> None:
        """Log that a lease is lost, and notify its holder: callback, cancellation.

        Called once for each lease, from any thread; never blocks, sends nothing.
        """


class SlottedPort(Port, Protocol):
    """Extra port methods for a Cluster, where keys lie in many slots, and slots on several nodes.

    A *place* is a node, as far as is known: requests for one node can share a connection.
    """

    def slot(self, key: bytes) -> int:
        """Return the slot of a key: a script may touch only one."""

    def node_of(self, key: bytes) -> object:
        """Return the node of a key, or None when that must be found out first."""

    async def run_together(
        self, calls: Sequence[Call], until: float, waiter: Seat | None = None
    ) -> list[Reply | Exception]:
        """Run scripts of one place together; return their replies, or what each would raise."""

    async def run_on_nodes(
        self, groups: Sequence[Sequence[Call]], until: float
    ) -> list[list[Reply | Exception]]:
        """Run scripts of several places, each group of one place as ``run_together`` does.

        All are written before an answer is awaited, so that a silent place holds up no other.
        """

    def spawn_for_node(self, place: object, flow: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run a flow in the background, one at a time per place; False while one runs there."""


class CountingPort(Port, Protocol):
    """A port whose grants and renewals replicas must have before they count."""

    replicas: Replicas
