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
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Call, Keys, Reply
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


class Port(Protocol):
    """The world as the flows see it."""

    mutex: AbstractContextManager[Any]  # guards shared tables; nothing may be awaited inside
    label: str  # the server, as a person calls it; no password
    client_channel: bytes  # identifies this client; revocations arrive on it
    lines: Lines  # this client's waiters
    renewals: RenewalSchedule  # when which lease is due
    waits: UnitWaits  # what the threads and tasks of this process wait for
    server_timeout: float  # seconds without any answer before a call gives up
    replicas: Replicas | None  # None where none must have a grant before it counts
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

    # --- what depends on the servers behind the port; see ``_core/engine.py`` --------------------

    async def take(self, attempt: Attempt, /) -> Hold | None:
        """Take a lock and register its hold; None when it was not granted in time."""

    async def line_up(self, asks: Attempt, give_up_at: float, /) -> Grant | None:
        """Ask for a lock and a place in its line; None when it was not granted at once."""

    async def heartbeat(self, until: float, waiter: Attempt, /) -> None:
        """Send the heartbeat of this client's waiters; learn their places in line."""

    def one_script(self, terms: Sequence[Terms], /) -> bool:
        """Return True if one script can touch all these locks, as far as is known."""

    async def maintain(self) -> None:
        """Do what the renewal schedule has due: notify holders of losses, renew the rest."""

    async def renew_due(self, kinds: Sequence[list[Hold]], /) -> None:
        """Renew leases, sorted by their kinds, in the background."""

    async def renew(self, hold: Hold, ttl: float | None, shortens: bool, /) -> None:  # noqa: FBT001 - passed on as it came
        """Renew one lease at its holder's request; with ``shortens`` it may become shorter."""

    async def renew_all(self, holds: Sequence[Hold], ttl: float | None, /) -> None:
        """Renew several leases together at their holder's request."""

    async def give_back(self, hold: Hold, log: Seat, /) -> int:
        """Release a hold; return how many an explicit owner has left."""

    def release_in_background(self, hold: Hold, undo_connection: object, /) -> None:
        """Release a hold in the background, after what its ``undo_connection`` carries, if any."""

    async def hand_back(self, holds: Sequence[Hold], until: float, /) -> Sequence[Hold]:
        """Release leases that ended with their client; return those that no server confirmed."""

    def clean_up(self, hold: Hold, /) -> None:
        """Undo what may still come of the requests of a hold that has ended."""

    async def replies(self, name: str, call: Call, /) -> list[Reply]:
        """Return the answers to a question about a name: one, or a majority's."""

    async def survey(self, found: Sequence[LockKeys], waiters: int, /) -> list[list[Any]]:
        """Return for each lock what each server shows of it, with so many waiters."""

    async def on_each(self, name: str, flow: Callable[[Port], Awaitable[Any]], /) -> Sequence[Any]:
        """Run a flow on each independent server; return what it returned."""

    async def value_of(self, keys: LockKeys, /) -> bytes | None:
        """Return the id of a lock's holder, or None, also for an idle lease that is kept."""

    async def is_idle(self, keys: LockKeys, holder: bytes, /) -> bool:
        """Return True if the client of a holder's id keeps its lease and does not use it."""

    async def local_rows(self, clients: Mapping[bytes, LockKeys], until: float, /) -> Sequence[Any]:
        """Ask the clients of these channels who waits inside them."""

    async def side_by_side(
        self, calls: Sequence[Call], until: float, /
    ) -> Sequence[Reply | Exception]:
        """Run scripts; return their replies, or what each would raise."""


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
