"""Whether a node of a Cluster that answers as a master still is one.

Rules of this file:

- A master that was frozen and replaced serves for a moment what it is sent when it wakes up. What
  it says then must not be believed: its successor may say so, too.
- To replace a master takes a node timeout without a sign of life, a second at least. So who was
  alive and the master a second ago, and answers at once, is it still; each such answer proves it
  for another second.
- Where that was not proved, others are asked, after the answer, whom they take for the master. They
  say so by a redirect, which costs them nothing.
- Its replicas are asked first, all of them: one of them took its place, and knows before others do.
  If none answers, any other node does.
- Who is named instead is asked as well: a slot may just have moved, and its old master knows best.
- Where nobody else answers, the node is believed: whoever took its place would.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

from fencelock.clock import now

# How long a proof lasts; no node timeout is shorter.
SURE_SECONDS: Final = 1.0
# What takes longer may have waited in a frozen master.
PROMPT_SECONDS: Final = 0.2
# Who did not tell is not asked again for a while: each time might cost its timeout.
SILENT_SECONDS: Final = 5.0


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
        self._silent: dict[Node, float] = {}  # when they did not tell

    def covers(self, node: Node, said_at: float) -> bool:
        """Return True if what a node said at this instant counts."""
        return said_at - self._at.get(node, -inf) <= SURE_SECONDS

    def counts(self, node: Node, asked_at: float) -> bool:
        """Return True if the answer that came just now counts; then the next one may, too."""
        if now() - asked_at > PROMPT_SECONDS or not self.covers(node, asked_at):
            return False
        self._at[node] = asked_at
        return True

    def inquire(self, node: Node, replicas: Sequence[Node], others: Iterable[Node]) -> Inquiry:
        """Find out from others whether a node that has just answered is the master of a slot."""
        answered_at = now()
        agreed = yield from self._asked(node, replicas, enough=len(replicas))
        if agreed is None:
            agreed = yield from self._asked(node, others, enough=1)
        if agreed:
            self._at[node] = answered_at
        return agreed

    def _asked(self, node: Node, others: Iterable[Node], *, enough: int) -> Inquiry:
        """Ask so many others; False when one names another than this node, None for silence."""
        agreed = 0
        for other in others:
            if agreed == enough:
                break
            if now() - self._silent.get(other, -inf) < SILENT_SECONDS:
                continue
            named = yield other
            if named is None:
                self._silent[other] = now()
                continue
            if named not in {node, other}:
                named = (yield named) or named
            if named != node:
                return False
            agreed += 1
        return True if agreed else None
