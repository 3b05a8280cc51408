"""Ask the server to prolong leases: one command for many of one kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencelock._core.acknowledge import acknowledged
from fencelock._core.hold import Hold
from fencelock._core.port import Port
from fencelock._core.waiters import Waiter
from fencelock._core.want import LOCKS, SHARES, milliseconds
from fencelock.errors import NotAcknowledged
from fencelock.scripts import KEEP, RENEW, SHARES_RENEW

# Which holds were refused, by their index, and how; and why none of the others counts, if so.
Answer = tuple[Mapping[int, str], NotAcknowledged | None]


async def prolong(
    port: Port, holds: Sequence[Hold], ttls: Sequence[float], until: float, ends: float
) -> Answer:
    """Renew holds of one kind; ends like ``Port.call``.

    An answer comes by ``until``; replicas, where they count, may take until ``ends``.
    """
    if port.replicas is None:
        return await _ask(port, holds, ttls, until), None
    waiter = Waiter(holds[0].want)
    try:
        await port.open(waiter, until, listen=False)
        refused = await _ask(port, holds, ttls, until, waiter)
        if len(refused) < len(holds):
            try:
                await acknowledged(port, waiter, ends)
            except NotAcknowledged as missing:
                return refused, missing
        return refused, None
    finally:
        port.close(waiter)


async def _ask(
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    until: float,
    waiter: Waiter | None = None,
) -> Mapping[int, str]:
    """Return which are refused, by their index, and how."""
    want = holds[0].want
    if want.plain:
        args = (want.holder, milliseconds(ttls[0]))
        kept = await port.call(KEEP, want.keys.plain, args, until, waiter)
        return {} if kept else {0: "taken"}
    batch = want.form.batch
    keys: list[bytes] = []
    told: list[bytes | int] = [b"2" if batch == LOCKS else b"3"]
    texts = {ttl: b"%d" % milliseconds(ttl) for ttl in set(ttls)}
    for hold, ttl in zip(holds, ttls, strict=True):
        want = hold.want
        keys += want.keys.renew if batch == LOCKS else want.keys.renew_owned
        told += (want.holder, texts[ttl])
    script = SHARES_RENEW if batch == SHARES else RENEW
    reply = await port.call(script, keys, told, until, waiter)
    return {reply[at] - 1: reply[at + 1].decode() for at in range(0, len(reply), 2)}
