"""The hold of another process over a quorum: known by its id, and by nothing else."""

from __future__ import annotations

from typing import cast

from fencelock._core.lock.hold import Hold, HoldRegistry
from fencelock._core.lock.request import AcquireRequest
from fencelock._core.port import Port
from fencelock._core.quorum.attempt import node_templates
from fencelock._core.quorum.broadcast import QuorumPort
from fencelock._core.quorum.lease import NodeHold, majority_of, make_hold
from fencelock._core.quorum.votes import order


def adopted(port: Port, request: AcquireRequest, ttl: float, hold_type: type[Hold]) -> Hold:
    """Return a hold with a part at every node: which of them granted it is not known.

    A node that did not grant it does no harm: it refuses, and a majority decides.
    """
    many = cast("QuorumPort", port)
    first = order(request.keys.lock, many.labels)[0]
    hold = make_hold(many, request, 0, HoldRegistry(hold_type), None, first=first)
    for node, template in enumerate(node_templates(many, request.template)):
        one = request.on(template)
        one.waiter = one.holder = request.holder
        part = NodeHold(port, one, 0, port.now() + ttl)
        part.port = None  # nothing renews it
        majority_of(hold).join(node, part)
    return hold
