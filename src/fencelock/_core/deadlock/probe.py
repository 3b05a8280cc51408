"""What a probe says: the path that it took, one step for each wait and the hold that blocks it.

Rules of this file:

- Pure: nothing here sends or asks.
- Every user that may publish can send anything, so a message is read as a whole before it counts.
- A message has a bound: a path that grows beyond it is given up.
- The victim is the same wherever it is computed: the youngest wait of the cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencelock._runtime.records import NamedTuple

# A longer cycle is not found. Cycles of more than a few waiters are rare.
STEPS_MAX = 20
MESSAGE_BYTES_MAX = 16_384


class Step(NamedTuple):
    """One wait, and the hold that it waits for."""

    wait: str  # the id of the wait
    arrived_us: int  # on the clock of the server that it asked
    name: str  # of the lock
    info: str  # the waiter, described as `show` prints it
    holder: str = ""  # the id of the tenure that blocks it
    fence: int = 0  # and which turn of that tenure
    certain: int = 1  # 0 if another thread or task than the one that waits may end that


class PathProbe(NamedTuple):
    """A path that begins with the wait that looks for a cycle."""

    search: str  # which search it is: the id of that wait, and a number
    path: Sequence[Step]
    # The cycle that the first round found; the second follows it, and nothing else.
    cycle: Sequence[Step] = ()

    @property
    def begun_by(self) -> str:
        """Return the id of the wait that looks."""
        return self.path[0].wait

    @property
    def round(self) -> str:
        """Return what tells its two rounds apart."""
        return f"{self.search} {bool(self.cycle):d}"

    def extended(self, step: Step) -> PathProbe:
        """Return the probe as it leaves a wait."""
        return self._replace(path=(*self.path, step))

    def blocked_by(self, holder: str, fence: int, *, certain: bool = True) -> PathProbe:
        """Return the probe as it arrives at the hold that blocks the last wait."""
        last = self.path[-1]._replace(holder=holder, fence=fence, certain=int(certain))
        return self._replace(path=(*self.path[:-1], last))

    def passes_twice(self, wait: str) -> bool:
        """Return True if the path has a wait already: another cycle, which finds itself."""
        return any(step.wait == wait for step in self.path)

    def strays(self) -> bool:
        """Return True if the second round does not see what the first one saw."""
        return bool(self.cycle) and tuple(self.path) != tuple(self.cycle[: len(self.path)])


def pack(probe: PathProbe) -> bytes | None:
    """Return a probe as text; None when it is too long."""
    if len(probe.path) > STEPS_MAX:
        return None
    import json  # noqa: PLC0415 - only when there is a deadlock

    text = json.dumps([probe.search, probe.path, probe.cycle], separators=(",", ":")).encode()
    return text if len(text) <= MESSAGE_BYTES_MAX else None


def unpack(text: bytes) -> PathProbe | None:
    """Return the probe that a text says; None when it says none."""
    if len(text) > MESSAGE_BYTES_MAX:
        return None
    import json  # noqa: PLC0415 - only when there is a deadlock

    try:
        search, path, cycle = json.loads(text)
        probe = PathProbe(search, tuple(map(_step, path)), tuple(map(_step, cycle)))
    except (ValueError, TypeError, RecursionError):
        return None
    return probe if isinstance(search, str) and probe.path else None


def _step(words: Any) -> Step:
    """Return one step; ValueError or TypeError when it is none."""
    step = Step(*words)
    if [type(word) for word in step] != [str, int, str, str, str, int, int]:
        raise ValueError
    return step


def youngest(cycle: Sequence[Step]) -> Step:
    """Return the wait that came last: it has the least to lose, and is refused."""
    return max(cycle, key=lambda step: (step.arrived_us, step.wait))
