"""One look at the server, and what each view shows of it.

A view is made when the first browser asks for it, and then kept as the bytes of its answer: all
browsers that ask until the next look get the same.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fencelock.dashboard import rows
from fencelock.dashboard.graph import Graph
from fencelock.dashboard.recent import holders_of, with_history

if TYPE_CHECKING:
    from fencelock.status import HistoryEntry, LockStatus

HOUR: Final = 3600.0
EVENTS_MAX: Final = 1_000  # of one view
_LOCK_EVENTS_MAX: Final = 200
_MOST_WAITED_FOR: Final = 100
_SHOWN_OF_EVENT: Final = ("id", "at", "kind", "name", "host", "pid", "label", "seconds")
# The numbers for Prometheus: name → what it says; the values are made in ``samples``. There is no
# label with a lock's name: names have ids in them, and each would be a series for ever. The metrics
# of the programs that use locks come from those programs (``fencelock.instrumentation``).
METRICS: Final = {
    "fencelock_server_up": "1 if the last look at the server succeeded, else 0.",
    "fencelock_server_locks": "Locks that are held, kept idle by their holder, or only waited for.",
    "fencelock_server_holders": "Clients that hold a lock or permits.",
    "fencelock_server_waiters": "Threads and tasks that wait for a lock; more may, in a long line.",
    "fencelock_server_longest_wait_seconds": "How long the longest current wait has lasted.",
    "fencelock_server_longest_hold_seconds": "How long the oldest holder has held its lock.",
    "fencelock_server_cycle_clients": "Clients that wait for each other in a cycle.",
    "fencelock_server_events_1h": "Events of the last hour in the history, by kind.",
    "fencelock_server_look_seconds": "How long the last look at the server took.",
}
KINDS: Final = ("wait", "lost", "revoked", "deadlock")


class Look(NamedTuple):
    """The result of one look at the server."""

    locks: Sequence[LockStatus]
    events: Sequence[HistoryEntry]  # newest last
    now: float  # the server's time
    took: float = 0.0
    trouble: str = ""  # why there is nothing newer
    costs: Sequence[Mapping[str, Any]] = ()  # what holders cost others in the last hour
    begun: float = 0.0  # when it began, by this machine's monotonic clock


class View(NamedTuple):
    """The answer with one view's data, and its tag."""

    body: bytes
    tag: str


Maker: TypeAlias = "Callable[[Board], dict[str, Any]]"


class Board:
    """One look, and its views. ``frame`` is the part that all views share."""

    def __init__(self, look: Look, frame: Mapping[str, Any]) -> None:
        self.look: Look = look
        self.now: float = look.now
        self.took: float = look.took
        self.trouble: str = look.trouble
        self._frame = frame
        self._views: dict[str, View] = {}
        self._shared: dict[str, Maker] = {}  # the views of all locks that were asked for

    def age(self) -> float:
        """Return how many seconds ago the server was seen as this shows it."""
        return time.monotonic() - self.look.begun

    def shared_view(self, key: str, make: Maker) -> View:
        """Return a view of all locks, made when it is asked for the first time."""
        self._shared[key] = make
        return self.view(key, lambda: make(self))

    def view(self, key: str, make: Callable[[], dict[str, Any]]) -> View:
        """Return a view, made by ``make`` when it is asked for the first time."""
        if key not in self._views:
            body = json.dumps({**self._frame, **make()}, allow_nan=False).encode()
            digest = hashlib.blake2b(body, digest_size=12).hexdigest()
            self._views[key] = View(body, f'"{digest}"')
        return self._views[key]

    def make_as(self, before: Board) -> None:
        """Make the views that browsers used on the previous board, so that they need not wait."""
        for key, make in list(before._shared.items()):
            self.view(key, partial(make, self))

    def has(self, key: str) -> bool:
        """Return True if a view is made."""
        return key in self._views

    @cached_property
    def graph(self) -> Graph:
        """Return who waits for whom."""
        return Graph(self.look.locks)

    @cached_property
    def by_name(self) -> dict[str, LockStatus]:
        """Return the locks by their names."""
        return {lock.name: lock for lock in self.look.locks}

    @cached_property
    def hour(self) -> list[HistoryEntry]:
        """Return the events of the last hour."""
        return [each for each in self.look.events if each.at >= self.now - HOUR]

    def counted(self, kind: str) -> int:
        """Return how many events of a kind the last hour had."""
        return sum(each.kind == kind for each in self.hour)

    @cached_property
    def totals(self) -> dict[str, Any]:
        """Return the numbers over all locks."""
        locks = self.look.locks
        states = dict.fromkeys(("held", "kept", "free"), 0)
        for lock in locks:
            states["kept" if lock.kept else "held" if lock.held else "free"] += 1
        return {
            "locks": len(locks),
            "states": states,
            "held": states["held"],
            "holders": sum(lock.holding or lock.foreign for lock in locks),
            "waiting": sum(lock.waiting_units for lock in locks),
            "waiting_more": any(lock.waiting_more for lock in locks),
            "longest": _first((w.since, lock.name) for lock in locks for w in lock.listed_waiters),
            "oldest": _first((h.since, lock.name) for lock in locks for h in lock.holders),
            "cycle": len(self.graph.ring),
            "losses": self.counted("lost"),
            "deadlocks": self.counted("deadlock"),
        }

    # -- the views ------------------------------------------------------------------------------

    def all_locks(self) -> dict[str, Any]:
        """Return the view of all locks."""
        rings = self.graph.locks_in_cycles
        locks = [rows.row(each, self.now, cycle=each.name in rings) for each in self.look.locks]
        return {"totals": self.totals, "locks": locks}

    def one_lock(self, lock: LockStatus, past: Mapping[str, Any]) -> dict[str, Any]:
        """Return the view of one lock; ``past`` is what the looks before saw of it."""
        others = [each for each in self.look.locks if each.name != lock.name]
        graph = Graph([*others, lock])  # this one has the waiters inside clients
        cycle = lock.name in graph.locks_in_cycles
        status = rows.details(lock, self.now, cycle=cycle) | {"ttl": past["ttl"]}
        events = [each for each in self.look.events if each.name == lock.name][-_LOCK_EVENTS_MAX:]
        waits = [each for each in events if each.kind == "wait"]
        samples, dark = with_history(past["samples"], past["unseen"], waits)
        return {
            "status": status,
            "waits": graph.drawing(lock.name),
            "tenures": holders_of(past["tenures"], past["unseen"], waits),
            "samples": samples,
            "dark": dark,
            "unseen": past["unseen"],
            "events": [event(each) for each in events],
        }

    def all_events(self) -> dict[str, Any]:
        """Return the view of the history."""
        return {"events": [event(each) for each in self.look.events[-EVENTS_MAX:]]}

    def blockers(self) -> dict[str, Any]:
        """Return the view of the holders that other clients wait for, now and in the last hour."""
        by_name: dict[str, list[float]] = defaultdict(list)
        for each in self.hour:
            if each.kind == "wait":
                by_name[each.name].append(each.seconds)
        waits: list[dict[str, Any]] = [
            {"name": name, "times": len(all_), "seconds": round(sum(all_), 3), "longest": max(all_)}
            for name, all_ in by_name.items()
        ]
        waits.sort(key=lambda row: row["seconds"], reverse=True)
        return {
            "at": self.now,
            "now": self.graph.blockers(self.now),
            "past": self.look.costs,
            "locks": waits[:_MOST_WAITED_FOR],  # with the longest waits, over all clients
        }

    # -- the numbers ----------------------------------------------------------------------------

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes; without an answer of the server, only that."""
        lines = []
        for name, values in self.samples().items():
            lines += [f"# HELP {name} {METRICS[name]}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels(label)} {value:.12g}" for label, value in values.items()]
        return ("\n".join(lines) + "\n").encode()

    def samples(self) -> Mapping[str, Mapping[str, float]]:
        """Return each metric with its values, by a label that is empty where there is but one."""
        up = {"fencelock_server_up": {"": 0.0 if self.trouble else 1.0}}
        if self.trouble:
            return up
        totals = self.totals
        longest, oldest = (
            max(0.0, self.now - totals[each]["since"]) if totals[each] else 0.0
            for each in ("longest", "oldest")
        )
        return up | {
            "fencelock_server_locks": {f"state={each}": n for each, n in totals["states"].items()},
            "fencelock_server_holders": {"": totals["holders"]},
            "fencelock_server_waiters": {"": totals["waiting"]},
            "fencelock_server_longest_wait_seconds": {"": longest},
            "fencelock_server_longest_hold_seconds": {"": oldest},
            "fencelock_server_cycle_clients": {"": totals["cycle"]},
            "fencelock_server_events_1h": {f"kind={each}": self.counted(each) for each in KINDS},
            "fencelock_server_look_seconds": {"": self.took},
        }


def _labels(label: str) -> str:
    name, _, value = label.partition("=")
    return f'{{{name}="{value}"}}' if label else ""


def event(entry: HistoryEntry) -> dict[str, Any]:
    """Return one entry of the history as the page has it."""
    shown = {name: getattr(entry, name) for name in _SHOWN_OF_EVENT}
    return shown | {"why": _why(entry), "foreign": False}


def _why(entry: HistoryEntry) -> str:
    """Return the details of an entry, in words."""
    if entry.kind == "wait":
        outcome = "" if entry.outcome == "granted" else entry.outcome.replace("_", " ")
        return ", ".join(filter(None, (outcome, entry.waited_for)))
    by = f"by {entry.by}" if entry.by else ""
    return ", ".join(filter(None, (": ".join(filter(None, (entry.reason, entry.detail))), by)))


def _first(found: Any) -> dict[str, Any] | None:
    since, name = min(found, default=(None, None))
    return None if since is None else {"since": since, "name": name}
