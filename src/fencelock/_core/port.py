"""Everything a flow may ask of the world. Nothing else in ``_core`` can block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from fencelock._core.deadlock.unit_waits import Tables
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply


class Port(Tables, Protocol):
    """One client: its wire, its tables, and what it does with its locks; see ``engine.py``."""

    def track(self, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal schedule; have ``renew.maintain`` run by ``when``."""

    def notify_loss(self, hold: Hold) -> None:
        """Log that a lease is lost, and notify its holder: callback, cancellation.

        Called once for each lease, from any thread; never blocks, sends nothing.
        """

    # --- what depends on the servers behind the port; see ``_core/engine.py`` --------------------

    async def take(self, attempt: Attempt, /) -> Hold | None:
        """Take a lock and register its hold; None when it was not granted in time."""

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
