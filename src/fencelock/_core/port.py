"""Everything a flow may ask of the world. Nothing else in ``_core`` can block.

Three ports implement this: the blocking one (its coroutines block and never suspend), the asyncio
one, and the simulated one of the tests (every method suspends into a scheduler that the test owns).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from fencelock.scripts import Script

if TYPE_CHECKING:
    from fencelock._core.book import RenewalBook
    from fencelock._core.hold import Hold
    from fencelock._core.waiters import Lines, Waiter
    from fencelock._core.want import Request

Keys = Sequence[bytes]
Args = Sequence[bytes | int]
# What a server answers: integers, bytes, None, and lists of these. Scripts document their own.
Reply = Any


class Broken(Exception):
    """No answer came. ``sent`` tells whether the request may have reached the server.

    ``trail`` names the connection it went on, where an undo sent behind it cannot overtake it.
    The client's or the system's own exception is the ``__cause__``.
    """

    def __init__(self, message: str, *, sent: bool, trail: object = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.trail = trail


class Replicas(Protocol):
    """Where replicas must have a grant or a renewal before it counts."""

    @property
    def wanted(self) -> int:
        """Return how many must have it."""

    @property
    def timeout(self) -> float:
        """Return within how many seconds."""

    async def acknowledge(self, waiter: Waiter, until: float) -> int:
        """Return how many replicas have all that the server did for this waiter so far.

        Returns when as many as wanted have it, or at ``until`` with those that are known. Only for
        a waiter with a seat: that connection's server is meant, and no other. Raises ``Broken``
        when that connection is gone, and a ``ServerError`` like ``Port.call``.
        """


class Port(Protocol):
    """The world as the flows see it."""

    label: str  # the server, as a person calls it; no password
    home: bytes  # this client's channel: names it to the server, hears revocations
    lines: Lines  # who of this client waits for what
    book: RenewalBook  # which leases want attention when
    patience: float  # seconds without any answer before a call gives up
    replicas: Replicas | None  # who must have a grant or renewal before it counts

    @property
    def apart(self) -> Apart | None:
        """Return what is different where keys lie on several servers; None on one server."""

    @property
    def nodes(self) -> Sequence[Port]:
        """Return the ports of a quorum's nodes, nearly always none; see fan.py."""

    def now(self) -> float:
        """Return the monotonic instant, in seconds."""

    def new_id(self) -> bytes:
        """Return an unguessable id without spaces."""

    def jitter(self) -> float:
        """Return a random number in [0, 1)."""

    def mutex(self) -> AbstractContextManager[Any]:
        """Guard shared tables; nothing may be awaited inside."""

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a script and return its reply; all its keys are in one slot.

        With a waiter, on the connection that the waiter listens on. Raises ``Broken`` when no
        answer came by ``until``, and a ``ServerError`` when the answer is an error.
        """

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a packed script call that touches this key; ends like ``call``."""

    async def command(
        self, args: Sequence[bytes | int], key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a plain command where this key is; ends like ``call``."""

    def seat(self, waiter: Waiter, *, listen: bool) -> bool:
        """Do what ``open`` does if that needs no answer; return True if that was all."""

    async def open(self, waiter: Waiter, until: float, *, listen: bool = True) -> None:
        """Seat a waiter on a connection of its own, set ``waiter.seat``; ends like ``call``.

        With ``listen`` on one that hears grants: set ``waiter.channel``. A seat may be a trail.
        """

    def close(self, waiter: Waiter) -> None:
        """Take the waiter's seat back."""

    async def wait(self, waiter: Waiter, until: float) -> None:
        """Return when the waiter was told something (``waiter.news``), or at ``until``."""

    def wake(self, waiter: Waiter) -> None:
        """Make a waiting ``wait`` return soon; it may come late, never wrong."""

    async def sleep(self, until: float) -> None:
        """Return at ``until``."""

    def post(self, script: Script, keys: Keys, args: Args, trail: object = None) -> None:
        """Send now and see to the answer in the background; never blocks, never raises.

        Goes behind the request whose ``trail`` is given. It is repeated until it was answered, for
        a bounded time.
        """

    def repeating(
        self, flow: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> AbstractAsyncContextManager[None]:
        """Run a flow every so many seconds beside the block; it must not raise."""

    def keep(self, hold: Hold, when: float) -> None:
        """Put a new hold into the book, and see that ``renew.attend`` runs by ``when``."""

    def tell(self, hold: Hold) -> None:
        """Log that a lease is lost, and notify its holder: callback, cancellation.

        Called once for each lease, from any thread; never blocks, sends nothing.
        """


class Apart(Protocol):
    """What flows need beside where keys lie in many slots, and slots on several nodes.

    A *place* is a node, as far as is known: what lies there can share one connection.
    """

    def slot(self, key: bytes) -> int:
        """Return the slot of a key: a script may touch only one."""

    def place(self, key: bytes) -> object:
        """Return where a key is, or None when that must be found out first."""

    async def parts(self, until: float) -> Sequence[bytes]:
        """Return one key for each place: commands with these keys reach everything there is."""

    async def fan(
        self, requests: Sequence[Request], until: float, waiter: Waiter | None = None
    ) -> list[Reply | Exception]:
        """Run scripts of one place together; return their replies, or what each would raise."""

    async def fan_out(
        self, groups: Sequence[Sequence[Request]], until: float
    ) -> list[list[Reply | Exception]]:
        """Run scripts of several places, each group of one place as ``fan`` does.

        All are written before an answer is awaited, so that a silent place holds up no other.
        """

    def aside(self, place: object, flow: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run a flow beside, one at a time for each place; False while one runs there."""
