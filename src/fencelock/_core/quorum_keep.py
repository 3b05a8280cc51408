"""Keep, heal and give back the leases of a quorum.

Rules of this file:

- The parts are renewed by their nodes' ports. Here a majority that is gone is told (I8).
- A node that lost its part while the majority holds is asked for it again, at renewal's rhythm,
  and by another id: what undid the last one there may come late (see race.py).
- A release goes to all parts, the first node last: who is handed the lock there finds the others
  free. What is silent is released in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from fencelock._core.acquire import begin
from fencelock._core.fan import Ask, QuorumPort, fan, not_reached, post_unanswered, put_back, undo
from fencelock._core.hold import Grant, Hold
from fencelock._core.meet import meet, remind
from fencelock._core.port import Port
from fencelock._core.quorum_hold import PARTS, QuorumHold
from fencelock._core.race import node_forms
from fencelock._core.release import lost_as, post_release, request, retire, settled
from fencelock._core.renew import apply_renewal, lose
from fencelock._core.timing import validity
from fencelock._core.want import SHARES, Request, milliseconds
from fencelock.errors import QuorumNotReached
from fencelock.scripts import RENEW, SHARES_RENEW

# Leases that are healed in one go: a node that forgot many gets them back little by little.
HEALED_AT_ONCE = 50


async def attend(port: Port) -> None:
    """Do what is due: tell losses, heal. Never raises for a server's trouble."""
    many = cast("QuorumPort", port)
    now = many.now()
    with many.mutex():
        due = cast("list[QuorumHold]", many.book.due(now))
    try:
        heals = [hold for hold in due if not _lost(many, hold, now) and now >= hold.heal_at]
        for hold in heals[:HEALED_AT_ONCE]:
            await _heal(many, hold)
        if due:
            await remind(many, due[0].want)
    finally:  # cancelled, or a defect: nobody may be forgotten
        for hold in due:
            _put_back(many, hold)


def _lost(port: QuorumPort, hold: QuorumHold, now: float) -> bool:
    lease = hold.lease
    if lease._loss is None and now < lease._deadline:
        return False
    hold.final()
    reason, since, detail = lease._loss or (lease._end, lease._deadline, "")
    lose(port, hold, reason, since, detail)
    return True


def _put_back(port: QuorumPort, hold: QuorumHold) -> None:
    with port.mutex():
        port.book.discard(hold)
        if hold.open and not hold.told:
            port.book.add(hold, hold.next_attention())


async def _heal(port: QuorumPort, hold: QuorumHold) -> None:
    """Ask the nodes that lack a lease of this hold for one."""
    now, lease = port.now(), hold.lease
    ttl = hold.next_ttl(now)
    forms = node_forms(port, hold.want.form)
    asks: list[Ask] = []
    for node in hold.missing() if hold.open and ttl > 0 else ():
        if port.ill.get(node, 0.0) <= now:
            want = hold.want.again_on(forms[node])
            want.waiter = want.holder = hold.another_id()
            want.ttl = ttl
            asks.append(Ask(node, want, want.vote(lease.fence)))
    try:
        if asks:
            good = await fan(port, asks, lambda ask: isinstance(ask.reply, bytes), len(asks))
            undo(
                port,
                [ask for ask in asks if not _joined(port, hold, ask, good, ttl)],
                all_of_them=True,
            )
    except BaseException:
        undo(port, asks, all_of_them=True)
        raise
    finally:
        put_back(port, asks)
        hold.plan_healing(port.now())


def _joined(port: QuorumPort, hold: QuorumHold, ask: Ask, good: Sequence[Ask], ttl: float) -> bool:
    if ask not in good:
        return False
    node = port.nodes[ask.node]
    deadline = ask.asked_at + validity(ttl)
    part = begin(node, ask.want, Grant(hold.lease.fence, deadline, ttl), PARTS, None)
    hold.check_gap(port.now())
    with port.mutex():
        joined = hold.join(ask.node, part)
    if not joined:
        retire(node, part)
    return joined


async def take_and_release(port: Port, take: Callable[[], Hold]) -> int:
    """Release the hold that ``take`` gives, on all its nodes; raises as ``release`` does.

    QuorumNotReached when no majority confirmed it: it is repeated in the background.
    """
    many = cast("QuorumPort", port)
    hold: Hold | None = None
    try:
        hold = take()
        await _release(many, cast("QuorumHold", hold))
    except BaseException as error:
        if hold is not None and not settled(error) and not isinstance(error, QuorumNotReached):
            retire(port, hold)
            post_release(port, hold)
        raise
    return 0


async def _release(port: QuorumPort, hold: QuorumHold) -> None:
    lease, parts = hold.lease, list(enumerate(hold.parts))
    retire(port, hold)
    if lease.lost:
        if not lease._forked():
            post_release(port, hold)
        raise lease._lost_error()
    # A part that was lost may be there all the same: its release harms nobody.
    asks = [
        Ask(node, part.want, request(part.want, lease.fence))
        for node, part in parts
        if part is not None
    ]
    others = [ask for ask in asks if ask.node != hold.first]
    first = [ask for ask in asks if ask.node == hold.first]
    try:
        for group, needed in ((others, port.needed - len(first)), (first, 1)):
            if group:
                await fan(port, group, _given_back, needed)
        post_unanswered(port, asks)
    except BaseException:
        for ask in asks:
            port.nodes[ask.node].post(*ask.request, ask.trail or ask.seat)
        raise
    finally:
        put_back(port, asks)
    _judge(port, hold, asks)


def _given_back(ask: Ask) -> bool:
    """Tell whether a release ran: "not the holder" means so, when it had to be repeated (I4)."""
    return bool(ask.reply == 1) or (ask.answered_at > 0 and ask.sent)


def _judge(port: QuorumPort, hold: QuorumHold, asks: Sequence[Ask]) -> None:
    """Raise when no majority gave the lease back: it was taken, or nobody knows."""
    lease = hold.lease
    given = [ask for ask in asks if ask.error is None and _given_back(ask)]
    failed = {ask.node: ask.error for ask in asks if ask.error is not None}
    if len(given) >= port.needed:
        lease._released = True
        return
    if len(given) + len(failed) >= port.needed:
        lease._released = True
        raise not_reached(port, f"release of {lease.name!r} was not confirmed", dict(failed))
    words = [ask.reply[1] for ask in asks if ask.error is None and not _given_back(ask)]
    # An operator's reason before somebody else's holding, and that before nobody's.
    raise lost_as(lease, max((word for word in words if word is not None), key=len, default=None))


async def renew_now(port: Port, hold: Hold, ttl: float | None) -> None:
    """Renew a lease on all its nodes; raises LeaseLost, or QuorumNotReached without a majority."""
    many = cast("QuorumPort", port)
    whole = cast("QuorumHold", hold)
    span = hold.next_ttl(many.now()) if ttl is None else ttl
    # Before any node has it: one that is restarted then may not vote for longer than before.
    await meet(many, hold.want, min(many.now() + many.patience, hold.lease.deadline), span)
    parts = whole.lasting()
    asks = [Ask(node, part.want, _renewal(part, span)) for node, part in parts.items()]
    try:
        good = await fan(many, asks, lambda ask: ask.reply == [], many.needed, hold.lease.deadline)
    finally:
        put_back(many, asks)
    for ask in asks:
        node, part = many.nodes[ask.node], parts[ask.node]
        if ask in good:
            with node.mutex():
                node.book.discard(part)
            apply_renewal(node, [part], [span], ask.asked_at, {})
        elif ask.error is None:
            lose(node, part, ask.reply[1].decode(), many.now())
    if len(good) < many.needed:
        hold.lease.check()
        failed: dict[int, Exception] = {
            ask.node: ask.error for ask in asks if ask.error is not None
        }
        raise not_reached(many, f"renewal of {hold.lease.name!r}", failed)
    many.move(whole, whole.next_attention())
    hold.lease.check()


def _renewal(part: Hold, ttl: float) -> Request:
    want = part.want
    told = (want.holder, milliseconds(ttl))
    if want.form.batch == SHARES:
        return SHARES_RENEW, want.keys.renew_owned, (b"3", *told)
    return RENEW, want.keys.renew, (b"2", *told)
