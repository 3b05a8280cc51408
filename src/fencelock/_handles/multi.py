"""Shared state of multi-lock handles, for threads and asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fencelock._core.lock.hold import Hold, joined
from fencelock._handles.body import Body
from fencelock._handles.handle import Holds
from fencelock._handles.multi_lease import BaseMultiLease
from fencelock.errors import AcquireTimeout, NotAcquired, NotHeld
from fencelock.options import LeaseOptions

# One script takes them all, and the server serves no other client meanwhile.
LOCKS_MAX: Final = 100


def parts_of(
    value: Any, named: Callable[[str], Holds], *, port: object, kinds: tuple[type, ...]
) -> list[Holds]:
    """Return the 1 to 100 different parts of a multi: holds of the locks ``named``, and of handles.

    ``kinds`` are the handles that can be parts; they must belong to the client of ``port``.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"names must be a list of names, not {value!r}")
    parts = [
        named(each) if isinstance(each, str) else _held_by(each, port, kinds) for each in value
    ]
    if not 1 <= len(parts) <= LOCKS_MAX:
        raise ValueError(f"names must be 1 to {LOCKS_MAX} names, not {len(parts)}")
    names = [each.keys.name for each in parts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names must be different: {', '.join(map(repr, twice))}")
    return parts


def _held_by(each: Any, port: object, kinds: tuple[type, ...]) -> Holds:
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


class MultiHolds(Holds):
    """The holds of one handle, lock by lock; of each lease the first one stands for all."""

    __slots__ = ("_on_lost", "_type", "names", "parts")

    def __init__(
        self,
        parts: Sequence[Holds],
        chosen: LeaseOptions,
        lease_type: Callable[[Sequence[Hold]], BaseMultiLease],
    ) -> None:
        self._type = lease_type
        self.names: tuple[str, ...] = tuple(each.keys.name for each in parts)
        self._on_lost = chosen.on_lost
        if callable(self._on_lost):
            chosen = chosen._replace(on_lost=self._lost)
        made = [  # a part has its own template, unless the multi has one
            each.part(chosen._replace(template=chosen.template or each.options.template))
            for each in parts
        ]
        made.sort(key=lambda each: each.keys.lock)
        super().__init__(made[0].keys, chosen, made[0].hold_type)
        self.parts: dict[str, Holds] = {each.keys.name: each for each in made}

    def join(self, holds: Sequence[Hold]) -> Hold:
        """Make holds that were granted together one lease; return the one that stands for all."""
        by_name = {hold.name: hold for hold in holds}
        lease = self._type([by_name[name] for name in self.names])
        for hold in holds:
            hold.joint = lease
        self.add(holds[0])
        if callable(self._on_lost):
            for hold in holds:
                if hold.notified:  # just before there was a lease of all
                    self._lost(hold)
        return holds[0]

    def _lost(self, hold: Hold) -> Any:
        """Report the loss of one lease as that of all, once; not for a multi that still waits."""
        lease = getattr(hold, "joint", None)
        try:
            return self._on_lost(lease) if lease is not None and lease.__untold__.pop() else None
        except IndexError:
            return None

    def forget(self, hold: Hold) -> None:
        """Take out all holds of a lease whose first one was taken out."""
        for each in joined(hold):
            self.parts[each.name].remove(each)

    def take_back(self, body: Body) -> Sequence[Hold]:
        """End an interrupted body, or acquire; return the holds to release that are left."""
        self.bodies.discard(body)
        known = [each for each in body.attempt or () if each.held]
        left = [hold for hold in known if self.parts[hold.name].keeps(hold)]
        for hold in known:
            self.remove(hold)
        return left

    @property
    def title(self) -> object:
        """Return what a message about a release calls the locks."""
        return self.names

    def about(self) -> dict[str, Any]:
        """Return what errors carry apart from their message: the server, but no one name."""
        return {"server": self.options.server}

    def not_held(self) -> NotHeld:
        """Return the error for a release without a lease."""
        text = f"not locked: release of {self.listed()} without holding them"
        return NotHeld(text, **self.about())

    def not_granted(self, attempt: Any) -> NotAcquired:
        """Return the error for a ``with`` that did not get the locks; of several attempts."""
        timeout = self.options.timeout
        text = f"{self.listed()} were not all granted within their timeout of {timeout:g} s"
        held_by = [each for part in attempt for each in part.held_by]
        return AcquireTimeout(text, **self.about_wait(held_by))

    def listed(self) -> str:
        """Return what other messages call them."""
        return ", ".join(map(repr, self.names))

    def show(self, handle: object) -> str:
        """Return a handle's repr, in the form of ``threading``'s locks."""
        hold = self.newest()
        state = "locked" if hold is not None and not hold.joint.lost else "unlocked"
        kind = type(handle).__qualname__
        return f"<{state} fencelock.{kind} object names={list(self.names)!r} at {id(handle):#x}>"

    def dropped(self) -> None:
        """Stop renewing holds that no code can release any more: they end by their ttl."""
        for part in self.parts.values():
            part.dropped()
