"""Acquire several locks, all or none, and release them.

A part of a multi may also be a side of a reader/writer lock or a permit of a semaphore.

Rules of this file:

- When all are plain locks, free and without waiters, one script acquires them all. Other parts are
  requested one by one, even for a single try.
- Otherwise the parts are waited for one by one, in the order of their keys. A multi that holds one
  part waits only for later ones, so two multis never wait for each other.
- A multi that ends without all parts releases those that it has (I9), within the timeout (I13).
- A multi that lost an earlier part's lease while it waited for a later part was never granted: it
  starts again, with new ids.
- In a Cluster the locks may lie in several slots; then each is requested separately. A proxy in
  front of a Cluster refuses a common request (CROSSSLOT).
- Parts are released in parallel: a silent node holds up only its own parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencelock._core.attempt_log import AttemptLog
from fencelock._core.deadlines import validity
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.acquire import FOR_EVER, LEAVING_SECONDS, acquire, begin
from fencelock._core.lock.hold import Grant, Hold, HoldRegistry
from fencelock._core.lock.release import (
    lost_as,
    release_in_background,
    request,
    retire,
    settled,
    undo_strays,
)
from fencelock._core.lock.renew import CALL_SECONDS_MAX
from fencelock._core.lock.request import LOCKS, AcquireRequest, milliseconds, too_late
from fencelock._core.lock.waiter import Waiter
from fencelock._core.objects.semaphore_rwlock import ShareRequest, lost_nested
from fencelock._core.port import Port
from fencelock._core.retry import PASSING, answer_by, ask, persist
from fencelock._core.types import NoReply, Reply, Request
from fencelock.errors import FencelockError, OutcomeUnknown, ServerError
from fencelock.scripts import MULTI_ACQUIRE, MULTI_RELEASE

# Makes fresh requests, one for each lock, in the order of their keys.
Wants = Callable[[], Sequence[AcquireRequest]]
APART = "CROSSSLOT"  # the server's answer when the locks lie in several slots


async def acquire_all(
    port: Port,
    wants: Wants,
    timeout: float | None,
    takers: Sequence[HoldRegistry],
    unit: object = None,
) -> list[Hold] | None:
    """Acquire all locks for their takers; None when not all were granted in time.

    ``timeout`` as in ``acquire``, for all of them together.
    """
    at_once = timeout is not None and timeout <= 0
    give_up_at = FOR_EVER if timeout is None or timeout < 0 else port.now() + timeout
    while True:
        asked = wants()
        try:
            holds, free = None, True
            if _by_one_script(port, asked):
                holds, free = await _together(port, asked, give_up_at, takers, unit)
        except FencelockError as error:
            names = ", ".join(want.keys.name for want in asked)
            describe_error(port, error, names)
            raise
        if holds is not None or (at_once and not free):
            return holds
        holds = await _in_order(port, asked, timeout if at_once else give_up_at, takers, unit)
        if holds is None or not any(hold.lost for hold in holds):
            return holds
        await _drop(port, holds, takers)
        if at_once or port.now() >= give_up_at:
            return None


async def _together(
    port: Port,
    wants: Sequence[AcquireRequest],
    give_up_at: float,
    takers: Sequence[HoldRegistry],
    unit: object,
) -> tuple[list[Hold] | None, bool]:
    """Request all at once; return the holds, or None and whether each may still be free."""
    until = answer_by(port, port.now(), give_up_at)
    waiter = Waiter(wants[0])
    keys = [key for want in wants for key in want.keys.grant]

    async def once() -> tuple[float, Reply]:
        if waiter.undo_connection is not None:
            _start_over(port, wants, waiter)
        await port.open(waiter, until, listen=False)
        waiter.begin()
        asked_at = port.now()
        reply = await port.call(MULTI_ACQUIRE, keys, _terms(wants), until, waiter)
        if not isinstance(reply, int):
            ends = min(asked_at + validity(want.ttl) for want in wants)
            await port.flows.confirm(port, waiter, ends, give_up_at)
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


def _terms(wants: Sequence[AcquireRequest]) -> list[bytes | int]:
    """Return the arguments of ``multi_acquire.lua`` for each request."""
    return [
        term
        for want in wants
        for term in (want.holder, milliseconds(want.ttl), want.form.words + want.info)
    ]


def _start_over(port: Port, wants: Sequence[AcquireRequest], waiter: Waiter) -> None:
    """Undo what a silent connection may still deliver; continue with new ids, as acquire.py."""
    _undo(port, wants, waiter)
    port.close(waiter)
    for want in wants:
        want.rename()


def _undo(port: Port, wants: Sequence[AcquireRequest], waiter: Waiter) -> None:
    if waiter.began:
        port.run_in_background(*_request(wants), waiter.path)


def _begin_all(
    port: Port,
    wants: Sequence[AcquireRequest],
    grants: Sequence[Grant],
    takers: Sequence[HoldRegistry],
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
        raise  # the caller undoes the request
    return holds


async def _in_order(
    port: Port,
    wants: Sequence[AcquireRequest],
    limit: float | None,
    takers: Sequence[HoldRegistry],
    unit: object,
) -> list[Hold] | None:
    """Acquire one after the other, until the instant ``limit``; below 0: one try each."""
    holds: list[Hold] = []
    try:
        for want, taker in zip(wants, takers, strict=True):
            timeout = limit
            if limit is not None and limit >= 0:
                timeout = None if limit == FOR_EVER else max(0.0, limit - port.now())
            hold = await acquire(port, want, timeout, taker, unit)
            if hold is None:
                await _drop(port, holds, takers)
                if isinstance(want, ShareRequest) and want.other is not None:
                    raise lost_nested(port, want.other)
                return None
            holds.append(hold)
    except BaseException:
        _forget(port, holds, takers)
        for hold in reversed(holds):
            release_in_background(port, hold)
        raise
    return holds


async def _drop(port: Port, holds: Sequence[Hold], takers: Sequence[HoldRegistry]) -> None:
    """Release the parts of a multi that was not granted; takes a short time, whatever happens."""
    _forget(port, holds, takers)
    if not holds:
        return
    wants = [hold.want for hold in holds]
    given = _Given()
    try:
        await _give_back(port, wants, given, port.now() + LEAVING_SECONDS)
    except BaseException as error:
        given.post_rest(port, wants, error)
        if not isinstance(error, (OutcomeUnknown, ServerError)):
            raise
    finally:
        for want in wants:
            undo_strays(port, want)


def _forget(port: Port, holds: Sequence[Hold], takers: Sequence[HoldRegistry]) -> None:
    for hold, taker in zip(holds, takers, strict=False):
        taker.remove(hold)
        retire(port, hold)


def _request(wants: Sequence[AcquireRequest]) -> Request:
    keys = [key for want in wants for key in want.keys.all]
    return MULTI_RELEASE, keys, [wants[0].client_channel, *[want.holder for want in wants]]


class _Given:
    """The outcome of each part that is released: an answer, or a refusal."""

    def __init__(self) -> None:
        self.answers: dict[AcquireRequest, Reply] = {}  # 1, or why it was not held
        self.refused: dict[AcquireRequest, ServerError] = {}
        self.unsure: set[AcquireRequest] = (
            set()
        )  # an earlier request had no answer and may have run

    def left(self, wants: Sequence[AcquireRequest]) -> list[AcquireRequest]:
        """Return the parts that have no answer yet."""
        return [each for each in wants if each not in self.answers and each not in self.refused]

    def post_rest(self, port: Port, wants: Sequence[AcquireRequest], error: BaseException) -> None:
        """Release the rest in the background, unless the server refused them all."""
        if not settled(error):
            for want in reversed(self.left(wants)):
                port.run_in_background(*request(want))


async def release_all(port: Port, take: Callable[[list[Hold]], None]) -> None:
    """Release all holds that ``take`` moves into the list that it is called with.

    Raises what ``take`` raises; LeaseLost when one of the leases had ended before, once the others
    are released; and as ``release`` when no answer came.
    """
    holds: list[Hold] = []
    lost: list[Hold] = []
    given = _Given()
    try:
        take(holds)
        lost += [hold for hold in holds if hold.lost]
        for hold in holds:
            retire(port, hold)
        until = port.now() + port.server_timeout
        await _give_back(port, [hold.want for hold in holds], given, until)
    except BaseException as error:
        for hold in holds:
            retire(port, hold)
        given.post_rest(port, [hold.want for hold in holds], error)
        raise
    finally:
        for hold in holds:
            undo_strays(port, hold.want)
    _judge(port, holds, lost, given)


async def _give_back(
    port: Port, wants: Sequence[AcquireRequest], given: _Given, until: float
) -> None:
    """Release the parts; note in ``given`` the server's answer for each."""
    if _by_one_script(port, wants):
        asked = AttemptLog()
        try:
            reply = await ask(port, *_request(wants), until, asked=asked)
        except ServerError as error:
            if error.code != APART:
                raise
        else:
            given.answers.update(zip(wants, reply, strict=True))
            if asked.sent:
                given.unsure.update(wants)
            return
    await persist(port, lambda: _each(port, wants, given, until), until, AttemptLog())
    for refusal in given.refused.values():
        raise refusal


async def _each(port: Port, wants: Sequence[AcquireRequest], given: _Given, until: float) -> None:
    """Ask once for each part that is left; raise the first error of one without an answer."""
    left = given.left(wants)
    trouble: NoReply | ServerError | None = None
    answers = await port.flows.side_by_side(port, [request(want) for want in left], until)
    for want, answer in zip(left, answers, strict=True):
        if isinstance(answer, NoReply):
            if answer.sent:
                given.unsure.add(want)
            trouble = trouble or answer
        elif isinstance(answer, ServerError) and answer.code in PASSING:
            trouble = trouble or answer
        elif isinstance(answer, ServerError):
            given.refused[want] = answer
        elif isinstance(answer, Exception):
            raise answer
        else:
            given.answers[want] = answer if answer == 1 else answer[1]
    if trouble is not None:
        raise trouble


async def one_by_one(
    port: Port, requests: Sequence[Request], until: float
) -> Sequence[Reply | Exception]:
    """Run scripts one after the other; return their replies, or what each would raise."""
    return [await _one(port, each, until) for each in requests]


async def _one(port: Port, request: Request, until: float) -> Reply | Exception:
    try:
        return await port.call(*request, min(until, port.now() + CALL_SECONDS_MAX))
    except (NoReply, ServerError) as error:
        return error


def _by_one_script(port: Port, wants: Sequence[AcquireRequest]) -> bool:
    """Return True if one script can acquire or release all of these, as far as is known."""
    plain = all(want.form.batch == LOCKS for want in wants)
    return plain and port.flows.one_script(port, wants)


def _judge(port: Port, holds: Sequence[Hold], lost: Sequence[Hold], given: _Given) -> None:
    errors = [hold.lost_error() for hold in lost]
    for hold in holds:
        told = given.answers[hold.want]
        if told != 1 and hold.want not in given.unsure and hold not in lost:
            errors.append(lost_as(port, hold, told))
    if errors:
        raise errors[0]
