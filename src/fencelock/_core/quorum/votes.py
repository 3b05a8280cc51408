"""How a quorum counts: which node is first, what is a majority, until when it is proved. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from zlib import crc32

# How long a straggler is awaited once the others have decided; see ``node_timeout`` of a client.
NODE_SECONDS = 0.05
# A vote that is not decided waits this much longer for a majority, and so does the first node.
UNDECIDED_FACTOR = 10
FIRST_FACTOR = 4
# A node that failed a moment ago is asked last, and only where its vote is needed.
SUSPECT_SECONDS = 1.0


def majority(nodes: int) -> int:
    """Return how many nodes are more than half: two such groups have one in common."""
    return nodes // 2 + 1


def known_as(holder: bytes) -> bytes:
    """Return the id of a quorum's hold from one by which a single node knows it."""
    return holder.partition(b"~")[0]


def order(key: bytes, labels: Sequence[str]) -> list[int]:
    """Return the numbers of the nodes in the order in which everybody asks them for this lock.

    The same for all clients, however their lists are ordered, and another one for each lock, so
    that the load is spread.
    """
    ranked = sorted(range(len(labels)), key=labels.__getitem__)
    start = crc32(key) % len(ranked)
    return ranked[start:] + ranked[:start]


def proved_until(deadlines: Iterable[float], needed: int) -> float:
    """Return until when a majority of leases is proved: the k-th largest of their deadlines."""
    best = sorted(deadlines, reverse=True)
    return best[needed - 1] if len(best) >= needed else -inf


def decided(granted: int, pending: int, needed: int) -> bool:
    """Return True if the answers that are still to come can change nothing."""
    return granted >= needed or granted + pending < needed
