"""What client processes did, read from their logs: operations, tenures and writes.

Rules of this file:

- Every log line is one JSON object with an ``event``; every instant is
  ``fencelock._runtime.clock.now`` of one host, so the instants of all processes compare exactly.
- A tenure is the *proved* part of a lease only: from the instant acquire returned to the release,
  the deadline or the death of its process, whichever was first.
- What is not known stays unknown: an operation without an end may or may not have had an effect.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PENDING = math.inf


@dataclass(eq=False)
class Op:
    """One call: what was asked of which object, when, and how it ended."""

    number: str
    do: str  # acquire, try, renew, release
    on: str
    begun: float
    renewed: bool = False  # by the library, for as long as it is held
    weight: int = 1  # of the object's limit: 1 for a lock, all for a writer
    lease: str = ""  # the number of the acquire that a renew or a release is about
    ended: float = PENDING
    result: str = "unknown"  # granted, refused, timeout, ok, lost, unknown
    fence: int = 0


@dataclass(eq=False)
class Tenure:
    """The proved part of one lease."""

    on: str
    number: str
    weight: int
    fence: int
    asked: float
    start: float
    end: float

    def __repr__(self) -> str:
        who = f"{self.on} fence {self.fence} by {self.number}"
        return f"<{who}: asked {self.asked:.6f}, {self.start:.6f} to {self.end:.6f}>"


@dataclass(frozen=True)
class Write:
    """One answer of the fenced register; ``order`` counts the writes that it accepted."""

    on: str
    fence: int
    accepted: bool
    proved: bool
    order: int


@dataclass
class History:
    """All that is known so far, and still of use to a check."""

    ops: dict[str, Op] = field(default_factory=dict)
    tenures: dict[str, Tenure] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    grants: list[float] = field(default_factory=list)

    def take(self, line: dict[str, Any]) -> None:
        """Add what one line of a log says."""
        getattr(self, "_" + line.pop("event"))(**line)

    def died(self, pid: int, at: float) -> None:
        """End what a process held: nobody can rely on a lease any more that it had."""
        for tenure in self.tenures.values():
            if tenure.number.startswith(f"{pid}-"):
                tenure.end = max(tenure.start, min(tenure.end, at))

    def forget(self, at: float) -> None:
        """Drop what was checked, at an instant when nobody does or holds anything.

        Kept are the newest tenure and the newest write of each object: what follows is after them.
        And what a process may still end whose parent was killed.
        """
        self.ops = {number: op for number, op in self.ops.items() if op.ended == PENDING}
        self.grants.clear()
        newest = {one.on: one.number for one in sorted(self.tenures.values(), key=_fence)}
        kept = set(newest.values())
        self.tenures = {
            number: one for number, one in self.tenures.items() if number in kept or one.end > at
        }
        self.writes = list({one.on: one for one in self.writes if one.accepted}.values())

    # One method per event.

    def _begin(self, **line: Any) -> None:
        op = Op(**line)
        self.counts["operations"] += 1
        self.ops[op.number] = op
        if op.do == "release" and op.lease in self.tenures:
            self._ends(op.lease, op.begun)

    def _end(self, number: str, ended: float, result: str, **more: Any) -> None:
        op = self.ops[number]
        self.counts[f"{op.do}: {result}"] += 1
        op.ended, op.result, op.fence = ended, result, more.get("fence", 0)
        if more.get("error"):
            self.errors[more["error"]] += 1
        if result == "lost" and op.lease in self.ops and self.ops[op.lease].renewed:
            self.counts["lost though renewed"] += 1
        if result == "granted":
            self.grants.append(ended)
            end = max(ended, more["deadline"])
            self.tenures[number] = Tenure(
                op.on, number, op.weight, op.fence, asked=op.begun, start=ended, end=end
            )

    def _seen(self, lease: str, deadline: float) -> None:
        """A holder looked at its lease, which may have been renewed since."""
        tenure = self.tenures[lease]
        tenure.end = max(tenure.end, deadline)

    def _ends(self, lease: str, at: float) -> None:
        tenure = self.tenures[lease]
        tenure.end = max(tenure.start, min(tenure.end, at))

    def _write(self, **line: Any) -> None:
        self.writes.append(Write(**line))

    def _unexpected(self, text: str) -> None:
        self.unexpected.append(text)

    def _sample(self, **line: Any) -> None:
        self.samples.append(line)

    def _began(self) -> None:
        """Note nothing: the line says that the process runs."""


def _fence(tenure: Tenure) -> int:
    return tenure.fence


class Log:
    """The file that one process appends its lines to, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the whole lines that are new."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._read += whole
        for line in data[:whole].splitlines():
            yield json.loads(line)


def of(found: Iterable[Op | Tenure], on: str) -> list[Any]:
    """Return what is about one object."""
    return [one for one in found if one.on == on]
