"""Ask the server to renew leases: one command for many of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fencelock._core.lock.acknowledge import acknowledged
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew_request import Answer, refusals, renewal_request
from fencelock._core.lock.waiter import Waiter
from fencelock._core.port import Port
from fencelock.errors import NotAcknowledged


async def renew_batch(  # noqa: PLR0917 - as ``Flows.renew_batch``
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,  # noqa: ARG001 - as ``renew_batch_confirmed``
    shortens: bool,  # noqa: FBT001 - as ``Flows.renew_batch``
) -> Answer:
    """Renew holds of one kind; ends like ``Port.call``."""
    asked = renewal_request(holds, ttls, shortens=shortens)
    return refusals(holds, await port.call(*asked, until)), None


async def renew_batch_confirmed(  # noqa: PLR0917 - as ``Flows.renew_batch``
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,
    shortens: bool,  # noqa: FBT001 - as above
) -> Answer:
    """Renew holds of one kind where replicas count; they may take until ``ends``."""
    asked = renewal_request(holds, ttls, shortens=shortens)
    waiter = Waiter(holds[0].want)
    try:
        await port.open(waiter, until, listen=False)
        refused = refusals(holds, await port.call(*asked, until, waiter))
        if len(refused) < len(holds):
            try:
                await acknowledged(port, waiter, ends, inf)
            except NotAcknowledged as missing:
                return refused, missing
        return refused, None
    finally:
        port.close(waiter)
