"""Finds a shortest schedule of a world that breaks something.

Rules of this file:

- Shortest means: fewest faults, then fewest steps. Schedules are prolonged in that order, so the
  first one that is found broken is a shortest one.
- Where there is but one next step, it is taken; where there are more, each is tried.
- A state that was met before is not prolonged again, as in ``explorer``.
- What broke is asked of the world's monitor: ``broken`` names it, or is empty. A ``Violation``
  counts as well.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from verification.simulator.explorer import Build, quiet
from verification.simulator.monitor import Violation
from verification.simulator.server import Server
from verification.simulator.simulation import World
from verification.simulator.steps import Action, options

Path = tuple[Action, ...]


class Judge(Protocol):
    """What a monitor must have for this search."""

    broken: dict[str, str]  # what broke, by its name → how


@dataclass
class Shortest:
    """What a search found. ``complete``: no schedule within the bounds was left out."""

    schedules: int = 0  # runs from the beginning, each a little further than another one
    states: int = 0
    complete: bool = False
    found: dict[str, Path] = field(default_factory=dict)  # what broke → how


class _Search:
    def __init__(self, build: Build, server: Server, wanted: Callable[[str], bool]) -> None:
        self._build = build
        self._server = server
        self._wanted = wanted
        # Faults, steps, a number that keeps the order of finding, the path, what it breaks.
        self._heap: list[tuple[int, int, int, Path, tuple[str, ...]]] = []
        self._number = 0
        self._seen: set[int] = set()
        self.report = Shortest()

    def run(self, schedules: int) -> Shortest:
        report = self.report
        self._try(())
        while self._heap and report.schedules < schedules and not report.found:
            *_, path, broken = heapq.heappop(self._heap)
            for name in broken:
                report.found.setdefault(name, path)
            if not broken:
                self._prolong(path)
        report.complete = not self._heap
        report.states = len(self._seen)
        return report

    def _prolong(self, path: Path) -> None:
        """Try every next step after a path, unless its state was met before."""
        world = self._run(path)
        key = world.key()
        choices = options(world)
        world.close()
        if key not in self._seen:
            self._seen.add(key)
            for choice in choices:
                self._try((*path, choice))

    def _run(self, path: Path) -> World:
        world = self._build(self._server, False)  # noqa: FBT003 - its one flag: a trace
        try:
            for action in path:
                world.act(action)
        except Violation:
            world.close()
            raise
        return world

    def _try(self, path: Path) -> None:
        """Run a path, and on while there is no choice; keep it for its turn."""
        self.report.schedules += 1
        world, steps = None, list(path)
        try:
            world = self._run(path)
            over = self._onward(world, steps)
            broken = self._broken(world)
        except Violation as violation:
            name = violation.invariant
            over, broken = True, (name,) if self._wanted(name) else ()
        finally:
            if world is not None:
                world.close()
        if broken or not over:
            self._number += 1
            row = (faults(steps), len(steps), self._number, tuple(steps), broken)
            heapq.heappush(self._heap, row)

    def _onward(self, world: World, steps: list[Action]) -> bool:
        """Take the steps without a choice; return whether all is over."""
        while not self._broken(world):
            choices = options(world)
            if len(choices) > 1:
                return False
            if not choices:
                world.monitor.end()
                return True
            steps.append(choices[0])
            world.act(choices[0])
        return True

    def _broken(self, world: World) -> tuple[str, ...]:
        return tuple(filter(self._wanted, getattr(world.monitor, "broken", ())))


# Steps that are no faults.
USUAL = frozenset({"serve", "hear", "resume", "timer", "pass", "copy", "die"})


def faults(path: list[Action]) -> int:
    """Return how many faults strike in a schedule."""
    return sum(action[0] not in USUAL for action in path)


def shortest(
    build: Build,
    server: Server | None = None,
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    schedules: int = 1_000_000,
) -> Shortest:
    """Search until something is found, all is covered, or the budget is spent.

    ``wanted`` chooses what counts, by its name.
    """
    with quiet():
        return _Search(build, server or Server(), wanted).run(schedules)
