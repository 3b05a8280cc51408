"""State of one quorum acquisition: the attempt at each node, and the last round's failures.

An id that was given up is never used again: its undo may reach a node late, on another connection,
and would release what was granted there meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from fencelock._core.deadlines import validity
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.terms import Terms
from fencelock._core.quorum.broadcast import Ballot, QuorumPort
from fencelock._core.quorum.membership import Claimant
from fencelock._core.quorum.votes import SUSPECT_SECONDS, order
from fencelock.errors import ServerError, ServerUnreachable


class QuorumAttempt(Claimant):
    """One acquisition: the attempt at each node, and the last round's errors and refusals."""

    def __init__(self, port: QuorumPort, attempt: Attempt) -> None:
        self.port = port
        self.attempt = attempt
        self.attempts = self._on_nodes()
        self.order = order(attempt.keys.lock, port.labels)
        self.rounds = 0
        self.stood = False  # we were in a node's line before it failed
        self.stand_at: int | None = None  # where a majority's holder is waited for
        self.failures: dict[int, Exception] = {}
        self.before: dict[int, Exception] = {}  # of the last round that had any
        self.refused: list[int] = []

    def _on_nodes(self) -> list[Attempt]:
        return [self.attempt.on(terms) for terms in node_terms(self.port, self.attempt.terms)]

    def rename(self) -> None:
        """Continue with a new id: the old one was given up."""
        self.attempt.id = self.attempt.holder_id = self.port.new_id()
        self.attempts = self._on_nodes()

    def begin_round(self) -> None:
        """Forget the errors and refusals of the last round."""
        if self.rounds:
            self.rename()
        self.rounds += 1
        self.before = self.failures or self.before
        self.failures, self.refused = {}, []

    def candidates(self) -> list[int]:
        """Return the nodes to ask, in order; those that failed recently come last."""
        port, now = self.port, self.port.now()
        found = list(self.order)
        with port.mutex:
            for node in port.membership.without_vote(found):
                self.failures[node] = restarted(port, node, now)
                found.remove(node)
        if port.suspect or self.stand_at is not None:
            found.sort(key=lambda node: (self.suspect(node, now), node != self.stand_at))
        return found

    def votes(self, nodes: Iterable[int], fence: int) -> list[Ballot]:
        """Return the requests for the votes of further nodes; the fence is a lower bound."""
        now, asks = self.port.now(), []
        for node in nodes:
            attempt = self.attempts[node]
            if attempt.terms.ends < inf:
                attempt.lasting(now)
            packed = attempt.terms.vote(attempt, attempt.ttl, fence)
            asks.append(Ballot(node, attempt, packed))
        return asks

    def suspect(self, node: int, now: float) -> bool:
        """Return True if a node failed recently."""
        return self.port.suspect.get(node, 0.0) > now

    def count(self, asks: Iterable[Ballot], grants: dict[int, Grant]) -> None:
        """Sort the answers of further nodes into grants, refusals and failures."""
        for ask in asks:
            if ask.error is not None:
                self.failures[ask.node] = ask.error
            elif ask.good:
                ttl = ask.about.ttl
                grants[ask.node] = Grant(int(ask.reply), ask.asked_at + validity(ttl), ttl)
            else:
                self.refused.append(ask.node)

    def fail(self, node: int, error: Exception) -> None:
        """Note that a node failed; one that was silent is avoided for a while."""
        self.failures[node] = error
        self.refused = [each for each in self.refused if each != node]
        if not isinstance(error, ServerError) or isinstance(error, ServerUnreachable):
            self.port.suspect[node] = self.port.now() + SUSPECT_SECONDS

    def prevented(self) -> bool:
        """Return True if errors, not other holders, prevented a majority.

        While a majority of the nodes answers, a node that refuses is worth waiting for.
        """
        answered = len(self.port.nodes) - len(self.failures)
        return bool(self.failures) and (not self.refused or answered < self.port.needed)


def granted(ask: Ballot) -> bool:
    """Return True if the answer of a further node is a grant."""
    return isinstance(ask.reply, bytes)


def node_terms(port: QuorumPort, terms: Terms) -> Sequence[Terms]:
    """Return a handle's terms at each node, made once."""
    made: Sequence[Terms] | None = getattr(terms, "nodes", None)
    if made is None:
        options = terms.options._replace(on_lost=None)
        made = terms.nodes = tuple(
            Terms(
                keys=terms.keys,
                options=options,
                client_channel=node.client_channel,
                ttl=terms.ttl,
                ends=terms.ends,
            )
            for node in port.nodes
        )
    return made


def restarted(port: QuorumPort, node: int, now: float) -> ServerUnreachable:
    """Return the error for a node that may have forgotten a lease."""
    left = max(0.0, port.membership.votes_from(node) - now)
    return ServerUnreachable(
        f"it was restarted, and has no vote for another {left:.1f} s", code="RESTARTED"
    )
