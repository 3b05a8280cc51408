"""All orders in which events can come; a search for an explanation that is too plain to err."""

import math
from collections.abc import Iterator, Sequence

from verification.runs.wgl import Call


def interleavings(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield every order of events of several sequences, as the numbers of the sequences."""
    if not any(lengths):
        yield []
    for number, left in enumerate(lengths):
        if left:
            rest = [*lengths[:number], left - 1, *lengths[number + 1 :]]
            yield from ([number, *order] for order in interleavings(rest))


def instants(order: Sequence[int]) -> list[list[float]]:
    """Return the instants of each sequence's events, where one event follows the other."""
    found: list[list[float]] = [[] for _ in range(max(order) + 1)]
    for at, number in enumerate(order):
        found[number].append(float(at))
    return found


def explained(calls: Sequence[Call], model, state=None) -> bool:
    """Try every order of the calls that time allows; pending ones may be left out."""
    state = model.start if state is None else state
    if all(call.ended == math.inf for call in calls):
        return True
    soonest = min(call.ended for call in calls)
    for call in calls:
        if call.begun <= soonest:
            after = model.step(state, call)
            rest = [other for other in calls if other is not call]
            if after is not None and explained(rest, model, after):
                return True
    return False
