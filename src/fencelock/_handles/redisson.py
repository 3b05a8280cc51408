"""Shared state of handles of locks in Redisson's layout: which thread or task has entered which.

Rules of this file:

- The thread or task is the owner, through any handle of its client, as with Redisson's locks. It
  enters again without asking, and only it releases.
- The table of a client knows which handles have a hold, by name and thread or task. A handle that
  is gone while another one has its hold ends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from fencelock._core.lock.hold import Hold
from fencelock._core.objects.redisson import (
    RedissonKeys,
    RedissonTerms,
    fields_of,
)
from fencelock._handles.handle import Caller, ReentrantHolds, describe
from fencelock._runtime import process
from fencelock.options import LeaseOptions

if TYPE_CHECKING:
    from fencelock._core.engine import Engine


class EntryTable:
    """Of one client: the numbers of its acquisitions, and the handles that have each hold."""

    __slots__ = ("handles", "numbers")

    def __init__(self) -> None:
        self.numbers: count[int] = count(1)
        self.handles: dict[tuple[bytes, object], list[RedissonHolds]] = {}


def _new_client() -> str:
    return str(uuid4())


class RedissonHolds(ReentrantHolds):
    """The holds of one handle of a lock in Redisson's layout."""

    __slots__ = ("_table",)

    keys: RedissonKeys

    def __init__(
        self, keys: RedissonKeys, options: LeaseOptions, hold_type: type[Hold], table: EntryTable
    ) -> None:
        super().__init__(keys, options, hold_type)
        self._table = table

    def attempt(self, port: Engine, caller: Caller) -> Hold:
        """Return a fresh attempt by a thread or task."""
        process.number()
        terms = self._terms
        if not isinstance(terms, RedissonTerms) or terms.client_channel is not port.client_channel:
            form = {
                "client": _new_client,
                "numbers": self._table.numbers,
                "publishes": port.publishes,
            }
            terms = self._terms = self.new_terms(RedissonTerms, port, **form)
        info = describe(caller, self.options.label)
        return self.hold_type(terms, terms.field(), info, registry=self, unit=caller)

    def again(self, unit: object) -> Hold | None:
        """Return the hold that a thread or task enters once more, or None; LeaseLost if lost."""
        if self.of(unit) is None:
            for other in tuple(self._table.handles.get((self.keys.lock, unit), ())):
                if (hold := other.of(unit)) is not None:
                    self.add(hold)
                    break
        return super().again(unit)

    def add(self, hold: Hold) -> None:
        """Keep a hold, and have the client's other handles find it."""
        super().add(hold)
        self._table.handles.setdefault((self.keys.lock, hold.unit), []).append(self)

    def forget(self, hold: Hold) -> None:
        """Have the client's other handles forget a hold."""
        for other in self._table.handles.pop((self.keys.lock, hold.unit), ()):
            if other is not self:
                other.remove(hold)

    def dropped(self) -> None:
        """Stop renewing holds that no code can release any more."""
        for hold in tuple(self._now()):
            key = self.keys.lock, hold.unit
            others = [each for each in self._table.handles.get(key, ()) if each is not self]
            if others:
                self._table.handles[key] = others
                self.held.remove(hold)
            else:
                self._table.handles.pop(key, None)
        super().dropped()

    async def is_owned(self, port: Engine) -> bool:
        """Ask whether this handle holds the lock now; sends nothing when it holds nothing."""
        mine = self.holder_ids()
        return bool(mine) and not mine.isdisjoint(await fields_of(port, self.keys))

    async def is_busy(self, port: Engine) -> bool:
        """Ask whether the lock would have to be waited for now."""
        return bool(await fields_of(port, self.keys))


# What a lock of Redisson's does not have, and why.
_LACKING: Final = {
    "ttl": "write lease_time, or watchdog_timeout",
    "renew": "it is renewed unless lease_time is given",
    "cohort": "it has no line, so each grant is one turn",
    "linger": "Redisson's clients recall no lease, so none is kept",
    "wait": "it has no line, and waits for Redisson's message",
    "owner": "the thread or task owns it",
    "deadlock_after": "Redisson's clients answer no probe",
    "fair": "only RLock and RFencedLock are shared",
}


def refuse_lacking(given: Mapping[str, object], chosen: LeaseOptions) -> None:
    """Raise TypeError for an option that such a lock lacks, ValueError for such a client."""
    for name in given:
        why = _LACKING.get(name, "")
        reason = f": {why}" if why else ""
        raise TypeError(f"a lock in Redisson's layout has no option {name!r}{reason}")
    for what, has in {"a quorum": chosen.quorum, "replicas": chosen.acknowledged}.items():
        if has:
            text = f"a lock in Redisson's layout needs a client without {what}"
            raise ValueError(f"{text}: Redisson's clients would not ask as many servers")
