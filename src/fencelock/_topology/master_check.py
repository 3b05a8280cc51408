"""Check whether a node of a Cluster that answers as a master still is one.

Rules of this file:

- A master that was frozen and replaced still serves requests for a moment when it wakes up. Those
  answers must not be trusted: its successor may have granted the same lock.
- Replacing a master takes a node timeout without a sign of life, a second at least. So a node that
  was the master a second ago, and answers at once, is still the master; each such answer proves it
  for another second.
- If that was not proved, other nodes are asked, after the answer, which node is the master. They
  answer with a redirect, which costs them nothing.
- All its replicas are asked first: a successor was one of them, and knows before other nodes do. If
  none answers, any other node is asked.
- A node that is named instead is asked as well: a slot may just have moved, and its old master
  knows best.
- If no other node answers, the node is trusted: its successor would answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

from fencelock._runtime.clock import now

# How long a proof lasts; no node timeout is shorter.
SURE_SECONDS: Final = 1.0
# An answer that takes longer may have waited in a frozen master.
PROMPT_SECONDS: Final = 0.2
# A node that did not answer is not asked again for a while: each time may cost its timeout.
SILENT_SECONDS: Final = 5.0


class NodeAddress(NamedTuple):
    """The address of one node of a Cluster."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


# Asks a node for the master of the slot; None when it does not say.
Named = Callable[[NodeAddress], Awaitable[NodeAddress | None]]


class MasterCheck:
    """When each node was last known to be alive and a master. Each change is one assignment."""

    def __init__(self, now: Callable[[], float] = now) -> None:
        self._now = now
        self._at: dict[NodeAddress, float] = {}
        self._silent: dict[NodeAddress, float] = {}  # when they did not say

    def covers(self, node: NodeAddress, said_at: float) -> bool:
        """Return True if a node's answer of this instant counts."""
        return said_at - self._at.get(node, -inf) <= SURE_SECONDS

    def note(self, node: NodeAddress, at: float) -> None:
        """Note that a node was alive and a master at an instant."""
        self._at[node] = at

    def counts(self, node: NodeAddress, asked_at: float) -> bool:
        """Return True if the answer that has just come counts; then the next one may, too."""
        late = self._now() - asked_at > PROMPT_SECONDS
        if late or asked_at - self._at.get(node, -inf) > SURE_SECONDS:  # as ``covers``
            return False
        self._at[node] = asked_at
        return True

    async def inquire(
        self,
        node: NodeAddress,
        replicas: Sequence[NodeAddress],
        others: Iterable[NodeAddress],
        named: Named,
    ) -> bool | None:
        """Return True if other nodes confirm that a node that has just answered is the master.

        None when no other node says.
        """
        answered_at = self._now()
        agreed = await self._asked(node, replicas, named, enough=len(replicas))
        if agreed is None:
            agreed = await self._asked(node, others, named, enough=1)
        if agreed:
            self.note(node, answered_at)
        return agreed

    async def _asked(
        self, node: NodeAddress, others: Iterable[NodeAddress], named: Named, *, enough: int
    ) -> bool | None:
        """Ask other nodes; False when one names a node other than this, None for silence."""
        agreed = 0
        for other in others:
            if agreed == enough:
                break
            if self._now() - self._silent.get(other, -inf) < SILENT_SECONDS:
                continue
            master = await named(other)
            if master is None:
                self._silent[other] = self._now()
                continue
            if master not in {node, other}:
                master = await named(master) or master
            if master != node:
                return False
            agreed += 1
        return True if agreed else None
