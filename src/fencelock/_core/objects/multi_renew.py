"""Renew the leases of a multi in parallel, where they may lie on several servers.

Rules of this file:

- All leases without an answer are renewed at once, and each answer counts by itself: a silent node
  holds up only its own leases.
- A background renewal that is under way is not waited for, as it may be at the silent node; see
  ``HolderRenewal``.
- For each lease the rules of ``renew.py`` hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core import events
from fencelock._core.error_messages import describe_error
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew import (
    HolderRenewal,
    apply_renewal,
    notify_refused,
    rely_on,
    reserve,
    track_renewed,
)
from fencelock._core.lock.renew_batch import renew_batch
from fencelock._core.lock.renew_request import CALL_SECONDS_MAX, Answer, refusals, renewal_request
from fencelock._core.port import Port
from fencelock._core.retry import passes, persist
from fencelock._core.seat import Seat
from fencelock._core.types import NoReply
from fencelock.errors import ClientClosed, FencelockError, ServerError

Answers = list[Answer | Exception]


async def renew_all(port: Port, holds: Sequence[Hold], ttl: float | None) -> None:
    """Renew leases, all nodes in parallel; one after the other where replicas acknowledge.

    Raises LeaseLost when one of them was lost or is refused; otherwise, once all others are
    renewed, as ``renew_now`` when no answer came for one.
    """
    for hold in holds:
        hold.check()
    holds = [hold for hold in holds if ttl is not None or not hold.terms.options.fixed_end]
    if not holds:
        return
    until = min(port.now() + port.server_timeout, *[hold.deadline for hold in holds])
    renewals: list[HolderRenewal] = []
    together = _Together(port)
    try:
        for hold in holds:
            renewals.append(await reserve(port, hold, ttl, until, shortens=True, waits=False))
            together.left.append(renewals[-1])
        until = min(renewal.answered_by(until) for renewal in renewals)
        await persist(port, lambda: together.ask(until), until, Seat())
    except FencelockError as error:
        for renewal in together.left:  # one that was never sent changes nothing
            renewal.failed(may_run=renewal in together.unsure)
        if isinstance(error, (ClientClosed, ServerError)):
            events.renewed([renewal.hold for renewal in together.left], error)
        describe_error(port, error, ", ".join(renewal.hold.name for renewal in together.left))
        raise
    finally:
        for renewal in renewals:
            track_renewed(port, renewal)
    for renewal in renewals:
        renewal.hold.check()
    if together.refusal is not None:
        try:
            raise together.refusal
        finally:
            del together


class _Together:
    """The renewals that the holder of several leases requests at once."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self.left: list[HolderRenewal] = []  # those without an answer yet
        # those with an earlier request that had no answer and may have run
        self.unsure: set[HolderRenewal] = set()
        self.refusal: ServerError | None = None  # the first refusal that is not a loss

    async def ask(self, until: float) -> None:
        """Ask once for each that is left; raise the first error of one without an answer.

        A loss is raised at once.
        """
        left = tuple(self.left)
        silent = await self._bound([each for each in left if each.asks_clock], until)
        left = tuple(each for each in left if each not in silent)
        sent_at = self._port.now()
        for renewal in left:
            renewal.within_limits(sent_at)  # a repeated request comes later, and so nearer to them
            rely_on(self._port, renewal)
        ask = _at_once if self._port.replicas is None else _one_by_one
        answers = [*(await ask(self._port, left, until) if left else ()), *silent.values()]
        left += tuple(silent)
        trouble: NoReply | ServerError | None = None
        for renewal, answer in zip(left, answers, strict=True):
            if isinstance(answer, NoReply):
                trouble = trouble or answer
                if answer.sent:
                    self.unsure.add(renewal)
            elif isinstance(answer, ServerError) and passes(answer):
                trouble = trouble or answer
            elif isinstance(answer, Exception):
                self._refused(renewal, answer)
            else:
                await self._answered(renewal, answer, sent_at, until)
        for renewal in left:
            renewal.hold.check()
        if trouble is not None:
            try:
                raise trouble
            finally:
                del answer, answers, trouble

    async def _bound(
        self, renewals: Sequence[HolderRenewal], until: float
    ) -> dict[HolderRenewal, Exception]:
        """Bound when these may run; return the error of each whose server told no clock."""
        if not renewals:
            return {}
        asked_at, silent = self._port.now(), dict[HolderRenewal, Exception]()
        clocks = await self._port.side_by_side([each.clock_call() for each in renewals], until)
        for renewal, clock in zip(renewals, clocks, strict=True):
            if isinstance(clock, NoReply):  # nothing was sent that changes the lease
                silent[renewal] = NoReply(str(clock), sent=False)
            elif isinstance(clock, Exception):
                silent[renewal] = clock
            else:
                renewal.bound(clock, asked_at, self._port.now(), until)
        return silent

    def _refused(self, renewal: HolderRenewal, error: Exception) -> None:
        if not isinstance(error, ServerError):
            try:
                raise error  # the client is closed, or this is a bug
            finally:
                del error
        self.left.remove(renewal)
        renewal.failed(may_run=renewal in self.unsure)
        events.renewed([renewal.hold], error)
        self.refusal = self.refusal or error

    async def _answered(
        self, renewal: HolderRenewal, answer: Answer, sent_at: float, until: float
    ) -> None:
        port, hold = self._port, renewal.hold
        self.left.remove(renewal)
        renewal.answered(repeated=renewal in self.unsure)
        refused, missing = answer
        if missing is not None:
            self.refusal = self.refusal or missing
            return
        apply_renewal(port, [hold], [renewal.ttl], sent_at, refused)
        if refused:
            await notify_refused(port, {hold: refused[0]}, until)


async def _at_once(port: Port, renewals: Sequence[HolderRenewal], until: float) -> Answers:
    """Return the answer for each renewal, or the error of its request."""
    requests = [
        renewal_request([renewal.hold], [renewal.ttl], shortens_until=renewal.until_us)
        for renewal in renewals
    ]
    replies = await port.side_by_side(requests, until)
    return [
        reply if isinstance(reply, Exception) else (refusals([renewal.hold], reply), None)
        for renewal, reply in zip(renewals, replies, strict=True)
    ]


async def _one_by_one(port: Port, renewals: Sequence[HolderRenewal], until: float) -> Answers:
    """Ask one after the other, because replicas acknowledge; ask a silent node only once."""
    silent: dict[object, NoReply] = {}
    answers: Answers = []
    for renewal in renewals:
        place = port.node_of(renewal.hold.terms.keys.lock)
        if place is not None and place in silent:
            answers.append(NoReply(str(silent[place]), sent=False))
            continue
        hold, by = renewal.hold, min(until, port.now() + CALL_SECONDS_MAX)
        times = (by, hold.deadline, renewal.until_us)
        try:
            answers.append(await renew_batch(port, [hold], [renewal.ttl], *times))
        except (NoReply, FencelockError) as error:
            answers.append(error)
            if isinstance(error, NoReply):
                silent[place] = error
    return answers
