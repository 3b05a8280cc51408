"""Ask clients what the server cannot know: whether a lease is in use, and who waits inside them.

A client takes and gives back a lease that it keeps without a command: see tenure.py. And of a
cohort the server knows only the front.

Rules of this file:

- A client is asked by a message to its channel, and answers by one. Nothing is kept for that, and
  nothing is sent while no person looks.
- An answer has a bound: it begins with the lock that was asked about.
- Without an answer, in a moment, the client may be frozen: only what the server knows is shown, and
  a lease counts as used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf

from fencelock._core.keys import LockKeys
from fencelock._core.lock.tenure import Tenure, known_idle
from fencelock._core.port import Port
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply
from fencelock._runtime.records import NamedTuple
from fencelock.errors import ServerError
from fencelock.scripts import ANSWER, ASK

# How long an answer may take.
ANSWER_SECONDS = 0.25
# How long one may take if no client heard the question at the server that was asked: in a Cluster
# it may be at another node.
FAR_SECONDS = 0.03
# How long clients may take to say who waits inside them, and how many are asked at once.
LOCAL_SECONDS = 0.1
AT_ONCE = 16
# How much one says of them.
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
    found: list[Row] = []
    with port.mutex:
        tenures = [one for one in port.lines.cohorts.values() if isinstance(one, Tenure)]
        lines = [line for line in tenures if line.waiting or line.turns > 1]
        lines.sort(key=lambda line: line.terms.keys.lock != lock)
        for line in lines[:ROWS_MAX]:
            key, now = _text(line.terms.keys.lock), port.now()
            if (turn := line.turn()) is not None:
                who, since = turn
                found.append(Row(key, _text(who.own_info), max(0.0, now - since), holds=True))
            waiting = [(_text(one.info), now - one.arrived_at) for one in line.waiting]
            found += [Row(key, *each, holds=False) for each in waiting]
    return found[:ROWS_MAX]


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


# -- asking ----------------------------------------------------------------------------------------


async def is_idle(port: Port, keys: LockKeys, holder: bytes) -> bool:
    """Return True if the holder's client says that it does not use its lease."""
    known = known_idle(port, holder)
    if known is not None:
        return known
    asks = [(keys, lambda waiter: (ASK, keys.renew, (holder, waiter.channel, waiter.id)))]
    (waiter,) = await _answered(port, asks, ANSWER_SECONDS, far=0.0)
    return waiter.idle


async def local_rows(port: Port, clients: Mapping[bytes, LockKeys], until: float) -> Sequence[Row]:
    """Return who waits inside the clients of these channels, each asked about one lock first."""
    found: list[Row] = []
    if port.client_channel in clients:
        found += rows(port, clients[port.client_channel].lock)
    asks = [
        (keys, partial(_who_waits, client_channel, keys))
        for client_channel, keys in clients.items()
        if client_channel != port.client_channel
    ]
    for at in range(0, len(asks), AT_ONCE):
        if port.now() < until:
            some = asks[at : at + AT_ONCE]
            for waiter in await _answered(port, some, LOCAL_SECONDS, far=FAR_SECONDS):
                found += unpack(waiter.said) or ()
    return found


def _who_waits(client_channel: bytes, keys: LockKeys, waiter: Seat) -> Call:
    about = b"%b %b %b" % (waiter.channel, waiter.id, keys.lock)
    return ANSWER, keys.plain, (client_channel, about, b"inside?")


async def _answered(
    port: Port, asks: Sequence[tuple[LockKeys, Callable[[Seat], Call]]], span: float, far: float
) -> Sequence[Seat]:
    """Ask clients, and wait a moment for their answers; return the waiters that may have them."""
    waiters = [Seat.of(keys, port.new_id()) for keys, _ in asks]
    ends = [0.0] * len(waiters)
    until = port.now() + port.server_timeout
    try:
        for number, (waiter, (_, question)) in enumerate(zip(waiters, asks, strict=True)):
            await port.open(waiter, until, listen=True)
            sent = await port.call(*question(waiter), until, waiter)
            ends[number] = port.now() + (span if sent else far)
        for waiter, end in zip(waiters, ends, strict=True):
            if not waiter.news and port.now() < end:
                await port.wait(waiter, min(until, end))
    except (NoReply, ServerError):
        pass  # what the server knows is shown
    finally:
        for waiter in waiters:
            port.close(waiter)
    return waiters
