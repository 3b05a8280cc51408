"""Shared state of semaphore handles, for threads and asyncio: their permits, by lease.

Rules of this file:

- Each acquisition is a lease of its own, of one permit or several; ``Hold.count`` is how many of
  them are not released yet.
- A release takes from the leases of the calling thread or task, the newest first, and then from
  those of others: any thread may release, as in ``threading``. It takes all that it was asked for,
  or raises and takes nothing.
- The caller of ``take_permits`` holds the port's mutex.
"""

from __future__ import annotations

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.semaphore_rwlock import (
    SEMAPHORE,
    PermitCount,
    ShareTerms,
    held_of,
    state,
)
from fencelock._handles.body import Body
from fencelock._handles.handle import Caller, Holds
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import NotHeld, OverReleased, ServerUnsuitable
from fencelock.options import LeaseOptions

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# Packed requests that are kept, by their number of permits: most programs use one or two.
FORMS_MAX = 16


class SemaphoreHolds(Holds):
    """The permits of one semaphore handle."""

    __slots__ = ("_declared", "_forms", "bounded", "limit")

    def __init__(
        self,
        keys: LockKeys,
        chosen: LeaseOptions,
        hold_type: type[Hold],
        limit: object,
        *,
        bounded: bool,
    ) -> None:
        super().__init__(keys, chosen, hold_type)
        self.limit: int = options.count("limit", limit)
        self._declared = self.limit
        self.bounded: bool = bounded
        self._forms: dict[int, ShareTerms] = {}

    def terms(self, port: Engine, permits: int = 1) -> ShareTerms:
        """Return the terms of this number of permits."""
        terms = self._forms.get(permits)
        if (
            terms is None
            or terms.client_channel is not port.client_channel
            or self.options.instant is not None
        ):
            if len(self._forms) == FORMS_MAX:
                self._forms = {}
            form = {"kind": SEMAPHORE, "limit": self._declared, "permits": permits}
            terms = self._forms[permits] = self.new_terms(ShareTerms, port, **form)
        return terms

    def attempt(self, port: Engine, caller: Caller, permits: int = 1) -> Hold:
        """Return a fresh attempt at permits by a thread or task."""
        return self.attempt_on(self.terms(port, options.count("permits", permits)), port, caller)

    def part(self, options: LeaseOptions) -> SemaphoreHolds:
        """Return permits of the same semaphore for a multi."""
        made = SemaphoreHolds(
            self.keys, options, self.hold_type, self._declared, bounded=self.bounded
        )
        made.limit = self.limit
        return made

    def refuse_too_many(self, permits: int, refused: ServerUnsuitable) -> None:
        """Raise ValueError when a refusal means more permits than this handle ever named.

        The server decides: another handle may have raised the limit.
        """
        if refused.code == "OVERLIMIT" and permits > self.limit:
            raise ValueError(
                f"permits must be at most the limit in force, not {permits}: {refused}"
            ) from refused

    async def state(self, port: Engine) -> PermitCount:
        """Return the semaphore's state on the server, for the limit that this handle names."""
        return await state(port, self.keys, SEMAPHORE, self._declared)

    async def is_owned(self, port: Engine) -> bool:
        """Ask whether this handle holds a permit now; sends nothing when it holds nothing."""
        mine = tuple(self.holder_ids())
        return bool(mine) and await held_of(port, self.keys, mine) > 0

    async def is_busy(self, port: Engine) -> bool:
        """Ask whether a permit would have to be waited for now."""
        now = await self.state(port)
        return now.waiting > 0 or now.taken >= now.limit

    def add(self, hold: Hold) -> None:
        """Keep a hold, and how many permits it has."""
        terms: ShareTerms = hold.terms  # type: ignore[assignment]  # ``attempt`` made it
        hold.count = terms.permits
        super().add(hold)

    def changed_limit(self, limit: int, agreed: int) -> None:
        """Note the changed limit. The handle still names its old one if all others name that."""
        self.limit = limit
        if self._declared != agreed:
            self._declared = limit
            self._forms = {}

    def take_permits(self, unit: object, count: int, taken: list[tuple[Hold, int]]) -> None:
        """Take permits out; note their holds, each with the number that it keeps.

        They are noted first, for the same reason as in ``take_out``.
        """
        options.count("n", count)
        holds = [hold for hold in reversed(self._now()) if hold.count > 0]
        held = sum(hold.count for hold in holds)
        if held < count:
            error = OverReleased if self.bounded else NotHeld
            asked = f"{count} permit(s) of {self.keys.name!r}"
            text = f"released too many times: {asked}, of {held} held here"
            raise error(text, **self.about())
        parts: list[tuple[Hold, int]] = []
        for hold in sorted(holds, key=lambda each: each.unit != unit):
            if count > 0:
                parts.append((hold, max(0, hold.count - count)))
                count -= hold.count
        self._take(parts, taken)

    def _take(self, parts: list[tuple[Hold, int]], taken: list[tuple[Hold, int]]) -> None:
        try:
            taken += parts
            self._leave(parts)
        except BaseException:  # a signal handler raised: the flow releases what is noted now
            self._leave(taken)
            raise

    def _leave(self, parts: list[tuple[Hold, int]]) -> None:
        """Reduce holds to the permits that they keep; done twice, it changes nothing."""
        for hold, keep in parts:
            hold.count = keep
            if keep == 0:
                self.remove(hold)

    def take_permits_of_body(self, body: Body, taken: list[tuple[Hold, int]]) -> None:
        """Take out what a body still holds, or the permit that was acquired instead; NotHeld."""
        hold = self.of_body(body)
        self._take([(hold, 0 if hold is body.held else hold.count - 1)], taken)
        self.bodies.discard(body)

    def take_rest(self, body: Body, taken: list[tuple[Hold, int]]) -> None:
        """Take out the unreleased permits of a body, and the body; NotHeld when none is left."""
        if not self.keeps(body.held):
            self.bodies.discard(body)
            raise self.not_held()
        self._take([(body.held, 0)], taken)
        self.bodies.discard(body)

    def show(self, handle: object) -> str:
        """Return a handle's repr."""
        held = sum(hold.count for hold in self._now() if not hold.lost)
        kind, name = type(handle).__qualname__, self.keys.name
        return (
            f"<fencelock.{kind} object name={name!r} limit={self.limit} held={held}"
            f" at {id(handle):#x}>"
        )
