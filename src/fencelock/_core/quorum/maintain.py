"""Maintain and release the leases of a quorum, and re-acquire missing parts.

Rules of this file:

- The parts are renewed by their nodes' ports. This file notifies of a lost majority (I8).
- A node that lost its part while the majority holds is asked for it again, at the interval of
  renewals, and with another id: the undo of the last one may arrive late (see attempt.py).
- A release goes to all parts, the first node last: the next holder there finds the others free.
  Silent nodes are released in the background.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.attempt_log import AttemptLog
from fencelock._core.deadlines import validity
from fencelock._core.lock.acquire import begin
from fencelock._core.lock.hold import Grant, Hold
from fencelock._core.lock.release import clean_up as clean_up_part
from fencelock._core.lock.release import lost_as, request, retire
from fencelock._core.lock.renew import (
    HolderRenewal,
    apply_renewal,
    holder_renewal,
    lose,
    rely_on,
    reserve,
    track_renewed,
)
from fencelock._core.lock.renew_request import renewal_request
from fencelock._core.quorum.attempt import node_forms
from fencelock._core.quorum.broadcast import (
    NodeRequest,
    QuorumPort,
    broadcast,
    not_reached,
    post_all,
    released,
    retry_in_background,
    undo,
)
from fencelock._core.quorum.lease import PARTS, Majority, drop_node_leases, majority_of
from fencelock._core.quorum.refresh import claim as claim_long
from fencelock._core.quorum.refresh import give_up_claim, longest_of, refresh, refresh_while_held

# How many leases are re-acquired in one go: a node that forgot many gets them back gradually.
REACQUIRED_AT_ONCE = 50


async def maintain(port: QuorumPort) -> None:
    """Do what is due: notify of losses, re-acquire missing parts. Never raises a server's error."""
    now = port.now()
    with port.mutex():
        due = port.book.due(now)
    try:
        lasting = [hold for hold in due if not _lost(port, hold, now)]
        heals = [hold for hold in lasting if now >= majority_of(hold).reacquire_at]
        for hold in heals[:REACQUIRED_AT_ONCE]:
            await _reacquire(port, hold)
        if due:
            await refresh_while_held(port, max((hold.want for hold in due), key=longest_of))
    finally:  # cancelled, or a bug: no hold may be lost from the schedule
        for hold in due:
            _put_back(port, hold)


def _lost(port: QuorumPort, hold: Hold, now: float) -> bool:
    if hold.loss is None and now < hold.deadline:
        return False
    majority_of(hold).final()
    lose(port, hold, hold.end, hold.deadline)
    drop_node_leases(port, hold)
    return True


def _put_back(port: QuorumPort, hold: Hold) -> None:
    with port.mutex():
        port.book.discard(hold)
        if hold.open and not hold.notified:
            port.book.add(hold, majority_of(hold).next_due())


async def _reacquire(port: QuorumPort, hold: Hold) -> None:
    """Re-acquire this hold's lease on the nodes that lack it."""
    now, parts = port.now(), majority_of(hold)
    ttl = hold.next_ttl(now)
    forms = node_forms(port, hold.want.form)
    asks: list[NodeRequest] = []
    for node in parts.missing() if hold.open and ttl > 0 else ():
        if port.suspect.get(node, 0.0) <= now:
            want = hold.want.again_on(forms[node])
            want.waiter = want.holder = parts.another_id()
            want.ttl = ttl
            asks.append(NodeRequest(node, want, want.vote(hold.fence)))
    try:
        if asks:
            good = await broadcast(port, asks, lambda ask: isinstance(ask.reply, bytes), len(asks))
            undo(
                port,
                [ask for ask in asks if not _joined(port, hold, ask, good, ttl)],
                all_of_them=True,
            )
    except BaseException:
        undo(port, asks, all_of_them=True)
        raise
    finally:
        port.put_back(asks)
        parts.plan_reacquire(port.now())


def _joined(
    port: QuorumPort, hold: Hold, ask: NodeRequest, good: Sequence[NodeRequest], ttl: float
) -> bool:
    if ask not in good:
        return False
    node = port.nodes[ask.node]
    deadline = ask.asked_at + validity(ttl)
    part = begin(node, ask.want, Grant(hold.fence, deadline, ttl), PARTS, None)
    parts = majority_of(hold)
    parts.check_gap(port.now())
    with port.mutex():
        joined = parts.join(ask.node, part)
    if not joined:
        retire(node, part)
    return joined


async def give_back(port: QuorumPort, hold: Hold, asked: AttemptLog) -> int:  # noqa: ARG001 - each node's request has its own
    """Release a hold on all its nodes.

    Raises QuorumNotReached when no majority confirmed it; it is repeated in the background.
    """
    parts, lost = majority_of(hold), hold.lost
    retire(port, hold)
    if lost:
        if not hold.forked:
            release_in_background(port, hold, None)
        raise hold.lost_error()
    # A lost part may still be held on its node: releasing it does no harm.
    asks = [released(node, part.want) for node, part in enumerate(parts) if part is not None]
    others = [ask for ask in asks if ask.node != parts.first]
    first = [ask for ask in asks if ask.node == parts.first]
    try:
        for group, needed in ((others, port.needed - len(first)), (first, 1)):
            if group:
                await broadcast(port, group, _given_back, needed)
        retry_in_background(port, asks)
    except BaseException:
        post_all(port, asks)
        raise
    finally:
        port.put_back(asks)
    _judge(port, hold, asks)
    return 0


def release_in_background(port: QuorumPort, hold: Hold, undo_connection: object) -> None:  # noqa: ARG001 - as ``Flows.release_in_background``
    """Release a hold in the background, on each node with the id that the node knows."""
    for node, part in zip(port.nodes, hold.parts, strict=True):
        if part is not None:
            node.run_in_background(*request(part.want, hold.fence))


def clean_up(port: QuorumPort, hold: Hold) -> None:
    """Undo what may still come of the requests of a hold that has ended."""
    give_up_claim(port, majority_of(hold))
    for node, part in zip(port.nodes, hold.parts, strict=True):
        if part is not None:
            clean_up_part(node, part)


def _given_back(ask: NodeRequest) -> bool:
    """Return True if a release ran: "not the holder" means so, when it had to be repeated (I4)."""
    return bool(ask.reply == 1) or (ask.answered_at > 0 and ask.sent)


def _judge(port: QuorumPort, hold: Hold, asks: Sequence[NodeRequest]) -> None:
    """Raise when no majority confirmed the release: the lease was lost, or too few answered."""
    given = [ask for ask in asks if ask.good]
    failed = {ask.node: ask.error for ask in asks if ask.error is not None}
    if len(given) >= port.needed:
        return
    if len(given) + len(failed) >= port.needed:
        raise not_reached(port, f"release of {hold.name!r} was not confirmed", dict(failed))
    words = [ask.reply[1] for ask in asks if ask.error is None and not ask.good]
    # Report the most specific reason: revoked, then taken, then expired.
    word = max((word for word in words if word is not None), key=len, default=None)
    raise lost_as(port, hold, word)


async def renew(
    port: QuorumPort,
    hold: Hold,
    ttl: float | None,
    shortens: bool,  # noqa: FBT001 - as ``Flows.renew``
) -> None:
    """Renew a lease on all its nodes; raises LeaseLost, or QuorumNotReached without a majority."""
    whole = majority_of(hold)
    span = hold.next_ttl(port.now()) if ttl is None else ttl
    # Claim the longer ttl before renewing: a node that restarts later must abstain so long.
    claim_long(port, whole, span)
    await refresh(port, hold.want, min(port.now() + port.server_timeout, hold.deadline), span)
    whole.cover(span)
    until = min(port.now() + port.server_timeout, hold.deadline)
    parts: dict[int, HolderRenewal] = {}
    try:
        for node, part in whole.lasting().items():
            beside = await reserve(port.nodes[node], part, until, waits=False)
            parts[node] = holder_renewal(part, ttl, port.now(), shortens=shortens, beside=beside)
        asks = await _renew_parts(port, whole, parts)
    finally:
        for node, wish in parts.items():
            track_renewed(port.nodes[node], wish)
        port.move(hold, whole.next_due())
    if sum(ask.error is None and ask.reply == [] for ask in asks) < port.needed:
        hold.check()
        failed: dict[int, Exception] = {
            ask.node: ask.error for ask in asks if ask.error is not None
        }
        raise not_reached(port, f"renewal of {hold.name!r}", failed)
    hold.check()


async def _renew_parts(
    port: QuorumPort, whole: Majority, parts: dict[int, HolderRenewal]
) -> list[NodeRequest]:
    """Renew all parts; return the requests to their nodes."""
    end = whole.hold.deadline
    for node, wish in parts.items():
        rely_on(port.nodes[node], wish)
    port.move(whole.hold, whole.next_due())
    asks = [
        NodeRequest(
            node, wish.hold.want, renewal_request([wish.hold], [wish.ttl], shortens=wish.shortens)
        )
        for node, wish in parts.items()
    ]
    try:
        good = await broadcast(port, asks, lambda ask: ask.reply == [], port.needed, end)
    finally:
        port.put_back(asks)
    for ask in asks:
        wish, at = parts[ask.node], port.nodes[ask.node]
        part = wish.hold
        if ask.error is not None:
            wish.failed(may_run=ask.sent)
            continue
        wish.answered(repeated=ask.sent)
        if ask in good:
            with at.mutex():
                at.book.discard(part)
            apply_renewal(at, [part], [wish.ttl], ask.asked_at, {})
        else:
            lose(at, part, ask.reply[1].decode(), port.now())
    return asks
