"""Ask the server to renew leases: one command for many of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fencelock._core.lock.acknowledge import confirm
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew_request import (
    Answer,
    packed_renewal,
    refusals,
    renewal_request,
)
from fencelock._core.port import Port
from fencelock._core.seat import Seat
from fencelock._core.types import Call
from fencelock.errors import NotAcknowledged


async def renew_batch(  # noqa: PLR0917 - what a renewal says, and its two bounds
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,
    shortens_until: int,
) -> Answer:
    """Renew holds of one kind by an instant; ends like ``Port.call``.

    Replicas may take until ``ends``. Leases may become shorter until ``shortens_until``, by the
    server's clock.
    """
    terms = holds[0].terms
    if port.replicas is not None:
        asked = renewal_request(holds, ttls, shortens_until=shortens_until)
        return await _confirmed(port, holds, asked, until, ends)
    if terms.plain:
        reply = await port.call(*renewal_request(holds, ttls), until)
    else:
        packed = packed_renewal(holds, ttls, shortens_until=shortens_until)
        reply = await port.run(packed, terms.keys.lock, until)
    return refusals(holds, reply), None


async def _confirmed(
    port: Port, holds: Sequence[Hold], asked: Call, until: float, ends: float
) -> Answer:
    """Renew on a connection of its own, where replicas must have the renewal."""
    seat = Seat.of(holds[0].terms.keys, holds[0].id)
    try:
        await port.open(seat, until, listen=False)
        refused = refusals(holds, await port.call(*asked, until, seat))
        if len(refused) < len(holds):
            try:
                await confirm(port, seat, ends, inf)
            except NotAcknowledged as missing:
                return refused, missing
        return refused, None
    finally:
        port.close(seat)
