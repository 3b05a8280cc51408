"""The nodes of a quorum: which may vote, and what votes decide. Pure: ``now`` is an argument.

Rules of this file:

- A node that was restarted may have forgotten a lease. It does not vote until the longest ttl in
  use has passed since its start: then no lease is left that it could have forgotten.
- When it started is not asked of the node: a clock that is set after a boot makes its uptime any
  number. It started before this client first saw its run id, and before other clients did, who
  have the nodes remember when (``membership.lua``). One clock may be wrong: such a memory counts
  when two other nodes agree.
- Leases of more than a minute are claimed: each client that has some publishes how long they can
  last, and gives the claim up with the last of them. So a long lease that was released or has
  expired keeps no node from voting.
- Claims that were read before a node was restarted say nothing about what it may have forgotten:
  they are read again first.
- A restart is recognised by a new run id. Each node keeps the run ids of all voters
  (``membership.lua``), for clients that never connected to it before.
- If no node has a record of any other, all are new and vote at once. That takes the answers of so
  many other nodes that one of them would have a record: membership is written to a majority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf
from zlib import crc32

from fencelock._core.deadlines import DRIFT_RATE, validity
from fencelock._runtime.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from fencelock._core.quorum.acquire import QuorumAttempt
    from fencelock._core.quorum.lease import Majority

# A membership record is kept this long after it was last written, and rewritten while in use.
KEPT_SECONDS = 86400.0
REWRITE_SECONDS = 3600.0
# Leases that are longer than this are claimed; shorter ones count by the longest ttl in use.
LONG_SECONDS = 60.0
# A claim lasts for so many ttls: it covers renewed leases until the claim itself is renewed.
CLAIMED_TTLS = 3.0
# While a claim keeps a node from voting, the membership is read again this often.
REREAD_SECONDS = 1.0
# A node that started so much later than we think is believed: no two clocks run at one rate.
START_SLACK = 1.0
# So many other nodes must remember how long a node has been up: one of their clocks may be wrong.
WITNESSES = 2
# How long a straggler is awaited once the others have decided; see ``node_timeout`` of a client.
NODE_SECONDS = 0.05
# An undecided vote waits this many times longer for a majority, and so does the first node.
UNDECIDED_FACTOR = 10
FIRST_FACTOR = 4
# A node that failed this recently is asked last, and only if its vote is needed.
SUSPECT_SECONDS = 1.0


class Membership:
    """What a client knows of its nodes. Call everything under the port's mutex."""

    def __init__(self, nodes: int) -> None:
        self.nodes: int = nodes
        # The run id of a node, as of our last connection, and when we first saw it.
        self._seen: dict[int, bytes] = {}
        self._seen_at: dict[int, float] = {}
        self._run_ids: frozenset[bytes] = frozenset()  # of the nodes
        self._told: set[bytes] = set()  # run ids that the nodes have recorded as voters
        self._known: set[bytes] = set()  # those, and those that we let vote
        # Run id without a vote, and a node -> since when that one remembers it, by our clock.
        self._witnesses: dict[tuple[bytes, int], float] = {}
        self.heard: set[int] = set()  # nodes whose membership record was read
        self.longest: float = 0.0  # the longest ttl in use, in seconds, of those up to a minute
        # The longest ttl that any client claims, and until when claims last by our clock.
        self.longest_claimed: float = 0.0
        self.claimed_until: float = -inf
        self.read_at: float = -inf
        # Our own claim: which holds and requests it is for, their longest ttl, and when it ends;
        # as it was sent, and as a majority has it.
        self.claimants: set[Majority | QuorumAttempt] = set()
        self.claim_number: int = 0
        self.claim_asked_ttl: float = 0.0
        self.claim_asked_until: float = -inf
        self.claim_ttl: float = 0.0
        self.claim_until: float = -inf
        self.met: bool = False
        self.written: frozenset[bytes] = frozenset()
        self.written_at: float = -inf

    def saw(self, node: int, run_id: bytes, now: float) -> None:
        """Note a node's run id."""
        seen = self._seen.get(node)
        if seen != run_id:
            if seen is not None:
                self._told.add(seen)
            self._seen[node], self._seen_at[node] = run_id, now
            self._run_ids = frozenset(self._seen.values())
            self.heard = set()  # what was read before says nothing about this start

    def twins(self) -> list[int]:
        """Return nodes that are one server under several names: their run ids are equal."""
        ids = [*filter(None, self._seen.values())]
        if len(set(ids)) == len(ids):
            return []
        return [node for node, run_id in self._seen.items() if ids.count(run_id) > 1]

    def read(self, node: int, longest: float, words: Iterable[bytes], now: float) -> None:
        """Note a node's membership record; its words are those of ``membership.lua``."""
        self.heard.add(node)
        self.longest = max(self.longest, longest)
        for word in words:
            run_id, _, since_ms = word.partition(b" ")
            if since_ms:
                since = now - int(since_ms) / 1000 * (1 - DRIFT_RATE)
                self._witnesses[run_id, node] = since
            else:
                self._told.add(run_id)
        self._known |= self._told

    def read_claims(self, claims: Sequence[tuple[float, float]], now: float) -> None:
        """Note the claims on the nodes: the longest ttl, and how many seconds each still lasts.

        Earlier knowledge counts as long as so few nodes answer that they may have missed a claim.
        """
        if len(claims) > self.nodes - majority(self.nodes) + 1:
            self.longest_claimed, self.claimed_until = 0.0, -inf
        for ttl, left in claims:
            if ttl > 0:
                self.longest_claimed = max(self.longest_claimed, ttl)
                self.claimed_until = max(self.claimed_until, now + left * (1 + DRIFT_RATE))
        self.read_at = now

    def claim(self, ttl: float, now: float) -> tuple[int, float, float]:
        """Return the number of a new claim, the longest ttl that it is for, and when it ends."""
        self.claim_number += 1
        self.claim_asked_ttl = claimed = max(ttl, self.claim_asked_ttl)
        until = now + validity(CLAIMED_TTLS * claimed)
        self.claim_asked_until = max(self.claim_asked_until, until)
        return self.claim_number, claimed, self.claim_asked_until

    def claim_holds(self, ttl: float, until: float) -> None:
        """Note that a majority has a claim; a later claim is never shorter."""
        self.claim_ttl, self.claim_until = max(ttl, self.claim_ttl), max(until, self.claim_until)

    def drop_claim(self) -> int:
        """Return the number of the claim to give up, or 0 when there is none."""
        if self.claimants or not self.claim_asked_ttl:
            return 0
        self.claim_ttl = self.claim_asked_ttl = 0.0
        self.claim_until = self.claim_asked_until = -inf
        self.claim_number += 1
        return self.claim_number

    def covers(self, ttl: float, now: float) -> bool:
        """Return True if a lease of this length that is taken now needs no further claim."""
        return ttl <= LONG_SECONDS or (ttl <= self.claim_ttl and now + ttl <= self.claim_until)

    def judge(self) -> None:
        """Let all nodes vote if all of them are new; call after membership records were read."""
        self.met = True
        if self._told - self._run_ids:
            return  # a known voter is missing; an unknown node may be it after a restart
        enough = self.nodes - majority(self.nodes) + 1
        new = [node for node in self._seen if len(self.heard - {node}) >= enough]
        self._known.update(self._seen[node] for node in new)

    def votes_from(self, node: int) -> float:
        """Return the instant from which a node may vote: long ago for most."""
        run_id = self._seen.get(node)
        if run_id is None:
            return inf  # never connected
        if run_id in self._known:
            return -inf
        return self._forgets_nothing_from(node)

    def _forgets_nothing_from(self, node: int) -> float:
        """Return the instant from which every lease that a node can have forgotten has expired."""
        started_at = self._started_by(node)
        claimed = min(started_at + self.longest_claimed, self.claimed_until)
        return max(started_at + self.longest, claimed) + START_SLACK

    def _started_by(self, node: int) -> float:
        """Return an instant by which a node had started."""
        run_id, seen_at = self._seen[node], self._seen_at[node]
        others = sorted(
            since for (of, by), since in self._witnesses.items() if of == run_id and by != node
        )
        return min([seen_at, *others[WITNESSES - 1 : WITNESSES]])

    def eligible(self, node: int, now: float) -> bool:
        """Return True if a node may vote; one that has waited long enough is a known voter then."""
        run_id = self._seen.get(node)
        if run_id is None:
            return False
        if run_id in self._known:
            return True
        if not self.met or len(self.heard) < majority(self.nodes):
            return False
        if now < self._forgets_nothing_from(node):
            return False
        self._known.add(run_id)
        return True

    def without_vote(self, nodes: Iterable[int]) -> list[int]:
        """Return the nodes of these that are identified, and whose vote does not count."""
        seen, written = self._seen, self.written
        if self._run_ids <= written:
            return []
        return [node for node in nodes if node in seen and seen[node] not in written]

    def voters(self, now: float) -> frozenset[bytes]:
        """Return the run ids of the nodes that may vote now."""
        nodes = self._seen.items()
        return frozenset(run_id for node, run_id in nodes if self.eligible(node, now))

    def waiting(self, now: float) -> list[bytes]:
        """Return the run ids of the nodes that may not vote yet."""
        nodes = self._seen.items()
        return [run_id for node, run_id in nodes if not self.eligible(node, now)]

    def unsure(self, now: float) -> bool:
        """Return True if some nodes would get their vote once all others have been read."""
        again = self.claimed_until > now >= self.read_at + REREAD_SECONDS
        return bool(self.waiting(now)) and (again or len(self.heard) < self.nodes)

    def stale(self, ttl: float, now: float) -> bool:
        """Return True if the nodes' records lack something that the next client must know."""
        if not self.met or now - self.written_at > REWRITE_SECONDS:
            return True
        if not self.covers(ttl, now) or self.longest < ttl <= LONG_SECONDS:
            return True
        if self._run_ids <= self._known:  # nearly always: all may vote
            return not self._run_ids <= self.written
        return self.unsure(now) or not self.voters(now) <= self.written


def run_id_of(text: bytes) -> bytes:
    """Return the run id from the answer to ``INFO server``."""
    return dict(line.partition(b":")[::2] for line in text.splitlines()).get(b"run_id", b"")


# -- counting votes -----------------------------------------------------------------------------


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


@lru_cache(maxsize=1024)
def order(key: bytes, labels: tuple[str, ...]) -> Sequence[int]:
    """Return the numbers of the nodes in the order in which clients ask them for this lock.

    It is the same for all clients, however their lists are ordered, and different for each lock, so
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
    """Return True if the outstanding answers can change nothing."""
    return granted >= needed or granted + pending < needed
