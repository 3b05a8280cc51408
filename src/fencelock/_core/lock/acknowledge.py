"""Have replicas acknowledge a grant or a renewal before it counts.

Rules of this file:

- Replicas are asked on the caller's own connection: a master that was promoted in between must not
  answer for the one that granted.
- Too few acknowledgements in time are an error (I12); the caller undoes the grant (I9) or leaves
  the lease as it was. A broken connection gives no count: the request is repeated (I4).
- Waiting for replicas uses up the lease: its deadline stays what it was (I2). The wait is bounded
  by the replicas' own timeout, by the lease, and by the caller's timeout (I13).
- A release needs no acknowledgement: if a failover loses it, the lock stays held for longer, but
  never by two. The end of a ``once`` needs one: a run that was reported as done must not run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import cast

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew_request import Answer, refusals, renewal_request
from fencelock._core.port import CountingPort, Port, Replicas
from fencelock._core.retry import persist
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply
from fencelock.errors import NotAcknowledged

# When the caller's time is up, replicas get this much more: I13 allows 100 ms.
LAST_SECONDS = 0.03


async def acknowledged(port: Port, seat: Seat, deadline: float, give_up_at: float) -> None:
    """Return once enough replicas have what the seat's connection brought.

    Raises NotAcknowledged when too few have it in time, NoReply when the connection is gone, and a
    ServerError when the server cannot count them.
    """
    replicas = _replicas(port)
    until = min(port.now() + replicas.timeout, deadline, give_up_at + LAST_SECONDS)
    _judge(port, seat, replicas, await replicas.acknowledge(seat, until), deadline)


def confirm_seconds(port: Port) -> float:
    """Return how long replicas may take to acknowledge."""
    return _replicas(port).timeout


def _replicas(port: Port) -> Replicas:
    return cast("CountingPort", port).replicas


def _judge(port: Port, seat: Seat, replicas: Replicas, count: int, deadline: float) -> None:
    if count < replicas.wanted or port.now() >= deadline:
        raise NotAcknowledged(
            f"{seat.keys.name!r}: {count} of {replicas.wanted} replica(s) acknowledged"
            " the grant or renewal in time",
            name=seat.keys.name,
            acknowledged=count,
            wanted=replicas.wanted,
        )


async def ask_acknowledged(
    port: Port, hold: Hold, call: Call, until: float, log: Seat
) -> tuple[Reply, NotAcknowledged | None]:
    """Ask like ``ask``, on a connection of its own; return the answer.

    The second value is the error if too few replicas have the write, else None.
    """
    seat = Seat.of(hold.terms.keys, hold.id)

    async def once() -> tuple[Reply, NotAcknowledged | None]:
        await port.open(seat, until, listen=False)
        reply = await port.call(*call, until, seat)
        try:
            await acknowledged(port, seat, inf, inf)
        except NotAcknowledged as missing:
            return reply, missing
        return reply, None

    try:
        answer: tuple[Reply, NotAcknowledged | None] = await persist(port, once, until, log)
        return answer
    finally:
        port.close(seat)


async def renew_batch_confirmed(  # noqa: PLR0917 - as ``Flows.renew_batch``
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,
    shortens_until: int,
) -> Answer:
    """Renew holds of one kind where replicas count; they may take until ``ends``."""
    asked = renewal_request(holds, ttls, shortens_until=shortens_until)
    seat = Seat.of(holds[0].terms.keys, holds[0].id)
    try:
        await port.open(seat, until, listen=False)
        refused = refusals(holds, await port.call(*asked, until, seat))
        if len(refused) < len(holds):
            try:
                await acknowledged(port, seat, ends, inf)
            except NotAcknowledged as missing:
                return refused, missing
        return refused, None
    finally:
        port.close(seat)
