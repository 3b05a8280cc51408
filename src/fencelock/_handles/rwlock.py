"""Shared state of reader/writer lock handles: which thread or task holds which side.

Rules of this file:

- The thread or task is the owner: it re-enters a side without asking, and only it releases.
- A thread that reads must never wait to write: it would wait for itself. It gets an error.
- A thread that holds either side must never wait to read: a writer may be queued in between. It is
  granted at once, next to the hold that it has, through any handle of its client.
- The table of a client knows the holds of all its handles, by name and thread or task. An entry is
  changed only by its own thread or task, and by the end of a handle, which may happen anywhere.
"""

from __future__ import annotations

from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.semaphore_rwlock import (
    ALL,
    RWLOCK,
    WRITE,
    ShareTerms,
    held_of,
    lost_nested,
    state,
)
from fencelock._handles.handle import Caller, Holds
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import NotAcquired
from fencelock.options import LeaseOptions

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

WRITES_ALREADY = "this thread or task already holds the write side; see reentrant=True"


class SideTable:
    """The sides that the threads or tasks of a client hold, by name."""

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds: dict[tuple[bytes, object], list[Hold]] = {}

    def add(self, hold: Hold) -> None:
        """Note a hold."""
        self._holds.setdefault((hold.terms.keys.lock, hold.unit), []).append(hold)

    def remove(self, hold: Hold) -> None:
        """Forget a hold; harmless when it is not known."""
        key = (hold.terms.keys.lock, hold.unit)
        left = [each for each in self._holds.get(key, ()) if each is not hold]
        if left:
            self._holds[key] = left
        else:
            self._holds.pop(key, None)

    def of(self, keys: LockKeys, unit: object) -> list[Hold]:
        """Return the holds of a thread or task that are not lost, write sides first."""
        holds = self._holds.get((keys.lock, unit), ())
        lasting = [hold for hold in holds if hold.open and not hold.lost]
        return sorted(lasting, key=lambda hold: not writes(hold))


def writes(hold: Hold) -> bool:
    """Return True if a hold is of the write side."""
    terms: ShareTerms = hold.terms  # type: ignore[assignment]  # ``SideHolds.attempt`` made it
    return terms.permits == WRITE


class SideHolds(Holds):
    """The holds of one side of one handle."""

    __slots__ = ("_reentrant", "_side", "_sides")

    counts = True

    def __init__(
        self,
        keys: LockKeys,
        options: LeaseOptions,
        hold_type: type[Hold],
        sides: SideTable,
        side: int,
        *,
        reentrant: bool,
    ) -> None:
        super().__init__(keys, options, hold_type)
        self._sides = sides
        self._side = side
        self._reentrant = reentrant

    def again(self, unit: object) -> Hold | None:
        """Return the hold that a thread or task enters once more, or None.

        Raises LeaseLost when it is lost, and NotAcquired where it may not enter again.
        """
        hold = self.of(unit)
        if hold is None:
            return None
        hold.check()
        if not self._reentrant:
            raise self._refused(WRITES_ALREADY)
        return hold

    def nested_under(self, unit: object) -> Hold | None:
        """Return the hold of this thread or task that lets this side be granted at once.

        Raises NotAcquired when it would wait for itself.
        """
        own = self._sides.of(self.keys, unit)
        if not own:
            return None
        if self._side == WRITE and not writes(own[0]):
            raise self._refused(
                "this thread or task holds the read side, and would wait for itself: release"
                " that first"
            )
        if self._side == WRITE and not self._reentrant:
            raise self._refused(WRITES_ALREADY)
        return own[0]

    def part(self, options: LeaseOptions) -> SideHolds:
        """Return the same side for a multi, registered with the client like all sides."""
        made = (self.keys, options, self.hold_type, self._sides, self._side)
        return SideHolds(*made, reentrant=False)

    def _refused(self, why: str) -> NotAcquired:
        return NotAcquired(f"{self.keys.name!r}: {why}", **self.about())

    def attempt(self, port: Engine, caller: Caller) -> Hold:
        """Return a fresh attempt at this side; NotAcquired when it would wait for itself."""
        nested_under = self.nested_under(caller)
        terms = self._terms
        if (
            terms is None
            or terms.client_channel is not port.client_channel
            or self.options.instant is not None
        ):
            form = {"kind": RWLOCK, "limit": ALL, "permits": self._side}
            terms = self._terms = self.new_terms(ShareTerms, port, **form)
        attempt = self.attempt_on(terms, port, caller)
        attempt.nested_in = nested_under
        return attempt

    def answered(self, port: Engine, attempt: Hold, hold: Hold | None) -> None:
        """Note that only the thread or task that acquired can release this side.

        Raises LeaseLost when it was not granted, as the side that it holds was lost meanwhile.
        """
        if hold is not None:
            hold.bound = True
        elif attempt.nested_in is not None:
            raise lost_nested(port, attempt.nested_in)

    async def is_owned(self, port: Engine) -> bool:
        """Ask whether this handle holds this side now; sends nothing when it holds nothing."""
        mine = tuple(self.holder_ids())
        return bool(mine) and await held_of(port, self.keys, mine) > 0

    async def is_busy(self, port: Engine) -> bool:
        """Ask whether a thread or task that asks for this side now has to wait."""
        now = await state(port, self.keys, RWLOCK, ALL)
        if now.waiting:
            return True
        return now.taken > 0 if self._side == WRITE else now.taken >= ALL

    def add(self, hold: Hold) -> None:
        """Keep a hold, and register it for the client's other handles."""
        super().add(hold)
        self._sides.add(hold)

    def forget(self, hold: Hold) -> None:
        """Have the client's other handles forget a hold."""
        self._sides.remove(hold)

    def dropped(self) -> None:
        """Stop renewing holds that no code can release any more."""
        for hold in self._now():
            self._sides.remove(hold)
        super().dropped()
