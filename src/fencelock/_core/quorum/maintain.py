"""Maintain and release the leases of a quorum, and re-acquire missing parts.

Rules of this file:

- The parts are renewed by their nodes' ports. This file notifies of a lost majority (I8).
- A node that lost its part while the majority holds is asked for it again, at the interval of
  renewals, and with another id: the undo of the last one may arrive late (see acquire.py).
- A release goes to all parts, the first node last: the next holder there finds the others free.
  Silent nodes are released in the background.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from fencelock._core.deadlines import validity
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.release import lost_as, release_call, retire, undo_owed
from fencelock._core.lock.renew import (
    HolderRenewal,
    apply_renewal,
    lose,
    rely_on,
    reserve,
    track_renewed,
)
from fencelock._core.lock.renew_request import renewal_request
from fencelock._core.quorum.broadcast import (
    Ballot,
    QuorumPort,
    ask_nodes,
    broadcast,
    failures_of,
    granted,
    not_reached,
    retry_in_background,
    undo,
)
from fencelock._core.quorum.lease import (
    Majority,
    drop_node_leases,
    majority_of,
    node_terms,
)
from fencelock._core.quorum.refresh import claim as claim_long
from fencelock._core.quorum.refresh import give_up_claim, longest_of, refresh, refresh_while_held
from fencelock._core.seat import Seat
from fencelock._core.types import NoReply
from fencelock.errors import ServerError

# How many leases are re-acquired in one go: a node that forgot many gets them back gradually.
REACQUIRED_AT_ONCE = 50


async def maintain(port: QuorumPort) -> None:
    """Do what is due: notify of losses, re-acquire missing parts. Never raises a server's error."""
    now = port.now()
    with port.mutex:
        due = port.renewals.due(now)
    try:
        lasting = [hold for hold in due if not _lost(port, hold, now)]
        heals = [hold for hold in lasting if now >= majority_of(hold).reacquire_at]
        for hold in heals[:REACQUIRED_AT_ONCE]:
            await _reacquire(port, hold)
        if due:
            await refresh_while_held(port, max(due, key=longest_of))
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
    with port.mutex:
        port.renewals.settle((hold,))
    port.move(hold, majority_of(hold).next_due())


async def _reacquire(port: QuorumPort, hold: Hold) -> None:
    """Re-acquire this hold's lease on the nodes that lack it."""
    now, parts = port.now(), majority_of(hold)
    ttl = hold.next_ttl(now)
    terms = node_terms(port, hold.terms)
    asks: list[Ballot] = []
    for node in parts.missing() if hold.open and ttl > 0 else ():
        if port.suspect.get(node, 0.0) <= now:
            attempt = Attempt(terms[node], parts.another_id(), hold.info)
            attempt.ttl = ttl
            packed = attempt.terms.vote(attempt, ttl, hold.fence)
            asks.append(Ballot(node, attempt, packed, granted))
    try:
        if asks:
            for ask in await broadcast(port, asks, len(asks)):
                grant = Grant(hold.fence, ask.asked_at + validity(ttl), ttl)
                parts.check_gap(port.now())
                parts.begin({ask.node: cast("Attempt", ask.about)}, {ask.node: grant})
    finally:  # what is no part of the hold is undone, also after an interrupt
        joined = {part.id for part in parts if part is not None}
        undo(port, [ask for ask in asks if ask.id not in joined], all_of_them=True)
        port.put_back(asks)
        parts.plan_reacquire(port.now())


async def give_back(port: QuorumPort, hold: Hold, log: Seat) -> int:  # noqa: ARG001 - each node's request has its own
    """Release a hold on all its nodes.

    Raises when no majority confirmed it: LeaseLost if the nodes say so, and QuorumNotReached if too
    few answered. It is repeated in the background.
    """
    parts, lost = majority_of(hold), hold.lost
    retire(port, hold)
    if lost:
        if not (hold.forked or hold.closed):
            release_in_background(port, hold, None)
        raise hold.lost_error()
    asks: list[Ballot] = []
    # A lost part may still be held on its node: releasing it does no harm.
    for node, part in parts.in_release_order():
        asks.append(Ballot(node, part, part.terms.packed_release(part), _given_back))
    try:
        for group, needed in ((asks[:-1], port.needed - 1), (asks[-1:], 1)):
            await broadcast(port, group, needed)
        retry_in_background(port, asks, release_call)
    finally:
        port.put_back(asks)
    given = sum([ask.good for ask in asks])
    if given >= port.needed:
        return 0
    failed = failures_of(asks)
    if given + len(failed) >= port.needed:
        raise not_reached(port, f"release of {hold.name!r} was not confirmed", failed)
    words = [ask.reply[1] for ask in asks if ask.error is None and not ask.good]
    # Report the most specific reason: revoked, then taken, then expired.
    word = max((word for word in words if word is not None), key=len, default=None)
    raise lost_as(port, hold, word)


def release_in_background(port: QuorumPort, hold: Hold, undo_connection: object) -> None:  # noqa: ARG001 - as of one server
    """Release a hold in the background, on each node with the id that the node knows."""
    for node, part in majority_of(hold).in_release_order():
        port.nodes[node].run_in_background(*release_call(part, hold.fence))


async def hand_back(port: QuorumPort, holds: Sequence[Hold], until: float) -> Sequence[Hold]:
    """Release leases that ended with their client; return those that no majority confirmed.

    Each on all its nodes, the first one last. What is for a silent node is sent in the background,
    so that it holds up no other node.
    """
    silent: set[int] = set()
    left: list[Hold] = []
    for hold in holds:
        retire(port, hold)
        given = 0
        for number, part in majority_of(hold).in_release_order():
            node, asked = port.nodes[number], release_call(part, hold.fence)
            if number not in silent:
                try:
                    await node.call(*asked, min(until, port.now() + node.server_timeout))
                    given += 1
                    continue
                except (NoReply, ServerError):
                    silent.add(number)
            node.run_in_background(*asked)
        if given < port.needed:
            left.append(hold)
    return left


def clean_up(port: QuorumPort, hold: Hold) -> None:
    """Undo what may still come of the requests of a hold that has ended."""
    give_up_claim(port, majority_of(hold))
    for node, part in zip(port.nodes, hold.parts, strict=True):
        if part is not None and part.owed:
            undo_owed(node, part)


def _given_back(ask: Ballot) -> bool:
    """Return True if a release ran: "not the holder" means so, when it had to be repeated (I4)."""
    return bool(ask.reply == 1) or ask.sent


async def renew(
    port: QuorumPort,
    hold: Hold,
    ttl: float | None,
    shortens: bool,  # noqa: FBT001 - as of one server
) -> None:
    """Renew a lease on all its nodes; raises LeaseLost, or QuorumNotReached without a majority."""
    whole = majority_of(hold)
    span = hold.next_ttl(port.now()) if ttl is None else ttl
    # Claim the longer ttl before renewing: a node that restarts later must abstain so long.
    claim_long(port, whole, span)
    await refresh(port, hold, min(port.now() + port.server_timeout, hold.deadline), span)
    whole.cover(span)
    until = min(port.now() + port.server_timeout, hold.deadline)
    parts: dict[int, HolderRenewal] = {}
    try:
        for node, part in enumerate([*whole]):
            if part is not None and part.loss is None:
                at = port.nodes[node]
                parts[node] = await reserve(at, part, ttl, until, shortens=shortens, waits=False)
        await _bound(port, [(node, each) for node, each in parts.items() if each.asks_clock], until)
        asks = await _renew_parts(port, whole, parts)
    finally:
        for node, renewal in parts.items():
            track_renewed(port.nodes[node], renewal)
        port.move(hold, whole.next_due())
    if sum(ask.error is None and ask.reply == [] for ask in asks) < port.needed:
        hold.check()
        raise not_reached(port, f"renewal of {hold.name!r}", failures_of(asks))
    hold.check()


async def _bound(
    port: QuorumPort, renewals: Sequence[tuple[int, HolderRenewal]], until: float
) -> None:
    """Bound until when these may shorten their parts, by the nodes' clocks.

    A node that does not tell its clock is not asked to shorten its part.
    """
    if not renewals:
        return
    asks = [Ballot(node, renewal.hold, renewal.clock_call()) for node, renewal in renewals]
    asked_at = port.now()
    good = await ask_nodes(port, asks, port.needed, until)
    for ask, (_, renewal) in zip(asks, renewals, strict=True):
        if ask in good:
            renewal.bound(ask.reply, asked_at, ask.answered_at, renewal.answered_by(until))
        else:
            renewal.keep()


async def _renew_parts(
    port: QuorumPort, whole: Majority, parts: dict[int, HolderRenewal]
) -> list[Ballot]:
    """Renew all parts; return the requests to their nodes."""
    end = whole.hold.deadline
    for node, renewal in parts.items():
        rely_on(port.nodes[node], renewal)
    port.move(whole.hold, whole.next_due())
    asks = [
        Ballot(
            node,
            renewal.hold,
            renewal_request([renewal.hold], [renewal.ttl], shortens_until=renewal.until_us),
            lambda ask: ask.reply == [],
        )
        for node, renewal in parts.items()
    ]
    good = await ask_nodes(port, asks, port.needed, end)
    for ask in asks:
        renewal, at = parts[ask.node], port.nodes[ask.node]
        part = renewal.hold
        if ask.error is not None:
            renewal.failed(may_run=ask.sent)
            continue
        renewal.answered(repeated=ask.sent)
        if ask in good:
            apply_renewal(at, [part], [renewal.ttl], ask.asked_at, {})
        else:
            lose(at, part, ask.reply[1].decode(), port.now())
    return asks
