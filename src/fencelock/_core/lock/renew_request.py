"""The request that renews leases of one kind, and what its answer says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import LOCKS, PLAIN, SHARES, milliseconds
from fencelock._core.types import Call, Reply
from fencelock.errors import NotAcknowledged
from fencelock.scripts import POLL_RENEW, RENEW, SHARES_RENEW, begin, bulk

# Leases per command. The server needs half a millisecond, in which it serves no other client. From
# 100 on the command's own cost is negligible; with 500 each lease takes no less time
# (tests/scale/measure.py).
LEASES_PER_CALL = 200

# One silent call may hold up the others for at most this long, and at most a third of a lease.
CALL_SECONDS_MAX = 1.0
# Asks for nothing, because no renewal shortens a lease: the answer says whether it is still held.
LOOK_SECONDS = 0.001
# Until when a renewal may shorten a lease that it must not shorten, by the server's clock.
NEVER = 0

# Refusals by index, and NotAcknowledged if the remaining renewals were not replicated.
Answer = tuple[Mapping[int, str], NotAcknowledged | None]


def in_batches(kind: int, holds: Sequence[Hold]) -> Iterator[Sequence[Hold]]:
    """Split holds of one kind into batches that one command can renew."""
    size = 1 if kind == PLAIN else LEASES_PER_CALL
    for start in range(0, len(holds), size):
        yield holds[start : start + size]


def next_ttls(holds: Sequence[Hold], now: float) -> list[float]:
    """Return for how long to renew each lease, or that it is only looked at."""
    return [
        (hold.open and hold.steady) or (hold.next_ttl(now) if hold.renewable(now) else LOOK_SECONDS)
        for hold in holds
    ]


def answer_within(ttls: Sequence[float]) -> float:
    """Return how long a renewal of leases for so long waits for its answer."""
    shortest = min([ttl for ttl in ttls if ttl != LOOK_SECONDS], default=inf)
    return min(CALL_SECONDS_MAX, shortest / 3)


def renewal_request(
    holds: Sequence[Hold], ttls: Sequence[float], *, shortens_until: int = NEVER
) -> Call:
    """Return the request that renews holds of one kind, each for its ttl.

    It may make a lease end earlier until an instant of the server's clock, in microseconds, and
    never afterwards, whenever it runs. The plain form has no such bound: see ``Hold.limit``.
    """
    terms = holds[0].terms
    if terms.plain:
        return POLL_RENEW, terms.keys.plain, (holds[0].holder_id, milliseconds(ttls[0]))
    batch = terms.batch
    keys: list[bytes] = []
    told: list[bytes | int] = [b"2" if batch == LOCKS else b"3", shortens_until]
    texts = {ttl: b"%d" % milliseconds(ttl) for ttl in set(ttls)}
    for hold, ttl in zip(holds, ttls, strict=True):
        names = hold.terms.keys
        keys += names.renew if batch == LOCKS else names.renew_owned
        told += (hold.holder_id, texts[ttl])
    return SHARES_RENEW if batch == SHARES else RENEW, keys, told


def packed_renewal(
    holds: Sequence[Hold], ttls: Sequence[float], *, shortens_until: int = NEVER
) -> bytes:
    """Return the same request in wire form, joined of what was packed for each lease once.

    Not of the plain form.
    """
    packed = [
        kept
        if (kept := hold.renewal)[0] == ttl and kept[1] is hold.holder_id
        else hold.pack_renewal(ttl)
        for hold, ttl in zip(holds, ttls, strict=True)
    ]
    batch = holds[0].terms.batch
    script, each = SHARES_RENEW if batch == SHARES else RENEW, 2 if batch == LOCKS else 3
    beginning = begin(script, each * len(holds), 2 + 2 * len(holds))
    how = bulk(b"%d" % each) + bulk(b"%d" % shortens_until)
    keys, words = [each[2] for each in packed], [each[3] for each in packed]
    return b"".join((beginning, *keys, how, *words))


def refusals(holds: Sequence[Hold], reply: Reply) -> Mapping[int, str]:
    """Return which holds are refused, by their index, and how."""
    if holds[0].terms.plain:
        return {} if reply else {0: "taken"}
    return {reply[at] - 1: reply[at + 1].decode() for at in range(0, len(reply), 2)}
