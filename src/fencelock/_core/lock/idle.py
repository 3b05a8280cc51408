"""Ask clients what the server cannot know; each answers by a message, if it is not frozen.

A client takes and gives back a lease that it keeps without a command: see kept.py. Without an
answer, in a moment, such a lease counts as used. And who waits in a cohort only its client knows:
see local_waiters.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fencelock._core.keys import LockKeys
from fencelock._core.lock import local_waiters
from fencelock._core.lock.kept import known_idle
from fencelock._core.port import Port
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply
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


async def is_idle(port: Port, keys: LockKeys, holder: bytes) -> bool:
    """Return True if the holder's client says that it does not use its lease."""
    known = known_idle(port, holder)
    if known is not None:
        return known
    asks = [(keys, lambda waiter: (ASK, keys.renew, (holder, waiter.channel, waiter.id)))]
    (waiter,) = await _answered(port, asks, ANSWER_SECONDS, far=0.0)
    return waiter.idle


async def local_rows(
    port: Port, clients: Mapping[bytes, LockKeys], until: float
) -> Sequence[local_waiters.Row]:
    """Return who waits inside the clients of these channels, each asked about one lock first."""
    found: list[local_waiters.Row] = []
    if port.client_channel in clients:
        found += local_waiters.rows(port, clients[port.client_channel].lock)
    asks = [
        (keys, partial(_who_waits, client_channel, keys))
        for client_channel, keys in clients.items()
        if client_channel != port.client_channel
    ]
    for at in range(0, len(asks), AT_ONCE):
        if port.now() < until:
            some = asks[at : at + AT_ONCE]
            for waiter in await _answered(port, some, LOCAL_SECONDS, far=FAR_SECONDS):
                found += local_waiters.unpack(waiter.said) or ()
    return found


def _who_waits(client_channel: bytes, keys: LockKeys, waiter: Seat) -> Call:
    about = b"%b %b %b" % (waiter.channel, waiter.id, keys.lock)
    return ANSWER, keys.plain, (client_channel, about, b"inside?")


async def _answered(
    port: Port,
    asks: Sequence[tuple[LockKeys, Callable[[Seat], Call]]],
    span: float,
    far: float,
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
