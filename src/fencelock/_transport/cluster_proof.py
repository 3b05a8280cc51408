"""Whether a node of a Cluster that answers as a master still is one.

Rules of this file:

- A master that was frozen and replaced serves for a moment what it is sent when it wakes up. What
  it says then must not be believed: its successor may say so, too.
- To replace a master takes a node timeout without a sign of life, a second at least. So who was
  alive and the master a second ago, and answers at once, is it still; each such answer proves it
  for another second.
- Where that was not proved, another node is asked, after the answer, whom it takes for the master.
  It says so by a redirect, which costs it nothing. Who is named instead is asked as well: a slot
  may just have moved, and its old master knows best.
- Where nobody else answers, the node is believed: whoever took its place would.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from math import inf
from typing import Final, NamedTuple

from fencelock.clock import now

# How long a proof lasts; no node timeout is shorter.
SURE_SECONDS: Final = 1.0
# What takes longer may have waited in a frozen master.
PROMPT_SECONDS: Final = 0.2


class Node(NamedTuple):
    """Where one node of a Cluster is."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


# Yields whom to ask for the master of a slot, is sent whom that names; returns whether that is the
# node that answered, None when nobody told.
Inquiry = Generator[Node, Node | None, bool | None]


class Proofs:
    """When each node was last known to be alive and a master. Each change is one assignment."""

    def __init__(self) -> None:
        self._at: dict[Node, float] = {}
        self._teller: Node | None = None  # who was last asked and answered

    def covers(self, node: Node, said_at: float) -> bool:
        """Tell whether what a node said at this instant counts."""
        return said_at - self._at.get(node, -inf) <= SURE_SECONDS

    def counts(self, node: Node, asked_at: float) -> bool:
        """Tell whether the answer that came just now counts; then the next one may, too."""
        if now() - asked_at > PROMPT_SECONDS or not self.covers(node, asked_at):
            return False
        self._at[node] = asked_at
        return True

    def inquire(self, node: Node, others: Iterable[Node]) -> Inquiry:
        """Find out from others whether a node that has just answered is the master of a slot."""
        answered_at = now()
        for other in sorted(others, key=lambda each: each != self._teller):
            named = yield other
            if named is None:
                continue
            self._teller = other
            if named not in {node, other}:
                named = yield named
            if named == node:
                self._at[node] = answered_at
            return named == node
        return None
