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
from fencelock._core.objects.multi import Together
from fencelock._core.port import Port
from fencelock._core.retry import persist
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
    together = _Renewals(port)
    try:
        for hold in holds:
            renewals.append(  # noqa: PERF401 - if one is refused, the others are known
                await reserve(port, hold, ttl, until, shortens=True, waits=False)
            )
        together.until = until = min(renewal.answered_by(until) for renewal in renewals)
        await persist(port, lambda: together.ask(renewals, together.send), until, Seat())
    except FencelockError as error:
        left = together.left(renewals)
        for renewal in left:  # one that was never sent changes nothing
            renewal.failed(may_run=renewal in together.unsure)
        if isinstance(error, (ClientClosed, ServerError)):
            events.renewed([renewal.hold for renewal in left], error)
        describe_error(port, error, ", ".join(renewal.hold.name for renewal in left))
        raise
    finally:
        for renewal in renewals:
            track_renewed(port, renewal)
    for renewal in renewals:
        renewal.hold.check()
    together.check()


class _Renewals(Together[HolderRenewal]):
    """The renewals that the holder of several leases requests at once."""

    def __init__(self, port: Port) -> None:
        super().__init__()
        self._port = port
        self._sent_at = self.until = 0.0

    async def took(self, parts: Sequence[HolderRenewal]) -> None:
        """Apply what was answered; raise a loss at once."""
        for renewal in parts:
            if renewal in self.refused:
                renewal.failed(may_run=renewal in self.unsure)
                events.renewed([renewal.hold], self.refused[renewal])
            elif renewal in self.answers:
                await self._answered(renewal)
        for renewal in parts:
            renewal.hold.check()

    async def send(self, left: Sequence[HolderRenewal]) -> Sequence[Answer | Exception]:
        """Ask for these, as far as their servers told the clocks that they need."""
        port = self._port
        answers = await self._bound([each for each in left if each.asks_clock])
        sure = [each for each in left if each not in answers]
        self._sent_at = port.now()
        for renewal in sure:
            renewal.within_limits(self._sent_at)  # a repeated one is nearer to them
            rely_on(port, renewal)
        ask = _at_once if port.replicas is None else _one_by_one
        answers |= zip(sure, await ask(port, sure, self.until) if sure else (), strict=True)
        return [answers[each] for each in left]

    async def _bound(
        self, renewals: Sequence[HolderRenewal]
    ) -> dict[HolderRenewal, Answer | Exception]:
        """Bound when these may run; return the error of each whose server told no clock."""
        if not renewals:
            return {}
        asked_at, silent = self._port.now(), dict[HolderRenewal, Answer | Exception]()
        calls = [each.clock_call() for each in renewals]
        clocks = await self._port.side_by_side(calls, self.until)
        for renewal, clock in zip(renewals, clocks, strict=True):
            if isinstance(clock, NoReply):  # nothing was sent that changes the lease
                silent[renewal] = NoReply(str(clock), sent=False)
            elif isinstance(clock, Exception):
                silent[renewal] = clock
            else:
                renewal.bound(clock, asked_at, self._port.now(), self.until)
        return silent

    async def _answered(self, renewal: HolderRenewal) -> None:
        hold, (refused, missing) = renewal.hold, self.answers[renewal]
        renewal.answered(repeated=renewal in self.unsure)
        if missing is not None:
            self.refused[renewal] = missing
            return
        apply_renewal(self._port, [hold], [renewal.ttl], self._sent_at, refused)
        if refused:
            await notify_refused(self._port, {hold: refused[0]}, self.until)


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
