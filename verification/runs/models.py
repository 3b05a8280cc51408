"""The objects as one call after the other: what each answer says about the state.

Rules of this file:

- A lease lasts until it is released or *expires*; a call ``expire`` that begins at its deadline and
  never ends says that the server may drop it at any time from then on, and not before (I2).
- One model serves all: an object with a limit, and leases that each take a part of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from verification.runs.checker import WRITER
from verification.runs.wgl import Call

State = tuple[frozenset[tuple[str, int]], int]  # leases with their weights; the last fence


@dataclass(frozen=True)
class Leases:
    """An object that has ``limit`` to give; with ``fenced`` each grant's fence is higher."""

    limit: int = 1
    fenced: bool = False
    start: Hashable = (frozenset(), 0)

    def step(self, state: State, call: Call) -> State | None:
        """Return the state after a call with its answer, or None when it cannot be answered so."""
        held, last = state
        taken = sum(weight for _, weight in held)
        mine = (call.lease, call.weight)
        match call.do:
            case "acquire":
                if taken + call.weight > self.limit or (fence := self._next(last, call)) is None:
                    return None
                return held | {mine}, fence
            case "release" | "expire":
                return (held - {mine}, last) if mine in held else None
            case "renew":
                return state if mine in held else None
            case "refused":
                return state if taken + call.weight > self.limit else None
        raise ValueError(f"no such call: {call}")

    def over(self, state: State, call: Call) -> bool:
        """Return True if an end can do nothing any more, as what it would end is not there."""
        return call.do in {"release", "expire"} and (call.lease, call.weight) not in state[0]

    def _next(self, last: int, call: Call) -> int | None:
        if not self.fenced or call.fence is None:
            return last
        return call.fence if call.fence > last else None


def mutex() -> Leases:
    """Return a lock with leases."""
    return Leases()


def fenced_mutex() -> Leases:
    """Return a lock with leases whose fences grow."""
    return Leases(fenced=True)


def semaphore(limit: int) -> Leases:
    """Return a semaphore."""
    return Leases(limit, fenced=True)


def reader_writer() -> Leases:
    """Return a reader/writer lock."""
    return Leases(WRITER, fenced=True)
