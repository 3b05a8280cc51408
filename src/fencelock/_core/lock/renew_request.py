"""The request that renews leases of one kind, and what its answer says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.request import LOCKS, PLAIN, SHARES, milliseconds
from fencelock._core.types import Reply, Request
from fencelock.errors import NotAcknowledged
from fencelock.scripts import POLL_RENEW, RENEW, SHARES_RENEW

# Leases per command. The server needs half a millisecond, in which it serves no other client. From
# 100 on the command's own cost is negligible; with 500 each lease takes no less time
# (tests/scale/measure.py).
LEASES_PER_CALL = 200

# Refusals by index, and NotAcknowledged if the remaining renewals were not replicated.
Answer = tuple[Mapping[int, str], NotAcknowledged | None]


def in_batches(kind: int, holds: list[Hold]) -> Iterator[list[Hold]]:
    """Split holds of one kind into batches that one command can renew."""
    size = 1 if kind == PLAIN else LEASES_PER_CALL
    for start in range(0, len(holds), size):
        yield holds[start : start + size]


def renewal_request(
    holds: Sequence[Hold], ttls: Sequence[float], *, shortens: bool = False
) -> Request:
    """Return the request that renews holds of one kind, each for its ttl.

    Unless it ``shortens`` it never makes a lease end earlier, whenever it may run. The plain form
    has no such request: see ``Hold.reach``.
    """
    want = holds[0].want
    if want.plain:
        return POLL_RENEW, want.keys.plain, (want.holder, milliseconds(ttls[0]))
    batch = want.form.batch
    keys: list[bytes] = []
    told: list[bytes | int] = [b"2" if batch == LOCKS else b"3", b"1" if shortens else b"0"]
    texts = {ttl: b"%d" % milliseconds(ttl) for ttl in set(ttls)}
    for hold, ttl in zip(holds, ttls, strict=True):
        want = hold.want
        keys += want.keys.renew if batch == LOCKS else want.keys.renew_owned
        told += (want.holder, texts[ttl])
    return SHARES_RENEW if batch == SHARES else RENEW, keys, told


def refusals(holds: Sequence[Hold], reply: Reply) -> Mapping[int, str]:
    """Return which holds are refused, by their index, and how."""
    if holds[0].want.plain:
        return {} if reply else {0: "taken"}
    return {reply[at] - 1: reply[at + 1].decode() for at in range(0, len(reply), 2)}
