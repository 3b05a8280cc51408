"""Fair sampling on a noisy machine: everybody in turn, each beside the floor of the same moment.

A ratio is never that of two medians but the median of ratios, each of two samples that were taken
one after the other. Rounds in which the floor itself was disturbed do not count.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

QUIET = 1.6  # times the floor at its best: above it, the machine was busy with something else
QUIET_MIN = 3  # with fewer quiet samples than these, all count

Measure = Callable[[str], float]


@dataclass
class Samples:
    """Costs (seconds, or any unit of which less is better) by contestant, with their rounds."""

    filtered: bool = True
    costs: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    beside: dict[str, list[tuple[float, list[float]]]] = field(default_factory=dict)

    def add(self, name: str, number: int, cost: float, floors: Sequence[float] = ()) -> None:
        self.costs.setdefault(name, []).append((number, cost))
        if floors:
            self.beside.setdefault(name, []).append((cost, [*floors]))

    def median(self, name: str) -> float:
        return statistics.median(cost for _, cost in self.costs[name])

    def ratio_to_floor(self, name: str) -> float:
        """Return the median over quiet rounds of cost / floor beside it."""
        limit = self._quiet_limit() if self.filtered else math.inf
        kept = [each for each in self.beside[name] if max(each[1]) <= limit]
        if len(kept) < QUIET_MIN:
            kept = self.beside[name]
        return statistics.median(cost / statistics.fmean(floors) for cost, floors in kept)

    def over_floor(self, name: str) -> float:
        """Return the median of cost - floor beside it."""
        return statistics.median(
            cost - statistics.fmean(floors) for cost, floors in self.beside[name]
        )

    def ratio(self, name: str, other: str) -> float:
        """Return the median of cost / cost of the other, over the rounds that both were in."""
        mine, theirs = dict(self.costs[name]), dict(self.costs[other])
        return statistics.median(mine[each] / theirs[each] for each in mine.keys() & theirs.keys())

    def _quiet_limit(self) -> float:
        floors = sorted(max(floors) for each in self.beside.values() for _, floors in each)
        return QUIET * floors[len(floors) // 20]


@dataclass
class Plan:
    """How many rounds; peers take part in one of ``rarely_every``, ``always`` in each.

    ``short``: a sample takes milliseconds, so that each can have floors of its own beside it, and
    disturbed ones can be told. Where it takes a second, only ours has, and every round counts.
    """

    rounds: int
    short: bool = True
    rarely_every: int = 1
    always: Sequence[str] = ()  # others of ours
    seconds: float = math.inf  # no round begins later, but the first does


def alternate(measure: Measure, floor: str, ours: str, peers: Sequence[str], plan: Plan) -> Samples:
    """Measure everybody once a round, in shuffled order, with the floor on both sides.

    Between long samples a peer is compared with the latest floor.
    """
    samples = Samples(filtered=plan.short)
    order = random.Random(1)
    end = monotonic() + plan.seconds
    for number in range(plan.rounds):
        if number and monotonic() > end:
            break
        present = [ours, *plan.always, *(peers if number % plan.rarely_every == 0 else ())]
        order.shuffle(present)
        before, fresh = measure(floor), True
        for name in present:
            bracket = plan.short or name in {ours, *plan.always}
            if bracket and not fresh:
                before = measure(floor)
            cost = measure(name)
            after = measure(floor) if bracket else before
            samples.add(name, number, cost, (before, after))
            if bracket:
                samples.add(floor, number, after)
            before, fresh = after, bracket
    return samples
