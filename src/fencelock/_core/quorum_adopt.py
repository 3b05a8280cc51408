"""The hold of another process over a quorum: known by its id, and by nothing else."""

from __future__ import annotations

from typing import cast

from fencelock._core.fan import QuorumPort
from fencelock._core.hold import Hold, Taker
from fencelock._core.port import Port
from fencelock._core.quorum_hold import NodeLease, QuorumHold, make_hold
from fencelock._core.race import node_forms
from fencelock._core.votes import order
from fencelock._core.want import Want
from fencelock.lease import BaseLease


def adopted(port: Port, want: Want, ttl: float, lease_type: type[BaseLease]) -> QuorumHold:
    """Return a hold with a part at every node, as nobody knows which of them granted it.

    A node that did not is no harm: it refuses, and a majority decides.
    """
    many = cast("QuorumPort", port)
    first = order(want.keys.lock, many.labels)[0]
    hold = make_hold(many, want, 0, Taker(lease_type), None, first=first)
    for node, form in enumerate(node_forms(many, want.form)):
        one = want.on(form)
        one.waiter = one.holder = want.holder
        lease = NodeLease(one.keys.name, 0, one.holder, ttl, port.now() + ttl, port.now)
        hold.join(node, Hold(one, lease, port.now()))
    return hold
