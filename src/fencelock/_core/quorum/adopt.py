"""The hold of another process over a quorum: known by its id, and by nothing else."""

from __future__ import annotations

from typing import cast

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.port import Port
from fencelock._core.quorum.attempt import node_terms
from fencelock._core.quorum.broadcast import QuorumPort
from fencelock._core.quorum.lease import NodeHold, majority_of, make_hold
from fencelock._core.quorum.votes import order


def adopted(port: Port, attempt: Attempt, ttl: float, hold_type: type[Hold]) -> Hold:
    """Return a hold with a part at every node: which of them granted it is not known.

    A node that did not grant it does no harm: it refuses, and a majority decides.
    """
    many = cast("QuorumPort", port)
    first = order(attempt.keys.lock, many.labels)[0]
    hold = make_hold(many, attempt, 0, hold_type, None, first=first)
    for node, terms in enumerate(node_terms(many, attempt.terms)):
        one = attempt.on(terms)
        one.id = one.holder_id = attempt.holder_id
        part = NodeHold(port, one, 0, port.now() + ttl)
        part.port = None  # nothing renews it
        majority_of(hold).join(node, part)
    return hold
