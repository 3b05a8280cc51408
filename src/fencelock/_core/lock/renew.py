"""Renew leases at their holder's request: one, or all of a multi in parallel.

Rules of this file:

- One renewal of a hold at a time. Only the holder's own ``renew(ttl)`` may shorten a lease. From
  before it is sent, and as long as it may still run, the lease counts for no longer than this
  renewal can leave it, whatever a later renewal brings.
- It may shorten the lease only until its caller gives up, which the server judges by its own clock:
  so the server is asked for its clock first. A renewal that is sent later counts in full again. The
  plain form knows no such bound, and a lease that it may have shortened counts for no more from
  then on. If the server's clock is set back meanwhile, a late request has that much more time; set
  forward, it counts for nothing sooner.
- The holder's renewal reserves the hold in the section that sees it still held. Until it ends, the
  turn is not passed on and the lease is not kept, because both go on under the same holder id. Nor
  are they after one for longer that may still run: the server may have the lease far beyond a turn.
- A release does not wait for a renewal. It closes the hold; no later answer changes a closed hold.
- All leases without an answer are renewed at once, and each answer counts by itself: a silent node
  holds up only its own leases.
- A background renewal that is under way is waited for, but not if there are several leases: it may
  be at the silent node; see ``HolderRenewal``.
- For each lease the rules of ``maintain.py`` hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fencelock._core import events
from fencelock._core.deadlines import ttl_for, validity
from fencelock._core.error_messages import describe_error, describes_errors
from fencelock._core.lock.hold import Hold, Keeper, first_due
from fencelock._core.lock.maintain import (
    CALL_SECONDS_MAX,
    NEVER,
    Answer,
    apply_renewal,
    notify_refused,
    refusals,
    renew_confirmed,
    renewal_request,
)
from fencelock._core.port import Port
from fencelock._core.retry import Together, give_up, persist
from fencelock._core.round_trips import CALL_TRIPS
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply, Reply
from fencelock.errors import ClientClosed, FencelockError, NotHeld, ServerError
from fencelock.scripts import CLOCK

# How often to check whether the other renewal of the same hold has ended.
TURN_SECONDS = 0.005


@describes_errors
async def renew_now(port: Keeper, hold: Hold, ttl: float | None, *, shortens: bool = True) -> None:
    """Renew one lease that is held, for ``ttl`` seconds or its usual length, within its limits.

    Without ``shortens`` it never ends earlier than before.

    Raises LeaseLost when it was lost or is refused; like ``ask`` when no answer comes, and
    NotAcknowledged: then the lease stays as it was.
    """
    if ttl is None and hold.terms.options.fixed_end:
        return
    check_tended(hold)
    await port.renew([hold], ttl, shortens=shortens)


def check_tended(hold: Hold) -> None:
    """Raise as ``check``, and NotHeld when the handle is gone: nothing renews the lease then."""
    hold.check()
    if hold.dropped:
        text = f"the handle of {hold.name!r} is gone: its lease is not renewed any more"
        raise NotHeld(text, name=hold.name, server=hold.server)


async def reserve(
    port: Port, hold: Hold, ttl: float | None, until: float, *, shortens: bool, waits: bool = True
) -> HolderRenewal:
    """Wait until no other renewal of a hold is under way, and reserve the hold until ``until``.

    Raises as ``check_tended`` when the hold is not tended any more, and ServerUnreachable when the
    other renewal got no answer by then. Without ``waits`` only the holder's own renewals are waited
    for.
    """
    while True:
        now = port.now()
        with port.mutex:
            renewal = HolderRenewal(hold, ttl, now, shortens=shortens)
            under_way = port.renewals.is_under_way(hold)
            reserved = renewal.reserves(until, under_way=under_way, waits=waits)
            if reserved:
                port.renewals.split(hold)
        if reserved:
            return renewal
        if not hold.open or now >= until:
            check_tended(hold)
        if now >= until:
            give_up(NoReply("another renewal of the lease is under way", sent=False), Seat())
        await port.sleep(min(until, now + TURN_SECONDS))


class HolderRenewal:
    """A renewal that the holder requests: its length, and whether it may shorten the lease."""

    __slots__ = (
        *("_before", "_overlaps", "_reach", "_reach_until"),
        *("asked_at", "hold", "may_run", "may_run_until", "shortens", "ttl", "until_us"),
    )

    def __init__(self, hold: Hold, ttl: float | None, now: float, *, shortens: bool) -> None:
        self.hold = hold
        self.ttl: float = hold.usual if ttl is None else ttl
        self.asked_at = now
        # A limit that is near never shortens a lease.
        self.shortens: bool = shortens and now + validity(self.ttl) < hold.deadline
        self.may_run: bool = True  # now or later: no answer says what became of it
        self._overlaps = False  # with a background renewal, which may run before it or after it
        self._before, self._reach, self._reach_until = hold.deadline, hold.reach, hold.reach_until
        # Until when it may shorten the lease: on the server's clock, and at the latest on ours.
        self.until_us, self.may_run_until = NEVER, inf
        self.within_limits(now)

    def reserves(self, until: float, *, under_way: bool, waits: bool) -> bool:
        """Reserve the hold unless it is not tended or is reserved; call under the mutex."""
        hold = self.hold
        if not hold.open or self.asked_at < hold.asked_until or (waits and under_way):
            return False
        if hold.reserved_by is not None:  # one that got no answer in time: it may still run
            hold.last = True
        hold.reserved_by, hold.asked_until = self, until
        self._overlaps = under_way
        return True

    def within_limits(self, now: float) -> None:
        """Ask for no more than the hold's limits leave."""
        span = self.hold.within_limits(self.ttl, now)
        self.ttl = span if self.shortens else max(span, self.hold.least(now))

    def answered_by(self, until: float) -> float:
        """Return until when to wait for its answer: no longer than it may leave of the lease."""
        left = self.asked_at + validity(self.ttl) if self.shortens else self.hold.deadline
        return min(until, left)

    @property
    def asks_clock(self) -> bool:
        """Return True if the server's clock is asked for first, because it bounds the request."""
        return self.shortens and not self.hold.terms.plain

    def clock_call(self) -> Call:
        """Return the request for the clock of the server that has the lease."""
        return CLOCK, self.hold.terms.keys.plain, ()

    def request(self) -> Call:
        """Return the request that renews the lease."""
        return renewal_request([self.hold], [self.ttl], shortens_until=self.until_us)

    def bound(self, clock: Reply, asked_at: float, now: float, until: float) -> None:
        """Let it shorten the lease until its caller gives up, and not later."""
        left = max(0.0, until - asked_at)
        self.until_us = int(clock) + int(left * 1e6)
        self.may_run_until = now + ttl_for(left)  # then its clock is as far

    def keep(self) -> None:
        """Shorten nothing: the server did not tell its clock."""
        self.shortens = False
        self.within_limits(self.asked_at)

    def answered(self, *, repeated: bool) -> None:
        """Note that it ran, so that it cannot run later; a repeated one may."""
        self.may_run = repeated
        if not repeated and not self._overlaps:
            self._unlimit()

    def _unlimit(self) -> None:
        self.hold.reach, self.hold.reach_until = self._reach, self._reach_until

    def failed(self, *, may_run: bool) -> None:
        """Note that it was refused, or never sent: then the lease is what it was."""
        self.may_run = may_run
        if may_run or self._overlaps:
            return
        self._unlimit()
        if self.shortens and self.hold.open and self.hold.loss is None:
            self.hold.move_deadline(self._before)


def rely_on(port: Port, renewal: HolderRenewal) -> None:
    """Before a shortening renewal is sent, limit the lease to what the renewal can leave (I2)."""
    if not renewal.shortens:
        return
    hold = renewal.hold
    with port.mutex:
        hold.limit(renewal.ttl, renewal.may_run_until)
        hold.move_deadline(min(hold.deadline, renewal.asked_at + validity(renewal.ttl)))
    port.move(hold, hold.deadline)


def track_renewed(port: Port, renewal: HolderRenewal) -> None:
    """Schedule a hold again after the holder's own renewal, in time for what is left of it."""
    hold = renewal.hold
    with port.mutex:
        last = hold.reserved_by is renewal  # else it ended too late: another one took its place
        if last:
            hold.reserved_by, hold.asked_until = None, 0.0
        if renewal.may_run and not hold.partial:  # the server may have it for longer than we know
            hold.failures += 1
            hold.last = hold.last or renewal.ttl > hold.ttl
        port.renewals.settle((hold,))
    if last:
        now = port.now()
        left = min(renewal.ttl, hold.reach)
        port.move(hold, max(now, first_due(hold, left, port.jitter(), renewal.asked_at)))


# -- several at once -----------------------------------------------------------------------------


async def renew(
    port: Port, holds: Sequence[Hold], ttl: float | None, *, shortens: bool = True
) -> None:
    """Renew leases, all nodes in parallel; one after the other where replicas acknowledge.

    Raises LeaseLost when one of them was lost or is refused; otherwise, once all others are
    renewed, as ``renew_now`` when no answer came for one.
    """
    for hold in holds:
        check_tended(hold)
    holds = [hold for hold in holds if ttl is not None or not hold.terms.options.fixed_end]
    if not holds:
        return
    until = min(port.now() + port.server_timeout, *[hold.deadline for hold in holds])
    renewals: list[HolderRenewal] = []
    together, waits = _Renewals(port), len(holds) == 1
    try:
        for hold in holds:
            renewals.append(  # noqa: PERF401 - if one is refused, the others are known
                await reserve(port, hold, ttl, until, shortens=shortens, waits=waits)
            )
        together.until = until = min(renewal.answered_by(until) for renewal in renewals)
        await persist(port, lambda: together.ask(renewals, together.send), until)
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
        check_tended(renewal.hold)
    together.check()


class _Renewals(Together[HolderRenewal]):
    """The renewals that the holder of one lease or several requests at once."""

    def __init__(self, port: Port) -> None:
        super().__init__()
        self._port = port
        self._sent_at = self.until = 0.0

    async def took(self, parts: Sequence[HolderRenewal]) -> None:
        """Apply what was answered; raise a loss at once, but not that of one that was silent."""
        port, unsure = self._port, self.unsure
        for renewal in parts:
            hold = renewal.hold
            if renewal in self.answers:
                refused, missing = self.answers[renewal]
                renewal.answered(repeated=renewal in unsure)
                if missing is not None:
                    self.refused[renewal] = missing
                    continue
                apply_renewal(port, [hold], [renewal.ttl], self._sent_at, refused)
                if refused:
                    await notify_refused(port, {hold: refused[0]}, self.until)
            elif renewal in self.refused:
                renewal.failed(may_run=renewal in unsure)
                events.renewed([hold], self.refused[renewal])
        for renewal in parts:
            loss = renewal.hold.loss
            if renewal in self.answers or (loss is not None and loss.reason != "expired"):
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


async def _at_once(
    port: Port, renewals: Sequence[HolderRenewal], until: float
) -> list[Answer | Exception]:
    """Return the answer for each renewal, or the error of its request."""
    replies = await port.side_by_side([each.request() for each in renewals], until)
    return [
        reply if isinstance(reply, Exception) else (refusals([renewal.hold], reply), None)
        for renewal, reply in zip(renewals, replies, strict=True)
    ]


async def _one_by_one(
    port: Port, renewals: Sequence[HolderRenewal], until: float
) -> list[Answer | Exception]:
    """Ask one after the other, because replicas acknowledge; ask a silent node only once."""
    silent: dict[object, NoReply] = {}
    answers: list[Answer | Exception] = []
    for renewal in renewals:
        place = port.node_of(renewal.hold.terms.keys.lock)
        if place is not None and place in silent:
            answers.append(NoReply(str(silent[place]), sent=False))
            continue
        most = port.trips.within(CALL_SECONDS_MAX, CALL_TRIPS)
        hold, by = renewal.hold, min(until, port.now() + most)
        try:
            asked = renewal.request()
            answers.append(await renew_confirmed(port, [hold], asked, by, hold.deadline))
        except (NoReply, FencelockError) as error:
            answers.append(error)
            if isinstance(error, NoReply):
                silent[place] = error
    return answers
