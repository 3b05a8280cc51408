"""What must hold of tenures and writes, decided by exact comparison of instants.

Rules of this file:

- A check returns what it found, never a verdict: who asks knows which runs may show it.
- Intervals that only touch do not overlap: a lease ends where the next begins.
- An object has a limit and a tenure a weight: 1 of 1 for a lock, n of the permits for a semaphore,
  1 of very many for a reader and all of them for a writer. One rule then covers them all (I1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from verification.runs.history import Tenure, Write

# So many readers never come together; a writer takes them all.
WRITER = 1_000_000

Pair = tuple[Tenure, Tenure]


def overlaps(tenures: Iterable[Tenure], limit: int) -> list[Pair]:
    """Return pairs that held together at an instant when more than the limit was out (I1)."""
    found: list[Pair] = []
    current: list[Tenure] = []
    for tenure in sorted(proved(tenures), key=_start):
        current = [one for one in current if one.end > tenure.start]
        if sum(one.weight for one in current) + tenure.weight > limit:
            found.append((current[-1], tenure))
        current.append(tenure)
    return found


def proved(tenures: Iterable[Tenure]) -> list[Tenure]:
    """Return those that were proved at any instant."""
    return [one for one in tenures if one.end > one.start]


def fences_that_went_back(tenures: Iterable[Tenure], limit: int, *, exclusive: bool) -> list[Pair]:
    """Return pairs, granted one after the other, whose fences are not in that order (I3).

    Of two tenures the order of the grants is known when one was granted before the other was asked
    for; and, where exclusion holds (``exclusive``), when they cannot be had together.
    """
    every = list(tenures)
    found = _out_of_order(every)
    if exclusive:
        found += _out_of_turn(sorted(proved(every), key=_start), limit)
    return found


def _out_of_order(tenures: Sequence[Tenure]) -> list[Pair]:
    """Compare each with the highest fence that was out before it was asked for."""
    granted = sorted(tenures, key=_start)
    found: list[Pair] = []
    highest: Tenure | None = None
    at = 0
    for tenure in sorted(tenures, key=_asked):
        while at < len(granted) and granted[at].start < tenure.asked:
            highest = _higher(highest, granted[at])
            at += 1
        if highest is not None and highest.fence >= tenure.fence:
            found.append((highest, tenure))
    return found


def _out_of_turn(tenures: Sequence[Tenure], limit: int) -> list[Pair]:
    """Compare each with those before it that exclude it, in the order in which they were had."""
    found: list[Pair] = []
    highest: dict[int, Tenure] = {}  # weight → who had the highest fence
    for tenure in tenures:
        for weight, before in highest.items():
            if weight + tenure.weight > limit and before.fence >= tenure.fence:
                found.append((before, tenure))
        highest[tenure.weight] = _higher(highest.get(tenure.weight), tenure)
    return found


def _higher(one: Tenure | None, other: Tenure) -> Tenure:
    return other if one is None or other.fence > one.fence else one


def stale_accepted(writes: Iterable[Write]) -> list[tuple[Write, Write]]:
    """Return pairs of accepted writes, the second with an older fence than the first.

    The register decided; this reads the order in which it accepted, and trusts no decision.
    """
    found = []
    newest: dict[str, Write] = {}
    for write in sorted((one for one in writes if one.accepted), key=_order):
        before = newest.get(write.on)
        if before is not None and write.fence < before.fence:
            found.append((before, write))
        else:
            newest[write.on] = write
    return found


def refused_though_proved(writes: Iterable[Write]) -> list[Write]:
    """Return refused writes whose lease was proved when the refusal had come."""
    return [one for one in writes if one.proved and not one.accepted]


def longest_gap(instants: Iterable[float], begun: float, ended: float) -> tuple[float, float]:
    """Return the longest time between two instants, the bounds included, and when it ended."""
    points = [begun, *sorted(at for at in instants if begun <= at <= ended), ended]
    return max((after - before, after) for before, after in pairwise(points))


def _start(tenure: Tenure) -> float:
    return tenure.start


def _asked(tenure: Tenure) -> float:
    return tenure.asked


def _order(write: Write) -> int:
    return write.order
