"""Whether a history could have happened one call after the other: a linearizability check.

Wing and Gong's search in Lowe's form: calls and returns are met in the order of time; kept are all
*configurations*, which are a state and the calls that took effect but have not returned. When a
call returns, those configurations stay in which it can have taken effect by then.

Rules of this file:

- A call that never returns (``ended`` is infinite) may take effect at any later time, or never.
- Calls and returns at the same instant are concurrent.
- A search that grows beyond its budget raises TooHard: it is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

BUDGET = 200_000


class TooHard(Exception):
    """So many configurations that the search was given up."""


@dataclass(frozen=True, eq=False)
class Call:
    """One operation of a history: what was asked and answered, and between which instants."""

    do: str  # acquire, release, renew, expire, refused
    lease: str
    begun: float
    ended: float = math.inf
    weight: int = 1
    fence: int | None = None  # None: it is not known

    def __repr__(self) -> str:
        fence = "" if self.fence is None else f" fence {self.fence}"
        return f"<{self.do} {self.lease}{fence}: {self.begun:.6f} to {self.ended:.6f}>"


class Model(Protocol):
    """A sequential object."""

    @property
    def start(self) -> Hashable:
        """Return the state before all calls."""

    def step(self, state: Any, call: Call) -> Hashable | None:
        """Return the state after a call with its answer, or None when it cannot be answered so."""

    def over(self, state: Any, call: Call) -> bool:
        """Return True if a call without end can do nothing any more, from this state on."""


Config = tuple[Hashable, frozenset[Call]]


def first_impossible(calls: Iterable[Call], model: Model, budget: int = BUDGET) -> Call | None:
    """Return the first call whose answer has no explanation, or None: the history is right.

    Raises:
        TooHard: there were more than ``budget`` configurations at once.
    """
    configs: set[Config] = {(model.start, frozenset())}
    pending: set[Call] = set()
    granted: set[str] = set()  # leases whose acquire has returned: none of them comes again
    for at, call in _events(calls):
        if at == call.begun and call not in pending:
            pending.add(call)
            continue
        configs = _returned(configs, pending, call, model, budget)
        if not configs:
            return call
        pending.discard(call)
        if call.do == "acquire":
            granted.add(call.lease)
        configs = _without_what_is_over(configs, pending, granted, model)
    return None


def _events(calls: Iterable[Call]) -> Sequence[tuple[float, Call]]:
    """Return each call's begin and return in the order of time, begins first."""
    every = list(calls)
    begins = [(call.begun, 0, number, call) for number, call in enumerate(every)]
    ends = [(call.ended, 1, number, call) for number, call in enumerate(every)]
    finite = [event for event in begins + ends if event[0] < math.inf]
    return [(at, call) for at, _, _, call in sorted(finite, key=lambda event: event[:3])]


def _returned(
    configs: set[Config], pending: set[Call], call: Call, model: Model, budget: int
) -> set[Config]:
    """Return the configurations in which the call took effect, by whatever others before it."""
    seen, left = set(configs), list(configs)
    kept: set[Config] = set()
    while left:
        state, done = left.pop()
        if call in done:
            kept.add((state, done - {call}))
            continue
        for other in pending - done:
            after = model.step(state, other)
            config = (after, done | {other})
            if after is not None and config not in seen:
                seen.add(config)
                left.append(config)
        if len(seen) > budget:
            raise TooHard(f"more than {budget} configurations at {call}")
    return kept


def _without_what_is_over(
    configs: set[Config], pending: set[Call], granted: set[str], model: Model
) -> set[Config]:
    """Drop calls that never return and can do nothing any more: they only cost time."""
    over = {
        call
        for call in pending
        if call.ended == math.inf
        and call.lease in granted
        and all(model.over(state, call) for state, _ in configs)
    }
    if not over:
        return configs
    pending -= over
    return {(state, done - over) for state, done in configs}
