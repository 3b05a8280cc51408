"""Counting votes: the order of the nodes, the majority, and until when it is proved. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf
from zlib import crc32

# How long a straggler is awaited once the others have decided; see ``node_timeout`` of a client.
NODE_SECONDS = 0.05
# An undecided vote waits this many times longer for a majority, and so does the first node.
UNDECIDED_FACTOR = 10
FIRST_FACTOR = 4
# A node that failed this recently is asked last, and only if its vote is needed.
SUSPECT_SECONDS = 1.0


def majority(nodes: int) -> int:
    """Return how many nodes are a majority: any two majorities have a node in common."""
    return nodes // 2 + 1


def known_as(holder: bytes) -> bytes:
    """Return the id of a quorum's hold, given the id that a single node knows it by."""
    return holder.partition(b"~")[0]


def agreed(ids: Iterable[bytes], needed: int) -> bytes | None:
    """Return the id that as many answers have as are needed, or None."""
    value, count = Counter(map(known_as, ids)).most_common(1)[0]
    return value if value and count >= needed else None


def order(key: bytes, labels: Sequence[str]) -> list[int]:
    """Return the numbers of the nodes in the order in which clients ask them for this lock.

    It is the same for all clients, however their lists are ordered, and different for each lock, so
    that the load is spread.
    """
    return [*_order(key, tuple(labels))]


@lru_cache(maxsize=1024)
def _order(key: bytes, labels: tuple[str, ...]) -> Sequence[int]:
    ranked = sorted(range(len(labels)), key=labels.__getitem__)
    start = crc32(key) % len(ranked)
    return ranked[start:] + ranked[:start]


def proved_until(deadlines: Iterable[float], needed: int) -> float:
    """Return until when a majority of leases is proved: the k-th largest of their deadlines."""
    best = sorted(deadlines, reverse=True)
    return best[needed - 1] if len(best) >= needed else -inf


def decided(granted: int, pending: int, needed: int) -> bool:
    """Return True if the outstanding answers can change nothing."""
    return granted >= needed or granted + pending < needed
