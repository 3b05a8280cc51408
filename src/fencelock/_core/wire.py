"""What a flow asks of the servers, of the clock and of this process: bytes, sleeping, waking.

Three wires implement this: the blocking one (its coroutines block and never suspend), the asyncio
one, and the simulated one of the tests (every method suspends into a scheduler that the test owns).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager

from fencelock._core.round_trips import RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Call, Carrier, Keys, PackedCall, Reply
from fencelock._runtime.typed import Any, Protocol, TypeVar
from fencelock.scripts import Script

T = TypeVar("T")


class Replicas(Protocol):
    """The replicas that must have a grant or a renewal before it counts."""

    wanted: int  # so many must have it
    timeout: float  # within so many seconds

    async def acknowledge(self, waiter: Seat, until: float) -> int:
        """Return how many replicas have all that the server did for this waiter so far.

        Returns when as many as wanted have it, or at ``until`` with the number that is known. Only
        for a waiter with a connection: its server is meant, and no other. Raises ``NoReply`` when
        that connection is gone, and a ``ServerError`` like ``Wire.call``.
        """


class Wire(Protocol):
    """The servers behind a client, and this process: what they do for it."""

    mutex: AbstractContextManager[bool | None]  # guards the tables; nothing is awaited inside
    label: str  # the server, as a person calls it; no password
    client_channel: bytes  # identifies this client; revocations arrive on it
    server_timeout: float  # seconds without any answer before a call gives up
    replicas: Replicas | None  # None where none must have a grant before it counts
    publishes: bytes  # the command for a channel of another program's: PUBLISH, or SPUBLISH
    pipeline_max: int  # how many scripts for one node are written before an answer is awaited
    needed: int  # how many answers decide: one, or a majority of a quorum's nodes

    @property
    def trips(self) -> RoundTrips:
        """Return the round trips that bound its calls."""

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

    def by_slot(self, each: Sequence[T], key: Callable[[T], bytes], /) -> Mapping[int, Sequence[T]]:
        """Group what has these keys by the slots of the keys: a script may touch only one slot."""

    def node_of(self, key: bytes) -> Hashable | None:
        """Return the node of a key: one can be asked at once for all keys there.

        None when that must be found out first.
        """

    async def run_packed(
        self, requests: Sequence[PackedCall], until: float, waiter: Seat | None = None
    ) -> Sequence[Reply | Exception]:
        """Run packed script calls of one node; return replies, or what each would raise."""

    async def side_by_side(
        self, calls: Sequence[Call], until: float, /
    ) -> Sequence[Reply | Exception]:
        """Run scripts; return their replies, or what each would raise.

        All are written before an answer is awaited, so that a silent node holds up no other.
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

    async def open(self, waiter: Seat, until: float, *, listen: bool = True) -> None:
        """Connect a waiter: set ``waiter.connection``; ends like ``call``.

        With ``listen`` the connection receives grants: set ``waiter.channel``; one that is not
        ``eager`` may be left without. A connection may serve as an ``undo_connection``.
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
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Send now, and handle the answer in the background; never blocks, never raises.

        It is sent after the request whose ``undo_connection`` is given. It is repeated until it is
        answered, for a bounded time.
        """

    def repeating(
        self, flow: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> AbstractAsyncContextManager[None]:
        """Run a flow every ``seconds`` while the block runs; it must not raise."""

    def attend_by(self, when: float) -> None:
        """Have ``maintain`` run by ``when``."""

    def hear_soon(self) -> None:
        """Have messages to this client arrive soon: until then ``hears`` is False."""
