"""One acquisition of a quorum: what is asked of each node, and what stood against it.

An id that was given up is never asked with again: its undo may reach a node late, on another
connection, and would take what was granted there meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.fan import QuorumPort
from fencelock._core.votes import order
from fencelock._core.want import Form, Want
from fencelock.errors import ServerUnreachable


class Race:
    """One acquisition: its request for each node, and what stood against it in the last round."""

    def __init__(self, port: QuorumPort, want: Want) -> None:
        self.port = port
        self.want = want
        self.wants = self._on_nodes()
        self.order = order(want.keys.lock, port.labels)
        self.rounds = 0
        self.stood = False  # a node let us stand in line before it failed
        self.stand_at: int | None = None  # where a majority's holder is waited for
        self.failures: dict[int, Exception] = {}
        self.before: dict[int, Exception] = {}  # of the last round that had any
        self.refused: list[int] = []

    def _on_nodes(self) -> Sequence[Want]:
        return [self.want.on(form) for form in node_forms(self.port, self.want.form)]

    def rename(self) -> None:
        """Go on by a new id: the old one was given up."""
        self.want.waiter = self.want.holder = self.port.new_id()
        self.wants = self._on_nodes()

    def begin_round(self) -> None:
        """Forget what stood against the last one."""
        if self.rounds:
            self.rename()
        self.rounds += 1
        self.before = self.failures or self.before
        self.failures, self.refused = {}, []

    def candidates(self) -> list[int]:
        """Return the nodes to ask, in order; those that failed a moment ago come last."""
        port, now = self.port, self.port.now()
        found: list[int] = []
        with port.mutex():
            for node in self.order:
                if port.roster.votes(node) or not port.roster.reached(node):
                    found.append(node)
                else:
                    self.failures[node] = restarted(port, node, now)
        found.sort(key=lambda node: (self.ill(node, now), node != self.stand_at))
        return found

    def ill(self, node: int, now: float) -> bool:
        """Tell whether a node failed a moment ago."""
        return self.port.ill.get(node, 0.0) > now

    def prevented(self, granted: int) -> bool:
        """Tell whether errors, not other holders, stood between us and a majority."""
        if not self.failures:
            return False
        open_to_us = len(self.port.nodes) - len(self.refused)
        return granted < self.port.needed <= open_to_us


def node_forms(port: QuorumPort, form: Form) -> Sequence[Form]:
    """Return a handle's requests for each node, made once."""
    made: Sequence[Form] | None = getattr(form, "nodes", None)
    if made is None:
        terms = form.terms._replace(on_lost=None)
        made = form.nodes = tuple(form.on(node.home, terms) for node in port.nodes)
    return made


def restarted(port: QuorumPort, node: int, now: float) -> ServerUnreachable:
    """Return the error for a node that may have forgotten a lease."""
    left = max(0.0, port.roster.votes_from(node) - now)
    return ServerUnreachable(
        f"it was restarted, and does not vote for another {left:.1f} s", code="RESTARTED"
    )
