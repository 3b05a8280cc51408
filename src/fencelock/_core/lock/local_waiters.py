"""Show who waits inside a client, for people: the server knows only the front of a cohort.

Rules of this file:

- A client is asked by a message to its channel, and answers by one. Nothing is kept for that, and
  nothing is sent while no person looks.
- An answer has a bound: it begins with the lock that was asked about.
- Without an answer, in a moment, only what the server knows is shown: the client may be frozen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from fencelock._core.port import Port
from fencelock._runtime.records import NamedTuple
from fencelock.scripts import ANSWER

ANSWER_BYTES_MAX = 32_768
ROWS_MAX = 100


class Row(NamedTuple):
    """A thread or task of a cohort."""

    lock: str  # the key of the lock
    info: str  # as ``describe`` made it
    seconds: float  # for which it has held it, or waited
    holds: bool  # it has the turn


def answer(port: Port, channel: bytes, who: bytes, lock: bytes) -> None:
    """Answer who waits in the cohorts of this client."""
    text = pack(rows(port, lock))
    port.run_in_background(ANSWER, (lock,), (channel, b"%b %b" % (who, text), b"inside"))


def rows(port: Port, lock: bytes) -> list[Row]:
    """Return who has the turn and who waits in cohorts; that of a lock first.

    A lone first turn is left out: the server knows it.
    """
    with port.mutex:
        lines = [line for line in port.lines.cohorts.values() if line.waiting or line.turns > 1]
        lines.sort(key=lambda line: line.keys.lock != lock)
        found = [row for line in lines[:ROWS_MAX] for row in _of_line(line, port.now())]
    return found[:ROWS_MAX]


def _of_line(line: Any, now: float) -> Iterator[Row]:
    key, turn = _text(line.keys.lock), line.turn()
    if turn is not None:
        who, since = turn
        yield Row(key, _text(who.own_info), max(0.0, now - since), holds=True)
    for waiter in line.waiting:
        yield Row(key, _text(waiter.info), now - waiter.arrived_at, holds=False)


def pack(found: Sequence[Row]) -> bytes:
    """Return rows as text; as many as a message may have."""
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    return text if len(text) <= ANSWER_BYTES_MAX else pack(found[: len(found) // 2])


def unpack(text: bytes) -> list[Row] | None:
    """Return the rows that a text says; None when it says none: any program may send it."""
    if len(text) > ANSWER_BYTES_MAX:
        return None
    try:
        found = [Row(*each) for each in json.loads(text)]
        fit = all(
            [type(word) for word in row] == [str, str, float, bool] and 0 <= row.seconds < inf
            for row in found
        )
    except (ValueError, TypeError, RecursionError):
        return None
    return found if fit and len(found) <= ROWS_MAX else None


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
