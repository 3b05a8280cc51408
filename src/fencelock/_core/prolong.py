"""Ask the server to prolong leases: one command for many of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fencelock._core.acknowledge import acknowledged
from fencelock._core.hold import Hold
from fencelock._core.port import Port
from fencelock._core.renewal import Answer, question, refusals
from fencelock._core.waiter import Waiter
from fencelock.errors import NotAcknowledged


async def prolong(  # noqa: PLR0917 - as ``Flows.prolong``
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,  # noqa: ARG001 - as ``prolong_confirmed``
    shortens: bool,  # noqa: FBT001 - as ``Flows.prolong``
) -> Answer:
    """Renew holds of one kind; ends like ``Port.call``."""
    asked = question(holds, ttls, shortens=shortens)
    return refusals(holds, await port.call(*asked, until)), None


async def prolong_confirmed(  # noqa: PLR0917 - as ``Flows.prolong``
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,
    shortens: bool,  # noqa: FBT001 - as above
) -> Answer:
    """Renew holds of one kind where replicas count; they may take until ``ends``."""
    asked = question(holds, ttls, shortens=shortens)
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
