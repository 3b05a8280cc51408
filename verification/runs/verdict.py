"""What a run found: all checks over its history, chapter by chapter.

A chapter ends when nobody does or holds anything, so that nothing reaches into the next one.

Linearizability is checked on what is certain. A call that ended without a certain answer takes no
part: it could only explain why somebody else was refused, so refusals near one are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from verification.runs import checker, wgl
from verification.runs.history import PENDING, History, Op, of
from verification.runs.models import Leases
from verification.runs.network import Span
from verification.runs.objects import Play

# So long after a call ended without a certain answer its request, or its undo, may still arrive.
LATE_SECONDS = 8.0
WAIT_SECONDS = 5.0  # the longest timeout of a call
# A place in line, and a grant that came too late, are given back in this time.
UNDO_SECONDS = 2.0


class Verdict:
    """The findings so far. ``covered``: the guarantees hold, so that nothing may be found."""

    def __init__(self, *, covered: bool, play: Play | None = None) -> None:
        self.covered = covered
        self.play = play or Play()
        self.overlaps: list[checker.Pair] = []
        self.fences_back: list[checker.Pair] = []
        self.stale_accepted: list[Any] = []
        self.refused_though_proved: list[Any] = []
        self.impossible: list[tuple[str, wgl.Call]] = []
        self.grants = self.accepted = self.stale_refused = 0
        self.calls = self.refusals = self.too_hard = 0
        self.longest_gap = (0.0, 0.0)  # its length, and when it ended
        self.gaps = dict.fromkeys(self.play.limits, 0.0)  # object → its longest

    def chapter(
        self, history: History, begun: float, ended: float, doubts: Sequence[Span] = ()
    ) -> None:
        """Check what happened between two instants, and have the history forget it."""
        self.grants += len(history.grants)
        for on, limit in self.play.limits.items():
            tenures = of(history.tenures.values(), on)
            self.overlaps += checker.overlaps(tenures, limit)
            back = checker.fences_that_went_back(tenures, limit, exclusive=self.covered)
            self.fences_back += back
            seconds, _ = checker.longest_gap([one.start for one in tenures], begun, ended)
            self.gaps[on] = max(self.gaps[on], seconds)
            self._linearize(on, limit, of(history.ops.values(), on), history, doubts)
        self.stale_accepted += checker.stale_accepted(history.writes)
        self.refused_though_proved += checker.refused_though_proved(history.writes)
        self.accepted += sum(one.accepted for one in history.writes)
        self.stale_refused += sum(not one.accepted for one in history.writes)
        gap = checker.longest_gap(history.grants, begun, ended)
        self.longest_gap = max(self.longest_gap, gap)
        history.forget(ended)
        self.accepted -= sum(one.accepted for one in history.writes)  # the next chapter counts them

    def _linearize(
        self, on: str, limit: int, ops: list[Op], history: History, doubts: Sequence[Span]
    ) -> None:
        line = limit > 1 or not self.play.one_place
        calls = list(as_calls(ops, history, doubts, line=line))
        try:
            wrong = wgl.first_impossible(calls, Leases(limit, fenced=True))
        except wgl.TooHard:
            self.too_hard += 1
            return
        self.calls += len(calls)
        self.refusals += sum(call.do == "refused" for call in calls)
        if wrong is not None:
            self.impossible.append((on, wrong))


def as_calls(
    ops: list[Op], history: History, doubts: Sequence[Span] = (), *, line: bool = False
) -> Iterator[wgl.Call]:
    """Yield what is certain of the operations on one object.

    A lease ends by its release or, at any time after its deadline, by itself. Who is refused met a
    holder, or somebody in line before: so refusals count where nobody waited meanwhile; with
    ``line``, where a waiter for more than is free holds up all behind it, they do not count. Nor do
    they where there are ``doubts``: a request that its client had given up and asked again may run
    late, when the lease was released already, and holds until its ttl.
    """
    granted = {op.number: op for op in ops if op.result == "granted"}
    lines = [*doubts]
    lines += [_in_line(op) for op in ops if op.do == "acquire" or op.result == "unknown"]
    released = {op.lease for op in ops if op.do == "release" and op.result == "ok"}
    for op in ops:
        match op.do, op.result:
            case (("acquire" | "try"), "granted"):
                yield wgl.Call("acquire", op.number, op.begun, op.ended, op.weight, op.fence)
                if op.number not in released:
                    end = max(history.tenures[op.number].end, op.ended)
                    yield wgl.Call("expire", op.number, end, weight=op.weight)
            case "try", "refused":
                if not line and not any(_meet(op, *span) for span in lines):
                    yield wgl.Call("refused", op.number, op.begun, op.ended, op.weight)
            case (("release" | "renew"), "ok") if op.lease in granted:
                weight = granted[op.lease].weight
                yield wgl.Call(op.do, op.lease, op.begun, op.ended, weight)


def _in_line(op: Op) -> tuple[float, float]:
    """Return from when to when a call may have stood in line, or held without anybody knowing."""
    if op.result == "granted":
        return op.begun, op.ended
    ended = op.begun + WAIT_SECONDS if op.ended == PENDING else op.ended
    return op.begun, ended + (UNDO_SECONDS if op.result == "timeout" else LATE_SECONDS)


def _meet(op: Op, begun: float, ended: float) -> bool:
    return op.begun < ended and begun < op.ended
