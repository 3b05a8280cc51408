"""Ask the server to renew leases: one command for many of one kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencelock._core.lock.acknowledge import confirmed
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew_request import (
    NEVER,
    Answer,
    packed_renewal,
    refusals,
    renewal_request,
)
from fencelock._core.port import Port
from fencelock._core.types import NoReply, Reply
from fencelock.errors import FencelockError


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

        def renewed(reply: Reply) -> bool:
            return len(refusals(holds, reply)) < len(holds)

        reply, missing = await confirmed(port, holds[0], asked, until, ends=ends, wrote=renewed)
        return refusals(holds, reply), missing
    if terms.plain:
        reply = await port.call(*renewal_request(holds, ttls), until)
    else:
        packed = packed_renewal(holds, ttls, shortens_until=shortens_until)
        reply = await port.run(packed, terms.keys.lock, until)
    return refusals(holds, reply), None


def at_once(port: Port) -> int:
    """Return how many batches one node is sent at once: replicas acknowledge one at a time."""
    return port.together if port.replicas is None else 1


async def renew_batches(
    port: Port,
    batches: Sequence[Sequence[Hold]],
    ttls: Sequence[Sequence[float]],
    until: float,
    ends: float,
) -> Sequence[tuple[Mapping[int, str], Exception | None]]:
    """Renew so many batches of one node; return for each the refusals, or what it would raise."""
    if at_once(port) == 1:
        try:
            return [await renew_batch(port, batches[0], ttls[0], until, ends, NEVER)]
        except (NoReply, FencelockError) as error:
            return [({}, error)]
    requests = [renewal_request(batch, each) for batch, each in zip(batches, ttls, strict=True)]
    return [
        ({}, answer) if isinstance(answer, Exception) else (refusals(batch, answer), None)
        for batch, answer in zip(batches, await port.run_together(requests, until), strict=True)
    ]
