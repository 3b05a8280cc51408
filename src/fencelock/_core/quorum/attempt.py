"""State of one quorum acquisition: the request per node, and the last round's failures.

An id that was given up is never used again: its undo may reach a node late, on another connection,
and would release what was granted there meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from fencelock._core.deadlines import validity
from fencelock._core.lock.hold import Grant, Hold
from fencelock._core.lock.renew import lose
from fencelock._core.lock.request import AcquireRequest, RequestTemplate
from fencelock._core.quorum.broadcast import NodeRequest, QuorumPort
from fencelock._core.quorum.lease import majority_of
from fencelock._core.quorum.membership import Claimant
from fencelock._core.quorum.votes import SUSPECT_SECONDS, order
from fencelock.errors import ServerError, ServerUnreachable


class QuorumAttempt(Claimant):
    """One acquisition: its request for each node, and the last round's errors and refusals."""

    def __init__(self, port: QuorumPort, want: AcquireRequest) -> None:
        self.port = port
        self.want = want
        self.wants = self._on_nodes()
        self.order = order(want.keys.lock, port.labels)
        self.rounds = 0
        self.stood = False  # we were in a node's line before it failed
        self.stand_at: int | None = None  # where a majority's holder is waited for
        self.failures: dict[int, Exception] = {}
        self.before: dict[int, Exception] = {}  # of the last round that had any
        self.refused: list[int] = []
        self.named = 0  # how many further ids were used
        # The parts of the other hold that this one is granted with: only their nodes can grant it.
        self.beside: dict[int, Hold] = {}

    def _on_nodes(self) -> list[AcquireRequest]:
        return [self.want.on(form) for form in node_forms(self.port, self.want.form)]

    def rename(self) -> None:
        """Continue with a new id: the old one was given up."""
        self.want.waiter = self.want.holder = self.port.new_id()
        self.wants, self.named = self._on_nodes(), 0

    def begin_round(self) -> None:
        """Forget the errors and refusals of the last round."""
        if self.rounds:
            self.rename()
        self.rounds += 1
        self.before = self.failures or self.before
        self.failures, self.refused = {}, []
        if self.want.other is not None:
            self.beside = majority_of(self.want.other).lasting()

    def candidates(self) -> list[int]:
        """Return the nodes to ask, in order; those that failed recently come last."""
        port, now = self.port, self.port.now()
        found = list(self.order)
        if self.want.other is not None:
            found = [node for node in found if node in self.beside]
        with port.mutex():
            for node in port.membership.without_vote(found):
                self.failures[node] = restarted(port, node, now)
                found.remove(node)
        if port.suspect or self.stand_at is not None:
            found.sort(key=lambda node: (self.suspect(node, now), node != self.stand_at))
        return found

    def votes(self, nodes: Iterable[int], fence: int) -> list[NodeRequest]:
        """Return the requests for the votes of further nodes; the fence is a lower bound."""
        now, asks = self.port.now(), []
        for node in nodes:
            want = self.wants[node]
            if want.form.ends < inf:
                want.lasting(now)
            asks.append(NodeRequest(node, want, want.vote(fence)))
        return asks

    def suspect(self, node: int, now: float) -> bool:
        """Return True if a node failed recently."""
        return self.port.suspect.get(node, 0.0) > now

    def count(self, asks: Iterable[NodeRequest], grants: dict[int, Grant]) -> None:
        """Sort the answers of further nodes into grants, refusals and failures."""
        for ask in asks:
            if ask.error is not None:
                self.failures[ask.node] = ask.error
            elif ask.good:
                ttl = ask.want.ttl
                grants[ask.node] = Grant(int(ask.reply), ask.asked_at + validity(ttl), ttl)
            else:
                self.refuse(ask.node)

    def refuse(self, node: int) -> None:
        """Note that a node refused; with another hold it means that it lacks that hold's lease."""
        self.refused.append(node)
        part = self.beside.pop(node, None)
        if part is not None:
            lose(self.port.nodes[node], part, "expired", self.port.now())

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
        alone = not self.refused or self.want.other is not None
        return bool(self.failures) and (alone or answered < self.port.needed)

    def ask_anew(self, node: int) -> None:
        """Use a new id for a node from now on: the last one is given up there."""
        self.named += 1
        want = self.want.on(node_forms(self.port, self.want.form)[node])
        want.waiter = want.holder = b"%b~%d" % (self.want.holder, self.named)
        self.wants[node] = want


def granted(ask: NodeRequest) -> bool:
    """Return True if the answer of a further node is a grant."""
    return isinstance(ask.reply, bytes)


def node_forms(port: QuorumPort, form: RequestTemplate) -> Sequence[RequestTemplate]:
    """Return a handle's requests for each node, made once."""
    made: Sequence[RequestTemplate] | None = getattr(form, "nodes", None)
    if made is None:
        terms = form.terms._replace(on_lost=None)
        made = form.nodes = tuple(form.on(node.client_channel, terms) for node in port.nodes)
    return made


def restarted(port: QuorumPort, node: int, now: float) -> ServerUnreachable:
    """Return the error for a node that may have forgotten a lease."""
    left = max(0.0, port.membership.votes_from(node) - now)
    return ServerUnreachable(
        f"it was restarted, and has no vote for another {left:.1f} s", code="RESTARTED"
    )
