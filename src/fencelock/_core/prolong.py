"""Ask the server to prolong leases: one command for many of one kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencelock._core.acknowledge import acknowledged
from fencelock._core.hold import Hold
from fencelock._core.port import Port
from fencelock._core.renewal import question, refusals
from fencelock._core.waiters import Waiter
from fencelock.errors import NotAcknowledged

# Which holds were refused, by their index, and how; and why none of the others counts, if so.
Answer = tuple[Mapping[int, str], NotAcknowledged | None]


async def prolong(
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,
    *,
    shortens: bool = False,
) -> Answer:
    """Renew holds of one kind; ends like ``Port.call``.

    An answer comes by ``until``; replicas, where they count, may take until ``ends``.
    """
    asked = question(holds, ttls, shortens=shortens)
    if port.replicas is None:
        return refusals(holds, await port.call(*asked, until)), None
    waiter = Waiter(holds[0].want)
    try:
        await port.open(waiter, until, listen=False)
        refused = refusals(holds, await port.call(*asked, until, waiter))
        if len(refused) < len(holds):
            try:
                await acknowledged(port, waiter, ends)
            except NotAcknowledged as missing:
                return refused, missing
        return refused, None
    finally:
        port.close(waiter)
