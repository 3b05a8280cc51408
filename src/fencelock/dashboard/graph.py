"""Which client waits for which, as the page draws it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from fencelock._core.look.graph import Block, Unit, blocks, in_cycles, unit_of
from fencelock.dashboard.rows import FOREIGN, person

if TYPE_CHECKING:
    from fencelock.status import LockStatus

# A graph with more boxes than this cannot be read.
NODES_MAX: Final = 150
# So many waiters of one lock get a box each. More are drawn client by client, for so many clients;
# a box names so many of its waiters when it is opened.
ALONE_MAX: Final = 4
BOXES_MAX: Final = 20
MEMBERS_MAX: Final = 100


class Graph:
    """The waits of one look at the server."""

    def __init__(self, locks: Sequence[LockStatus]) -> None:
        self.waits: list[Block] = blocks(locks)
        self.people: dict[Unit, dict[str, Any]] = {
            unit_of(each): person(each) for lock in locks for each in lock.listed_waiters
        }
        # Of one that holds several locks the label of the one that most wait for is shown.
        waited_for = sorted(locks, key=lambda lock: lock.waiting_units)
        holders = {unit_of(each): person(each) for lock in waited_for for each in lock.holders}
        self.people |= holders
        self._others = {wait.waiter: wait.others for wait in self.waits}
        self.holders: frozenset[Unit] = frozenset(holders)
        self.behind: dict[Unit, list[Block]] = defaultdict(list)
        self.ahead: dict[Unit, list[Block]] = defaultdict(list)
        for wait in self.waits:
            self.behind[wait.holder].append(wait)
            self.ahead[wait.waiter].append(wait)
        self.ring: frozenset[Unit] = in_cycles(self.waits)
        self.locks_in_cycles: frozenset[str] = frozenset(
            w.name for w in self.waits if self.turns(w)
        )

    def turns(self, wait: Block) -> bool:
        """Return True if a wait is a part of a cycle."""
        return wait.certain and wait.waiter in self.ring and wait.holder in self.ring

    def person(self, unit: Unit) -> dict[str, Any]:
        """Return what the page shows of a client."""
        return FOREIGN if unit.foreign else self.people[unit]

    def blocked_by(self, unit: Unit) -> dict[Unit, float]:
        """Return the clients that wait for one, directly or not, each with its wait's start."""
        found: dict[Unit, float] = {}
        left = [unit]
        while left:
            for wait in self.behind.get(left.pop(), ()):
                if wait.waiter not in found and wait.waiter != unit:
                    found[wait.waiter] = wait.since
                    left.append(wait.waiter)
        return found

    def number(self, units: Iterable[Unit]) -> int:
        """Return for how many threads and tasks these waiters stand."""
        return sum(1 + self._others[unit] for unit in units)

    def blockers(self, now: float) -> list[dict[str, Any]]:
        """Return every holder that others wait for, the one that costs them most first."""
        rows = [self._blocker(unit, now) for unit in self.behind]
        return sorted(rows, key=lambda row: row["seconds"], reverse=True)

    def _blocker(self, unit: Unit, now: float) -> dict[str, Any]:
        blocked = self.blocked_by(unit)
        waited = ((now - since) * self.number([each]) for each, since in blocked.items())
        return self.person(unit) | {
            "holds": sorted({wait.name for wait in self.behind[unit]}),
            "direct": self.number({wait.waiter for wait in self.behind[unit]} - {unit}),
            "all": self.number(blocked),
            "seconds": round(sum(max(0.0, each) for each in waited), 3),
            "cycle": unit in self.ring,
        }

    def around(self, name: str) -> set[Unit]:
        """Return who waits for a lock or holds it, what they wait for, and who waits for them."""
        here = [wait for wait in self.waits if wait.name == name]
        found = {unit for wait in here for unit in (wait.holder, wait.waiter)}
        for unit in list(found):
            found.update(self.blocked_by(unit))
        left = list(found)
        while left:
            more = {wait.holder for wait in self.ahead.get(left.pop(), ())} - found
            found |= more
            left += more
        return found

    def drawing(self, name: str | None = None) -> dict[str, Any]:
        """Return boxes and arrows: those in cycles first, then those that block most.

        With ``name`` only those that have to do with that lock.
        """
        shown = self.behind if name is None else self.around(name) & self.behind.keys()
        counts = {unit: self.number(self.blocked_by(unit)) for unit in shown}
        order = sorted(counts, key=lambda unit: (unit not in self.ring, -counts[unit]))
        drawn = _Drawing(self, counts)
        left_out = sum(not drawn.add(unit) for unit in order)
        return {"nodes": drawn.nodes, "edges": drawn.edges, "left_out": left_out}


class _Drawing:
    """Boxes and arrows, as far as there is room."""

    def __init__(self, graph: Graph, counts: dict[Unit, int]) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self._graph = graph
        self._counts = counts
        self._ids: dict[Unit, int] = {}

    def add(self, holder: Unit) -> bool:
        """Draw a holder and the clients that wait for it; return False if there is no room."""
        if len(self.nodes) >= NODES_MAX and holder not in self._ids:
            return False
        by_lock: dict[str, list[Block]] = defaultdict(list)
        for wait in self._graph.behind[holder]:
            by_lock[wait.name].append(wait)
        for waits in by_lock.values():
            crowd = [wait for wait in waits if not self._stands_out(wait.waiter)]
            alone = [wait for wait in waits if self._stands_out(wait.waiter)]
            if len(crowd) <= ALONE_MAX:
                alone, crowd = waits, []
            for wait in alone:
                self._arrow(self._node(wait.waiter), holder, wait, cycle=self._graph.turns(wait))
            for client, some in self._by_client(crowd):
                self._box(client, some, holder)
        return True

    def _by_client(self, crowd: Sequence[Block]) -> list[tuple[dict[str, Any] | None, list[Block]]]:
        """Return the waiters of each client together; those that are alone in theirs, as one."""
        clients: dict[tuple[object, ...], list[Block]] = defaultdict(list)
        for wait in crowd:
            who = self._graph.person(wait.waiter)
            clients[who["host"], who["pid"], who["label"]].append(wait)
        large = sorted((each for each in clients.values() if len(each) > 1), key=len, reverse=True)
        large = large[:BOXES_MAX]
        drawn = {wait.waiter for each in large for wait in each}
        rest = [wait for wait in crowd if wait.waiter not in drawn]
        found: list[tuple[dict[str, Any] | None, list[Block]]] = [
            (self._graph.person(each[0].waiter), each) for each in large
        ]
        return [*found, (None, rest)] if rest else found

    def _box(self, client: dict[str, Any] | None, waits: Sequence[Block], holder: Unit) -> None:
        """Draw several waiters as one box, which opens: it has the first of them."""
        first, graph = min(waits, key=lambda wait: wait.since), self._graph
        members = [
            graph.person(each.waiter) | {"since": each.since} for each in waits[:MEMBERS_MAX]
        ]
        box: dict[str, Any] = {
            "id": len(self.nodes),
            "crowd": graph.number({wait.waiter for wait in waits}),
            "waits": first.name,
            "members": members,
            "client": None if client is None else {**client, "unit": "", "others": 0},
        }
        self.nodes.append(box | {"all": 0, "cycle": False})
        self._arrow(box["id"], holder, first, cycle=False)

    def _stands_out(self, waiter: Unit) -> bool:
        """Return True for a client that others may wait for, or that is drawn already."""
        return waiter in self._graph.holders or waiter in self._ids

    def _arrow(self, waiter: int, holder: Unit, wait: Block, *, cycle: bool) -> None:
        to = self._node(holder)
        row = {"from": waiter, "to": to, "name": wait.name, "since": wait.since, "cycle": cycle}
        self.edges.append(row)

    def _node(self, unit: Unit) -> int:
        if unit not in self._ids:
            self._ids[unit] = len(self.nodes)
            waits = self._graph.ahead.get(unit)
            self.nodes.append(
                self._graph.person(unit)
                | {"id": self._ids[unit], "crowd": 0, "waits": waits[0].name if waits else None}
                | {"all": self._counts.get(unit, 0), "cycle": unit in self._graph.ring}
            )
        return self._ids[unit]
