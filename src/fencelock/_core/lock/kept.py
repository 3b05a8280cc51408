"""Leases that stay with their client for a moment after a release (``linger``).

Rules of this file (DESIGN §9; I1, I7):

- A lease is kept only by the release of a turn for which no waiter of this client waits, and only
  while this client hears recalls. Little of it is left on the server: a client that dies or freezes
  stops the others for ``HANDOFF_TTL_SECONDS`` at most.
- The next turn begins without a command, and only while the lease proves enough.
- A recall is answered by a release if the lease is idle. If it is in use, this turn is the last.
- After ``RECALLS_IN_VAIN`` recalls (see waiting.py) without a turn of this client in between,
  a lock is not kept for ``PAUSE_SECONDS``: others want it more often than this client does.
- A recall may come before the grant that it is about: it is remembered.
- A message is a hint: if it is lost, an idle lease ends after ``linger`` all the same.
- Whether a lease is idle is asked of its client, by a message to its channel. Without an answer,
  in a moment, it counts as used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencelock._core import events
from fencelock._core.keys import LockKeys
from fencelock._core.lock.terms import TRIES
from fencelock._core.port import Port
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply
from fencelock.errors import ServerError
from fencelock.scripts import ANSWER, ASK

# How long an answer of another client may take.
ANSWER_SECONDS = 0.25


def recall(port: Port, holder: bytes, channel: bytes, who: bytes) -> None:
    """Take a recall: release an idle lease at once, and answer a try if the lease is in use."""
    lines = port.lines
    with port.mutex:
        line = lines.recalls.tenures.get(holder)
        if line is None:
            lines.recalls.early(holder)
            return
        kept = line.recall(port.now())
        about = line.front if kept is None else kept.source
    if events.hooks and about is not None:
        events.recalled(port, about)
    if kept is not None:
        port.run_in_background(*kept.release)
    elif who.startswith(TRIES):
        port.run_in_background(ANSWER, line.terms.keys.plain, (channel, who, b"busy"))


def asked(port: Port, holder: bytes, channel: bytes, who: bytes) -> None:
    """Answer whether the lease of a tenure is in use; of one that is not known, nothing."""
    with port.mutex:
        line = port.lines.recalls.tenures.get(holder)
    if line is not None:
        port.run_in_background(ANSWER, line.terms.keys.plain, (channel, who, _state(line)))


def _state(line: Any) -> bytes:
    return b"idle" if line.kept is not None else b"busy"


async def is_idle(port: Port, keys: LockKeys, holder: bytes) -> bool:
    """Return True if the holder's client says that it does not use its lease."""
    with port.mutex:
        line = port.lines.recalls.tenures.get(holder)
        known = None if line is None else line.kept is not None
    if known is not None:  # it is this client's
        return known
    asks = [(keys, lambda waiter: (ASK, keys.renew, (holder, waiter.channel, waiter.id)))]
    (waiter,) = await answered(port, asks, ANSWER_SECONDS, far=0.0)
    return waiter.idle


async def answered(
    port: Port, asks: Sequence[tuple[LockKeys, Callable[[Seat], Call]]], span: float, far: float
) -> Sequence[Seat]:
    """Ask clients, and wait a moment for their answers; return the waiters that may have them."""
    waiters = [Seat.of(keys, port.new_id()) for keys, _ in asks]
    ends = [0.0] * len(waiters)
    until = port.now() + port.server_timeout
    try:
        for number, (waiter, (_, question)) in enumerate(zip(waiters, asks, strict=True)):
            if not port.open_now(waiter, listen=True):
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


def give_up_due(port: Port, now: float) -> None:
    """Release the idle leases whose time is up."""
    with port.mutex:
        lines = port.renewals.overdue(now)
        released = [kept for line in lines if (kept := line.overdue(port, now)) is not None]
    for kept in released:
        port.run_in_background(*kept.release)


def give_up_all(port: Port) -> None:
    """Release all idle leases."""
    with port.mutex:
        lines = list(port.lines.recalls.tenures.values())
        released = [kept for line in lines if (kept := line.give_up()) is not None]
    for kept in released:
        port.run_in_background(*kept.release)
