"""Ask other clients what the server cannot know: whether a lease is in use.

A client takes and gives back a lease that it keeps without a command: see tenure.py. So whether it
is idle is asked of that client, by a message to its channel. Without an answer, in a moment, it
counts as used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencelock._core.keys import LockKeys
from fencelock._core.lock.tenure import tenure_of
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import ServerError
from fencelock.scripts import ASK

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# How long an answer may take.
CLIENT_SECONDS = 0.25


async def is_idle(port: Engine, keys: LockKeys, holder: bytes) -> bool:
    """Return True if the holder's client says that it does not use its lease."""
    with port.mutex:
        line = tenure_of(port, holder)
        known = None if line is None else line.kept is not None
    if known is not None:  # it is this client's
        return known
    asks = [(keys, lambda waiter: (ASK, keys.renew, (holder, waiter.channel, waiter.id)))]
    (waiter,) = await answered(port, asks, CLIENT_SECONDS, far=0.0)
    return waiter.idle


async def answered(
    port: Engine, asks: Sequence[tuple[LockKeys, Callable[[Seat], Call]]], span: float, far: float
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
