"""Ask the server to renew leases: one command for many of one kind.

Where replicas count: see ``renew_batch_confirmed`` in acknowledge.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew_request import (
    Answer,
    packed_renewal,
    refusals,
    renewal_request,
)
from fencelock._core.port import Port


async def renew_batch(  # noqa: PLR0917 - as ``Flows.renew_batch``
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    ends: float,  # noqa: ARG001 - as ``renew_batch_confirmed``
    shortens_until: int,
) -> Answer:
    """Renew holds of one kind; ends like ``Port.call``."""
    terms = holds[0].terms
    if terms.plain:
        reply = await port.call(*renewal_request(holds, ttls), until)
    else:
        packed = packed_renewal(holds, ttls, shortens_until=shortens_until)
        reply = await port.run(packed, terms.keys.lock, until)
    return refusals(holds, reply), None
