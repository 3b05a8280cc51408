"""Walks through every schedule of a world.

Rules of this file:

- A schedule is a list of steps. The next one is an earlier one up to some step, and another step
  there: these are taken again from the beginning, without a look at what else might have happened.
- Which one comes next matters where not all are explored. By turns it is the newest, deep into
  what follows, and the oldest, which turns away from the undisturbed schedule the fewest times.
  With ``deep`` it is always the newest: some defects need many turns, late.
- A state that was met before is not explored again. Two runs share a state only when every process
  saw the same, in the same order, and the rest of the world is the same: then all that can follow
  is the same too. (States are kept as 64-bit hashes.)
- The first violation ends the search, and comes with its schedule, one line a step.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from verification.simulator.monitor import Violation
from verification.simulator.reported import EventMonitor
from verification.simulator.server import Server
from verification.simulator.simulation import World
from verification.simulator.steps import Action, options

# Makes a world with its processes started, on the given server; True asks for a trace.
Build = Callable[[Server, bool], World]


@dataclass
class Report:
    """What an exploration found. ``complete``: there is no schedule that was not covered."""

    schedules: int = 0
    steps: int = 0
    states: int = 0
    complete: bool = False
    seconds: float = 0.0
    violation: Violation | None = None
    schedule: list[Action] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def extent(self) -> str:
        """Return whether all was covered, in one word."""
        if self.violation is not None:
            return "violated"
        return "complete" if self.complete else "capped"

    def story(self) -> str:
        """Return the failing schedule for people, one line a step."""
        return "\n".join([*self.lines, f"→ {self.violation}"])


class _Fork(NamedTuple):
    """A step that was not tried yet: so many steps of a schedule, and then this one."""

    path: list[Action]
    at: int
    step: Action


class Explorer:
    """One search; ``run`` does it."""

    def __init__(
        self, build: Build, server: Server, *, events: bool = False, deep: bool = False
    ) -> None:
        self._events = events  # what hooks are told is checked, too
        self._deep = deep
        self._build = build
        self._server = server
        self._path: list[Action] = []
        self._forks: deque[_Fork] = deque()
        self._seen: set[int] = set()
        self.report: Report = Report()

    def run(self, *, seconds: float, schedules: int) -> Report:
        """Search until all is covered, a violation is found, or the budget is spent."""
        with quiet():
            self._search(time.perf_counter(), seconds, schedules)
        return self.report

    def _search(self, began: float, seconds: float, schedules: int) -> None:
        report = self.report
        while report.schedules < schedules and time.perf_counter() - began < seconds:
            self._one()
            if report.violation is not None or not self._next():
                break
        report.complete = report.violation is None and not self._forks
        report.states = len(self._seen)
        report.seconds = time.perf_counter() - began
        if report.violation is not None:
            report.schedule = list(self._path)
            report.lines = replay(self._build, self._server, self._path)

    def _one(self) -> None:
        """Run one schedule: the path so far, then the first choice everywhere."""
        self.report.schedules += 1
        world = None
        reported = EventMonitor() if self._events else None
        try:
            with reported.watching() if reported is not None else contextlib.nullcontext():
                world = self._build(self._server, False)  # noqa: FBT003 - its one flag: a trace
                for action in self._path:
                    world.act(action)
                if self._onward(world) and reported is not None:
                    reported.end(world)
        except Violation as violation:
            self.report.violation = violation
        finally:
            if world is not None:
                self.report.steps += world.taken
                world.close()

    def _onward(self, world: World) -> bool:
        """Go on to the end; False where that is known from another schedule."""
        while choices := options(world):
            if len(choices) > 1:
                key = world.key()
                if key in self._seen:
                    return False
                self._seen.add(key)
                at, path = len(self._path), self._path
                self._forks.extend(_Fork(path, at, step) for step in choices[:0:-1])
            self._path.append(choices[0])
            world.act(choices[0])
        world.monitor.end()
        return True

    def _next(self) -> bool:
        """Turn to the next untried step; False when there is none."""
        if not self._forks:
            return False
        oldest = self.report.schedules % 2 and not self._deep
        fork = self._forks.popleft() if oldest else self._forks.pop()
        self._path = [*fork.path[: fork.at], fork.step]
        return True


def replay(build: Build, server: Server, path: list[Action]) -> list[str]:
    """Run one schedule with its trace."""
    with quiet(), contextlib.closing(build(server, True)) as world:  # noqa: FBT003 - its one flag: a trace
        with contextlib.suppress(Violation):
            for action in path:
                world.act(action)
            if not options(world):
                world.monitor.end()
        return world.lines or []


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence fencelock's log: every schedule would tell its losses."""
    logger = logging.getLogger("fencelock")
    logger.disabled, before = True, logger.disabled
    try:
        yield
    finally:
        logger.disabled = before


def explore(
    build: Build,
    server: Server | None = None,
    *,
    seconds: float = 60.0,
    schedules: int = 10_000_000,
    events: bool = False,
    deep: bool = False,
) -> Report:
    """Search every schedule of the world that ``build`` makes, within a budget."""
    search = Explorer(build, server or Server(), events=events, deep=deep)
    return search.run(seconds=seconds, schedules=schedules)
