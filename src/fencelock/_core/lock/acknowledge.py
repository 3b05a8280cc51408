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

from collections.abc import Callable
from math import inf

from fencelock._core.lock.hold import Hold
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import NotAcknowledged

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# When the caller's time is up, replicas get this much more: I13 allows 100 ms.
LAST_SECONDS = 0.03


async def confirm(port: Engine, seat: Seat, deadline: float, give_up_at: float) -> None:
    """Return once enough replicas have what the seat's connection brought; at once if none count.

    Raises NotAcknowledged when too few have it in time, NoReply when the connection is gone, and a
    ServerError when the server cannot count them.
    """
    replicas = port.replicas
    if replicas is None:
        return
    until = min(port.now() + replicas.timeout, deadline, give_up_at + LAST_SECONDS)
    count, wanted = await replicas.acknowledge(seat, until), replicas.wanted
    if count < wanted or port.now() >= deadline:
        raise NotAcknowledged(
            f"{seat.keys.name!r}: {count} of {wanted} replica(s) acknowledged"
            " the grant or renewal in time",
            name=seat.keys.name,
            acknowledged=count,
            wanted=wanted,
        )


async def confirmed(
    port: Engine,
    hold: Hold,
    call: Call,
    until: float,
    *,
    ends: float = inf,
    counts: Callable[[Reply], bool] = bool,
) -> tuple[Reply, NotAcknowledged | None]:
    """Run a script on a connection of its own, where replicas count; they have until ``ends``.

    Returns the answer, and the error if it ``counts`` and too few replicas have the write.
    """
    seat = Seat.of(hold.terms.keys, hold.id)
    try:
        await port.open(seat, until, listen=False)
        reply = await port.call(*call, until, seat)
        if counts(reply):
            try:
                await confirm(port, seat, ends, inf)
            except NotAcknowledged as missing:
                return reply, missing
        return reply, None
    finally:
        port.close(seat)
