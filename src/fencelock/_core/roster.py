"""Which nodes of a quorum may vote. Pure: ``now`` comes in as an argument.

Rules of this file:

- A node that was restarted may have forgotten a lease. It does not vote until the longest ttl in
  use has passed since its start: then no lease is left that it could have forgotten.
- It is told by its run id, which is new after a restart, while its uptime is short. Each node keeps
  the run ids of all that vote (``roster.lua``), for clients that never met it before.
- Where nobody ever knew anybody, all are new, and vote at once. That takes an answer of them all:
  who did not answer might have known.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

# A roster is kept for so long after it was last written, and written this often while in use.
KEPT_SECONDS = 86400.0
REWRITE_SECONDS = 3600.0
# ``uptime_in_seconds`` is a whole number.
UPTIME_SLACK = 1.0


class Seen:
    """What one node said of itself when we last connected."""

    __slots__ = ("run_id", "started_at")

    def __init__(self, run_id: bytes, started_at: float) -> None:
        self.run_id = run_id
        self.started_at = started_at


class Roster:
    """What a client knows of its nodes. Call everything under the port's mutex."""

    __slots__ = ("_known", "_seen", "heard", "longest", "met", "nodes", "written", "written_at")

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._seen: dict[int, Seen] = {}
        self._known: set[bytes] = set()  # run ids that voted at some time
        self.heard: set[int] = set()  # nodes whose roster we read
        self.longest = 0.0  # the longest ttl in use, in seconds
        self.met = False
        self.written: frozenset[bytes] = frozenset()
        self.written_at = -inf

    def saw(self, node: int, run_id: bytes, uptime: float, now: float) -> None:
        """Note what a node says of itself."""
        seen = self._seen.get(node)
        if seen is None or seen.run_id != run_id:
            self._seen[node] = Seen(run_id, now - uptime)

    def read(self, node: int, longest: float, run_ids: Iterable[bytes]) -> None:
        """Note what a node remembers."""
        self.heard.add(node)
        self.longest = max(self.longest, longest)
        self._known.update(run_ids)

    def judge(self) -> None:
        """Let all nodes vote that are new together; call when the rosters were read once."""
        if not self.met and not self._known and len(self.heard) == len(self._seen) == self.nodes:
            self._known.update(seen.run_id for seen in self._seen.values())
        self.met = True

    def votes_from(self, node: int) -> float:
        """Return the instant from which a node votes: long ago for most."""
        seen = self._seen.get(node)
        if seen is None:
            return inf  # never reached
        if seen.run_id in self._known:
            return -inf
        return seen.started_at + self.longest + UPTIME_SLACK

    def votes(self, node: int, now: float) -> bool:
        """Tell whether a node votes; one that has waited long enough is known from here on."""
        seen = self._seen.get(node)
        if seen is None:
            return False
        if seen.run_id in self._known:
            return True
        if not self.met or now < seen.started_at + self.longest + UPTIME_SLACK:
            return False
        self._known.add(seen.run_id)
        return True

    def reached(self, node: int) -> bool:
        """Tell whether a node ever said who it is."""
        return node in self._seen

    def voters(self, now: float) -> frozenset[bytes]:
        """Return the run ids of the nodes that vote now."""
        return frozenset(seen.run_id for node, seen in self._seen.items() if self.votes(node, now))

    def stale(self, ttl: float, now: float) -> bool:
        """Tell whether the rosters lack something that the next client must know."""
        if not self.met or ttl > self.longest or now - self.written_at > REWRITE_SECONDS:
            return True
        return len(self.written) < len(self._seen) and self.voters(now) != self.written


def parse_info(text: bytes) -> tuple[bytes, float]:
    """Return the run id and the uptime in seconds from the answer to ``INFO server``."""
    lines = dict(line.partition(b":")[::2] for line in text.splitlines())
    return lines.get(b"run_id", b""), float(lines.get(b"uptime_in_seconds", b"0"))
