"""Everything a flow may ask of the world. Nothing else in ``_core`` can block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from fencelock._core.wire import Wire
from fencelock._runtime.typed import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fencelock._core.deadlock.unit_waits import UnitWaits
    from fencelock._core.keys import LockKeys
    from fencelock._core.lock.attempt import Attempt
    from fencelock._core.lock.hold import Hold
    from fencelock._core.lock.renewal_schedule import RenewalBatch, RenewalSchedule
    from fencelock._core.lock.waiting import Lines
    from fencelock._core.seat import Seat
    from fencelock._core.types import Call, Reply

# Returns the earliest end of the leases that wait meanwhile, at least if it is before an instant.
FirstEnd = Callable[[float], float]


class Port(Wire, Protocol):
    """One client: its wire, its tables, and what it does with its locks; see ``engine.py``."""

    lines: Lines  # what of this client holds or wants a lock
    renewals: RenewalSchedule  # when which lease is due
    waits: UnitWaits  # what the threads and tasks of this process wait for

    def notify_loss(self, hold: Hold) -> None:
        """Log that a lease is lost, and notify its holder: callback, cancellation.

        Called once for each lease, from any thread; never blocks, sends nothing.
        """

    async def renew(self, holds: Sequence[Hold], ttl: float | None, /) -> None:
        """Renew leases together for their holder; none ends earlier."""

    def move(self, hold: Hold, when: float) -> None:
        """Schedule a tracked hold for ``when``."""

    def track(self, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal schedule, and attend to it."""

    def attend(self, hold: Hold, when: float) -> None:
        """Have ``maintain`` run by ``when``; give back all if the client was closed meanwhile."""

    async def ask_for(self, attempt: Attempt, at: float, until: float, /, *, listen: bool) -> Reply:
        """Connect an attempt as ``open`` does, and send its question; ends like ``call``.

        ``at`` was read just before: the lease counts from there unless a connection is opened.
        Takes the connection back at a grant, and from one that does not ``listen``; not where
        replicas must have the grant first.
        """

    # --- what depends on the servers behind the port; see ``_core/engine.py`` --------------------

    async def take(self, attempt: Hold, /) -> Hold | None:
        """Take a lock and register its hold; None when it was not granted in time."""

    async def maintain(self) -> None:
        """Do what the renewal schedule has due: notify holders of losses, renew the rest."""

    def at_home(self, work: Callable[[], None], /) -> None:
        """Do work where its flows run, from any thread: at once, or in its loop."""

    def align(self, hold: Hold, when: float, lease: float, /) -> float:
        """Return an instant not after ``when`` at which leases are renewed with one command."""

    async def renew_at(self, node: object, batches: Sequence[RenewalBatch], /) -> bool:
        """Renew leases of one node; where there are others, in the background.

        There they wait while others are renewed; False when nothing can run in the background.
        """

    async def give_back(
        self, hold: Hold, log: Seat, reply: Reply = None, until: float = 0.0, /
    ) -> int:
        """Release a hold; return how many an explicit owner has left.

        ``reply`` is what was answered, or the error, if the request was sent.
        """

    def release_later(self, hold: Hold, undo_connection: object, /) -> None:
        """Release a hold in the background, after what its ``undo_connection`` carries, if any."""

    async def hand_back(self, holds: Sequence[Hold], until: float, /) -> Sequence[Hold]:
        """Release leases that ended with their client; return those that no server confirmed."""

    def clean_up(self, hold: Hold, /) -> None:
        """Undo what may still come of the requests of a hold that has ended."""

    async def replies(self, name: str, calls: Sequence[Call], /) -> list[list[Reply]]:
        """Return the answers to questions about a name: to each one, or a majority's."""

    async def on_each(self, name: str, flow: Callable[[Port], Awaitable[Any]], /) -> Sequence[Any]:
        """Run a flow on each independent server; return what it returned."""

    async def value_of(self, keys: LockKeys, /) -> bytes | None:
        """Return the id of a lock's holder, or None, also for an idle lease that is kept."""

    async def side_by_side(
        self, calls: Sequence[Call], until: float, /
    ) -> Sequence[Reply | Exception]:
        """Run scripts, all nodes in parallel; return their replies, or what each would raise."""
