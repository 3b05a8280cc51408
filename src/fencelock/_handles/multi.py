"""Shared state of multi-lock handles, for threads and asyncio."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fencelock import options
from fencelock._core.engine import holder_of
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.multi import release_all
from fencelock._core.objects.semaphore_rwlock import held_of
from fencelock._core.port import Port
from fencelock._handles.body import Bodies, Body, unsure
from fencelock._handles.lock import Caller, Holds
from fencelock._handles.multi_lease import BaseMultiLease
from fencelock._handles.rwlock import SideHolds
from fencelock._handles.semaphore import SemaphoreHolds
from fencelock.errors import AcquireTimeout, NotAcquired, NotHeld
from fencelock.options import LeaseOptions

# One script takes them all, and the server serves no other client meanwhile.
NAMES_MAX: Final = 100
LEFT_MAX: Final = 64


def parts_of(
    prefix: str, value: Any, *, port: object, kinds: tuple[type, ...]
) -> list[LockKeys | Holds]:
    """Return the 1 to 100 different parts of a multi: keys of locks, holds of handles.

    ``kinds`` are the handles that can be parts; they must belong to the client of ``port``.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"names must be a list of names, not {value!r}")
    parts = [_part_of(prefix, each, port, kinds) for each in value]
    if not 1 <= len(parts) <= NAMES_MAX:
        raise ValueError(f"names must be 1 to {NAMES_MAX} names, not {len(parts)}")
    names = [_keys_of(each).name for each in parts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names must be different: {', '.join(map(repr, twice))}")
    return parts


def _part_of(prefix: str, each: Any, port: object, kinds: tuple[type, ...]) -> LockKeys | Holds:
    if isinstance(each, str):
        return LockKeys(prefix, options.lock_name(each))
    if not isinstance(each, kinds):
        known = ", ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"name must be str, or a handle of this client ({known}), not {each!r}")
    handle: Any = each
    theirs, holds = handle.__shared__()
    if theirs != port:
        raise ValueError(
            f"all locks of a multi must belong to one client: {each!r} belongs to another"
        )
    return holds  # type: ignore[no-any-return]  # of one of these kinds


def _keys_of(part: LockKeys | Holds) -> LockKeys:
    return part.keys if isinstance(part, Holds) else part


async def is_busy(port: Port, part: Holds) -> bool:
    """Ask whether a part would have to be waited for now."""
    if isinstance(part, (SideHolds, SemaphoreHolds)):
        return await part.busy(port)
    return await holder_of(port, part.keys) is not None


async def is_owned(port: Port, part: Holds) -> bool:
    """Ask whether the handle holds a part now; sends nothing when it holds nothing."""
    mine = tuple(part.holder_ids())
    if not mine:
        return False
    if isinstance(part, (SideHolds, SemaphoreHolds)):
        return await held_of(port, part.keys, mine) > 0
    return await holder_of(port, part.keys) in mine


class MultiHold:
    """The holds of one acquisition, in the order of their keys, and the lease of them all."""

    __slots__ = ("holds", "lease", "unit", "untold")

    def __init__(self, holds: Sequence[Hold], lease: BaseMultiLease, unit: object) -> None:
        self.holds: Sequence[Hold] = holds
        self.lease: BaseMultiLease = lease
        self.unit: object = unit
        self.untold: list[bool] = [True]  # the first thread that reports the loss pops it


class MultiHolds:
    """The groups of one handle, newest last, and the holds of each lock."""

    def __init__(
        self,
        parts: Sequence[LockKeys | Holds],
        chosen: LeaseOptions,
        hold_types: tuple[type[Hold], type[BaseMultiLease]],
    ) -> None:
        hold_type, self._type = hold_types
        self.names: tuple[str, ...] = tuple(_keys_of(each).name for each in parts)
        self._on_lost = chosen.on_lost
        if callable(self._on_lost):
            chosen = chosen._replace(on_lost=self._lost)
        self.options = chosen
        made = [  # a part has its own template, unless the multi has one
            each.part(chosen._replace(template=chosen.template or each.options.template))
            if isinstance(each, Holds)
            else Holds(each, chosen, hold_type)
            for each in parts
        ]
        self.parts: list[Holds] = sorted(made, key=lambda each: each.keys.lock)
        self._groups: list[MultiHold] = []
        self.bodies: Bodies = Bodies()
        # Being released, or released with a loss that may not have been reported yet.
        self._left: deque[MultiHold] = deque(maxlen=LEFT_MAX)

    def attempts(self, port: Port, caller: Caller) -> list[Attempt]:
        """Return fresh attempts by a thread or task, in the order of the keys."""
        return [part.attempt(port, caller) for part in self.parts]

    def group(self, holds: Sequence[Hold], unit: object) -> MultiHold:
        """Keep the holds that were granted together."""
        by_name = {hold.name: hold for hold in holds}
        made = MultiHold(holds, self._type([by_name[name] for name in self.names]), unit)
        self._groups.append(made)
        for hold in holds:
            if hold.notified:  # just before there was a group to report
                self._lost(hold)
        return made

    def _lost(self, lease: Hold) -> Any:
        """Report the loss of one lease as that of all, once; not for a multi that still waits."""
        for group in (*self._groups, *self._left):
            if any(hold is lease for hold in group.holds):
                try:
                    group.untold.pop()
                except IndexError:
                    return None
                return self._on_lost(group.lease)
        return None

    def _now(self) -> list[MultiHold]:
        """Return the groups of this process: after a fork there are none."""
        return [each for each in tuple(self._groups) if not each.holds[0].forked]

    def of(self, unit: object) -> MultiHold | None:
        """Return the newest group of a thread or task of this process."""
        return next((each for each in reversed(self._now()) if each.unit == unit), None)

    def newest(self) -> MultiHold | None:
        """Return the newest group of any thread or task."""
        groups = self._now()
        return groups[-1] if groups else None

    def of_body(self, body: Body) -> MultiHold | None:
        """Return the group that the end of a body means, or None; as ``Holds.of_body``."""
        groups = self._now()
        if body.held in groups:
            return body.held  # type: ignore[no-any-return]  # it is in a list of groups
        for group in reversed(groups):
            if group.unit == body.unit and not self.bodies.hold(body, group):
                return group
        return None

    def take(self, unit: object, taken: list[Hold], body: Body | None = None) -> None:
        """Take out the group that a release by ``unit`` means; NotHeld when there is none.

        With the body that ends, no other body's and no other thread's or task's is taken. The holds
        are put into ``taken`` first: after an interrupt, the caller releases what is there.
        """
        while True:
            group = self.of_body(body) if body else self.of(unit) or self.newest()
            if group is None:
                if body is not None:
                    self.bodies.discard(body)
                text = ", ".join(map(repr, self.names))
                raise NotHeld(
                    f"not locked: release of {text} without holding them",
                    server=self.options.server,
                )
            taken[:] = group.holds
            self._left.append(group)
            if self._remove(group):
                if body is not None:
                    self.bodies.discard(body)
                return
            taken.clear()  # another thread was faster
            self._left.remove(group)

    async def release(self, port: Port, unit: object, body: Body | None = None) -> None:
        """Release the group that a release by ``unit`` means; ends as ``release_all``."""
        taken: list[Hold] = []

        def take(holds: list[Hold]) -> None:
            self.take(unit, holds, body)
            taken[:] = holds

        await release_all(port, take)
        for group in [each for each in tuple(self._left) if each.holds == taken]:
            self._left.remove(group)

    def _remove(self, group: MultiHold) -> bool:
        try:
            self._groups.remove(group)
        except ValueError:
            return False
        for part, hold in zip(self.parts, group.holds, strict=True):
            part.remove(hold)
        return True

    def not_granted(self) -> NotAcquired:
        """Return the error for a ``with`` that did not get the locks."""
        names, timeout = ", ".join(map(repr, self.names)), self.options.timeout
        text = f"{names} were not all granted within their timeout of {timeout:g} s"
        return AcquireTimeout(text, server=self.options.server)

    def take_back(self, body: Body) -> list[Hold]:
        """End an interrupted body, or acquire; return the holds to release that are left."""
        self.bodies.discard(body)
        known = [attempt.hold for attempt in body.attempt or ()]
        found: list[Hold] = []
        for group in self._now():
            if group.holds[0] in known and self._remove(group):
                found += group.holds
        for part in self.parts:
            found += [hold for hold in part.all() if hold in known and part.remove(hold)]
        return found

    def unsure(self) -> NotHeld:
        """Return the error for the end of a body that may be any of several."""
        return unsure(", ".join(map(repr, self.names)), server=self.options.server)

    def show(self, handle: object) -> str:
        """Return a handle's repr, in the form of ``threading``'s locks."""
        group = self.newest()
        state = "locked" if group is not None and not group.lease.lost else "unlocked"
        kind = type(handle).__qualname__
        return f"<{state} fencelock.{kind} object names={list(self.names)!r} at {id(handle):#x}>"

    def dropped(self) -> None:
        """Stop renewing holds that no code can release any more: they end by their ttl."""
        for part in self.parts:
            part.dropped()
