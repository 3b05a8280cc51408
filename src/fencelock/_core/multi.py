"""Take several locks, all or none, and give them back.

Rules of this file:

- When all are free and nobody waits for any, one script takes them all.
- Otherwise they are waited for one by one, in the order of their keys: whoever holds one waits for
  later ones only, so no two multis wait for each other.
- What ends a multi without all of them gives back those that it has (I9), within the timeout (I13).
- A multi whose earlier lease was lost while it waited for a later one was never granted: it begins
  again, with new ids.
- In a Cluster the locks may lie in several slots; then each is asked for by itself. A proxy before
  one says so when it is asked (CROSSSLOT).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencelock._core.acknowledge import acknowledged
from fencelock._core.acquire import FOR_EVER, LEAVING_SECONDS, acquire, begin
from fencelock._core.ask import Asked, answer_by, ask, persist
from fencelock._core.hold import Grant, Hold, Taker
from fencelock._core.port import Args, Keys, Port, Reply
from fencelock._core.release import lost_as, request, retire, settled
from fencelock._core.timing import validity
from fencelock._core.waiters import Waiter
from fencelock._core.want import Want, milliseconds, too_late
from fencelock.errors import FencelockError, OutcomeUnknown, ServerError
from fencelock.log import log
from fencelock.scripts import MULTI_RELEASE, MULTI_TAKE, Script

# Makes fresh requests, one for each lock, in the order of their keys.
Wants = Callable[[], Sequence[Want]]
APART = "CROSSSLOT"  # the server's answer when the locks lie in several slots


async def acquire_all(
    port: Port, wants: Wants, patience: float | None, takers: Sequence[Taker], unit: object = None
) -> list[Hold] | None:
    """Take all locks for their takers; None when not all were granted in time.

    ``patience`` as in ``acquire``, for all of them together.
    """
    at_once = patience is not None and patience <= 0
    give_up_at = FOR_EVER if patience is None or patience < 0 else port.now() + patience
    while True:
        asked = wants()
        try:
            holds, free = None, True
            if not _in_several_slots(port, asked):
                holds, free = await _together(port, asked, give_up_at, takers, unit)
        except FencelockError as error:
            log.warning("acquire of %d locks failed: %s", len(asked), error)
            raise
        if holds is not None or (at_once and not free):
            return holds
        holds = await _in_order(port, asked, patience if at_once else give_up_at, takers, unit)
        if holds is None or not any(hold.lease.lost for hold in holds):
            return holds
        await _drop(port, holds, takers)
        if at_once or port.now() >= give_up_at:
            return None


async def _together(
    port: Port,
    wants: Sequence[Want],
    give_up_at: float,
    takers: Sequence[Taker],
    unit: object,
) -> tuple[list[Hold] | None, bool]:
    """Ask for all at once: the holds, or None and whether each may be free all the same."""
    until = answer_by(port, port.now(), give_up_at)
    waiter = Waiter(wants[0])
    keys = [key for want in wants for key in want.keys.grant]
    args = [
        arg
        for want in wants
        for arg in (want.holder, milliseconds(want.ttl), want.form.words + want.info)
    ]

    async def once() -> tuple[float, Reply]:
        await port.open(waiter, until, listen=False)
        waiter.begin()
        asked_at = port.now()
        reply = await port.call(MULTI_TAKE, keys, args, until, waiter)
        if port.replicas is not None and not isinstance(reply, int):
            ends = min(asked_at + validity(want.ttl) for want in wants)
            await acknowledged(port, waiter, ends, give_up_at)
        return asked_at, reply

    try:
        asked_at, reply = await persist(port, once, until, waiter)
        if isinstance(reply, int):
            return None, reply < 0
        grants = [
            Grant(int(fence), asked_at + validity(want.ttl), want.ttl)
            for want, fence in zip(wants, reply, strict=True)
        ]
        for want, grant in zip(wants, grants, strict=True):
            if grant.deadline <= port.now():
                raise too_late(want)
        return _begin_all(port, wants, grants, takers, unit), True
    except ServerError as error:
        if error.code != APART:
            _undo(port, wants, waiter)
            raise
        return None, True
    except BaseException:
        _undo(port, wants, waiter)
        raise
    finally:
        port.close(waiter)


def _undo(port: Port, wants: Sequence[Want], waiter: Waiter) -> None:
    if waiter.began:
        port.post(*_request(wants), waiter.trail or waiter.seat)


def _begin_all(
    port: Port,
    wants: Sequence[Want],
    grants: Sequence[Grant],
    takers: Sequence[Taker],
    unit: object,
) -> list[Hold]:
    holds: list[Hold] = []
    try:
        for want, grant, taker in zip(wants, grants, takers, strict=True):
            holds.append(begin(port, want, grant, taker, unit))
    except BaseException:
        for hold, taker in zip(holds, takers, strict=False):
            taker.remove(hold)
            retire(port, hold)
        raise  # who asked undoes it
    return holds


async def _in_order(
    port: Port,
    wants: Sequence[Want],
    limit: float | None,
    takers: Sequence[Taker],
    unit: object,
) -> list[Hold] | None:
    """Take one after the other, until the instant ``limit``; below 0: one try each."""
    holds: list[Hold] = []
    try:
        for want, taker in zip(wants, takers, strict=True):
            patience = limit
            if limit is not None and limit >= 0:
                patience = None if limit == FOR_EVER else max(0.0, limit - port.now())
            hold = await acquire(port, want, patience, taker, unit)
            if hold is None:
                await _drop(port, holds, takers)
                return None
            holds.append(hold)
    except BaseException:
        _forget(port, holds, takers)
        for hold in reversed(holds):
            port.post(*request(hold.want, hold.lease.fence))
        raise
    return holds


async def _drop(port: Port, holds: Sequence[Hold], takers: Sequence[Taker]) -> None:
    """Give back what was granted in vain; whatever happens, it is soon over."""
    _forget(port, holds, takers)
    if not holds:
        return
    wants = [hold.want for hold in holds]
    try:
        await _given_back(port, wants, port.now() + LEAVING_SECONDS, Asked())
    except BaseException as error:
        for want in reversed(wants):
            port.post(*request(want))
        if not isinstance(error, (OutcomeUnknown, ServerError)):
            raise


def _forget(port: Port, holds: Sequence[Hold], takers: Sequence[Taker]) -> None:
    for hold, taker in zip(holds, takers, strict=False):
        taker.remove(hold)
        retire(port, hold)


def _request(wants: Sequence[Want]) -> tuple[Script, Keys, Args]:
    keys = [key for want in wants for key in want.keys.all]
    return MULTI_RELEASE, keys, [wants[0].home, *[want.holder for want in wants]]


async def release_all(port: Port, take: Callable[[list[Hold]], None]) -> None:
    """Give all back that ``take`` takes out, into the list that it is given.

    Raises what ``take`` raises; LeaseLost when one of the leases had ended before, once the others
    are given back; and as ``release`` when no answer came.
    """
    holds: list[Hold] = []
    asked = Asked()
    try:
        take(holds)
        for hold in holds:
            retire(port, hold)
        until = port.now() + port.patience
        reply = await _given_back(port, [hold.want for hold in holds], until, asked)
    except BaseException as error:
        for hold in holds:
            retire(port, hold)
            if not settled(error):
                port.post(*request(hold.want, hold.lease.fence))
        raise
    _judge(holds, reply, repeated=asked.sent)


async def _given_back(
    port: Port, wants: Sequence[Want], until: float, asked: Asked
) -> Sequence[Reply]:
    """Give back; return what the server says of each: 1, or a reason for which it was not held."""
    if not _in_several_slots(port, wants):
        try:
            reply: Sequence[Reply] = await ask(port, *_request(wants), until, asked=asked)
        except ServerError as error:
            if error.code != APART:
                raise
        else:
            return reply
    each = [await ask(port, *request(want), until, asked=asked) for want in wants]
    return [one if one == 1 else one[1] for one in each]


def _in_several_slots(port: Port, wants: Sequence[Want]) -> bool:
    """Tell whether one script cannot touch all of these locks, where that is known."""
    apart = port.apart
    return apart is not None and len({apart.slot(want.keys.lock) for want in wants}) > 1


def _judge(holds: Sequence[Hold], reply: Sequence[Reply], *, repeated: bool) -> None:
    lost = [hold.lease for hold in holds if hold.lease.lost]
    for hold, told in zip(holds, reply, strict=True):
        lease = hold.lease
        if told == 1 or repeated or lease in lost:
            lease._released = True
            continue
        lost_as(lease, told)
        lost.append(lease)
    if lost:
        raise lost[0]._lost_error()
