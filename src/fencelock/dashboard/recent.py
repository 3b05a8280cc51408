"""What the looks of the last minutes saw of each lock: which client held it when, how many waited.

A tenure that began and ended between two of them is missing. Where no look was, the history has the
long waits, and for whom they were, if clients keep one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fencelock.dashboard.rows import person

if TYPE_CHECKING:
    from fencelock.status import HistoryEntry, HolderStatus, LockStatus

KEPT_SECONDS: Final = 600.0
# Bounds of memory: of one lock, and of all. Locks that are looked at least are dropped first.
TENURES_MAX: Final = 120
SAMPLES_MAX: Final = 600
LOCKS_MAX: Final = 5_000
# How long holders keep others waiting is added up by the minute, for an hour.
MINUTES_KEPT: Final = 60
HOLDERS_MAX: Final = 1_000  # of a minute
COSTS_SHOWN: Final = 100
NAMES_MAX: Final = 20  # of one holder
# A longer time between two looks, in which no browser asked or the server did not answer, was not
# seen: it is ascribed to no holder, and drawn as unknown.
GAP_MAX: Final = 10.0
GAPS_MAX: Final = 100

Key = tuple[str, int, str, int]
Sample = tuple[float, int]  # from when on so many wait
Holder = tuple[str, int, str]  # a process and its label


class _Past:
    """The recent past of one lock."""

    def __init__(self) -> None:
        self.tenures: deque[dict[str, Any]] = deque(maxlen=TENURES_MAX)
        self.open: dict[Key, dict[str, Any]] = {}
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self.seen = 0.0
        self.ttl = 0.0

    def look(self, lock: LockStatus, now: float, seen: float) -> None:
        """Note the state ``now``; ``seen``: until when what is over now was certain to last."""
        self.seen = now
        holders = {(each.host, each.pid, each.unit, each.fence): each for each in lock.holders}
        for key in self.open.keys() - holders.keys():
            self.open.pop(key)["until"] = round(seen, 3)
        for key in holders.keys() - self.open.keys():
            self.ttl = 0.0  # the length of a lease is the tenure's own
            who = holders[key]
            tenure = person(who) | {"fence": who.fence, "since": who.since, "until": None}
            self.tenures.append(tenure)
            self.open[key] = tenure
        self.ttl = max(self.ttl, lock.remaining or 0.0)
        if not self.samples or self.samples[-1][1] != lock.waiting_units:
            self.samples.append((round(now, 3), lock.waiting_units))

    def gone(self, now: float, seen: float) -> None:
        """Note that the lock is no longer held or waited for."""
        for tenure in self.open.values():
            tenure["until"] = round(seen, 3)
        self.open.clear()
        if self.samples and self.samples[-1][1]:
            self.samples.append((round(now, 3), 0))


class Recent:
    """The recent past of all locks, within bounds."""

    def __init__(self) -> None:
        self._pasts: dict[str, _Past] = {}
        self._minutes: dict[int, dict[Holder, dict[str, Any]]] = {}
        self._looked = 0.0
        self._unseen: deque[tuple[float, float]] = deque(maxlen=GAPS_MAX)

    def look(self, locks: Sequence[LockStatus], now: float) -> None:
        """Take note of one look at all locks."""
        before, self._looked = self._looked, now
        seen = now
        if now - before > GAP_MAX:
            seen = before
            self._unseen.append((round(before, 3), round(now, 3)))
        self._charge(locks, now, now - before)
        names = {lock.name for lock in locks}
        for lock in locks:
            past = self._pasts.pop(lock.name, None) or _Past()
            self._pasts[lock.name] = past  # at the end: the order is that of the looks
            past.look(lock, now, seen)
        for name, past in list(self._pasts.items()):
            if name not in names:
                past.gone(now, seen)
                if now - past.seen > KEPT_SECONDS:
                    del self._pasts[name]
        while len(self._pasts) > LOCKS_MAX:
            del self._pasts[next(iter(self._pasts))]

    def _charge(self, locks: Sequence[LockStatus], now: float, passed: float) -> None:
        """Add the time since the last look to each holder's cost, for all that wait."""
        if not 0 < passed <= GAP_MAX:
            return
        minute = self._minutes.setdefault(int(now // 60), {})
        for lock in locks:
            for who in lock.holders if lock.waiting_units and not lock.kept else ():
                _add(minute, _holder(who), lock.name, passed * lock.waiting_units)
        for old in [each for each in self._minutes if each <= now // 60 - MINUTES_KEPT]:
            del self._minutes[old]

    def costs(self, now: float) -> list[dict[str, Any]]:
        """Return how long each holder kept others waiting in the last hour, the longest first."""
        sums: dict[Holder, dict[str, Any]] = {}
        for number, minute in self._minutes.items():
            for who, cost in minute.items() if number > now // 60 - MINUTES_KEPT else ():
                for name in cost["names"]:
                    _add(sums, who, name, 0.0)
                _add(sums, who, None, cost["seconds"])
        rows: list[dict[str, Any]] = [
            {"host": host, "pid": pid, "label": label, "names": sorted(cost["names"])}
            | {"seconds": round(cost["seconds"], 1)}
            for (host, pid, label), cost in sums.items()
        ]
        rows.sort(key=lambda row: row["seconds"], reverse=True)
        return rows[:COSTS_SHOWN]

    def of(self, name: str, now: float) -> dict[str, Any]:
        """Return the data that a lock's own page draws."""
        begin = now - KEPT_SECONDS
        past = self._pasts.get(name) or _Past()
        tenures = [each for each in past.tenures if (each["until"] or now) >= begin]
        return {
            "tenures": tenures,
            "samples": list(past.samples),
            "unseen": [each for each in self._unseen if each[1] >= begin],
            "ttl": round(past.ttl, 1),
        }


def with_history(
    samples: Sequence[Sample], unseen: Sequence[tuple[float, float]], waits: Sequence[HistoryEntry]
) -> tuple[list[Sample], list[tuple[float, float]]]:
    """Add to the samples what the history says of times that no look saw.

    Returns also those of these times of which it says nothing.
    """
    points, dark = list(samples), []
    for begin, end in unseen:
        spans = [(max(begin, each.at - each.seconds), min(end, each.at)) for each in waits]
        spans = [(start, stop) for start, stop in spans if start < stop]
        if not spans:
            dark.append((begin, end))
        else:
            times = {begin, *(time for span in spans for time in span)} - {end}
            points += [(time, sum(one <= time < two for one, two in spans)) for time in times]
            points.append((end, next((n for time, n in reversed(samples) if time <= end), 0)))
    return sorted(points), dark


def holders_of(
    tenures: Sequence[dict[str, Any]],
    unseen: Sequence[tuple[float, float]],
    waits: Sequence[HistoryEntry],
) -> list[dict[str, Any]]:
    """Add to the tenures those that the history's waits were for while no look saw the lock.

    Each lasts at least until the last answer that named it.
    """
    seen = {each["fence"] for each in tenures}
    others: dict[int, dict[str, Any]] = {}
    for who in (who for each in waits for who in (each.first_held_by, each.held_by)):
        until = 0.0 if who is None else who.since + who.held_for
        if who is None or who.fence in seen:
            continue
        if any(who.since < end and begin < until for begin, end in unseen):
            until = max(until, others.get(who.fence, {"until": 0.0})["until"])
            others[who.fence] = person(who) | {
                "fence": who.fence,
                "since": who.since,
                "until": round(until, 3),
            }
    return sorted([*tenures, *others.values()], key=lambda each: each["since"])


def _holder(who: HolderStatus) -> Holder:
    return who.host, who.pid, who.called


def _add(sums: dict[Holder, dict[str, Any]], who: Holder, name: str | None, more: float) -> None:
    """Add to what a holder costs, within the bounds."""
    if who not in sums and len(sums) >= HOLDERS_MAX:
        return
    cost = sums.setdefault(who, {"seconds": 0.0, "names": set()})
    cost["seconds"] += more
    if name is not None and len(cost["names"]) < NAMES_MAX:
        cost["names"].add(name)
