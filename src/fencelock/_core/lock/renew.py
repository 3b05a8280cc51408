"""Renew leases, and notify their holders in time of a loss.

Rules of this file:

- One renewal schedule for all leases of a client; one thread or task works through it (N1).
- A renewal counts from the instant before it was sent (I2), uses the holder's own id, and never
  outlives its hold (I11).
- One renewal of a hold at a time. Only the holder's own ``renew(ttl)`` may shorten a lease. From
  before it is sent, and as long as it may still run, the lease counts for no longer than this
  renewal can leave it, whatever a later renewal brings.
- It may shorten the lease only until its caller gives up, which the server judges by its own clock:
  so the server is asked for its clock first. A renewal that is sent later counts in full again. The
  plain form knows no such bound, and a lease that it may have shortened counts for no more from
  then on. If the server's clock is set back meanwhile, a late request has that much more time; set
  forward, it counts for nothing sooner.
- The holder's renewal reserves the hold in the section that sees it still held. Until it ends, the
  turn is not passed on and the lease is not kept, because both go on under the same holder id.
- A release does not wait for a renewal. It closes the hold; no later answer changes a closed hold.
- A hold is in the schedule, under way, or over. ``close`` and pushed messages find it there, also
  one whose handle was dropped: it is not renewed, and is notified of its loss.
- A missing answer is not a refusal: the renewal is retried while the lease lasts (N6). A refusal is
  a loss, whether or not the server can be asked for an operator's reason.
- The holder is notified of a loss once, and at the local deadline at the latest (I8): see
  ``Hold.lose``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf

from fencelock._core import events
from fencelock._core.deadlines import over_at, validity
from fencelock._core.error_messages import describes_errors
from fencelock._core.lock.hold import Hold, Keeper, first_due
from fencelock._core.lock.release import release_call
from fencelock._core.lock.renew_batch import renew_batch
from fencelock._core.lock.renew_request import (
    LOOK_SECONDS,
    NEVER,
    Answer,
)
from fencelock._core.lock.terms import SHARES
from fencelock._core.port import Port
from fencelock._core.retry import give_up, persist
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply, Reply
from fencelock._runtime.log import listed, log
from fencelock.errors import ClientClosed, FencelockError, NotHeld, ServerError
from fencelock.scripts import CLOCK, REVOKED

# A lease of a quorum was renewed when it has grown by this part of its ttl.
LEAST_GROWTH = 0.1
# How often to check whether the other renewal of the same hold has ended.
TURN_SECONDS = 0.005
# How long the loss of a refused lease may wait for an operator's reason.
REASON_SECONDS = 0.1


def apply_renewal(
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    asked_at: float,
    refused: Mapping[int, str],
) -> None:
    """Apply successful renewals. Leases of one length stay together, at one new instant."""
    answered_at, jitter = port.now(), port.jitter()
    groups: dict[float, list[Hold]] = {}
    usual: dict[float, list[Hold]] = {}  # by ttl; holds near a limit are handled separately
    late: list[Hold] = []
    before = _proved(holds) if events.hooks else ()
    with port.mutex:
        left = range(len(holds)) if refused else _apply_steady(port, holds, ttls, asked_at, jitter)
        for number in left:
            hold, ttl = holds[number], ttls[number]
            if not hold.open or number in refused:
                continue
            options = hold.terms.options
            if hold.loss is not None or answered_at >= hold.deadline:
                late.append(hold)
                continue
            if ttl == LOOK_SECONDS:
                groups.setdefault(hold.deadline, []).append(hold)
                continue
            ttl = hold.counted(ttl, asked_at)
            deadline = asked_at + validity(ttl)
            hold.renewed()
            alike = ttl == options.ttl and options.max_hold is None and options.max_renewals is None
            alike = alike and deadline > hold.deadline
            hold.move_deadline(max(hold.deadline, deadline))
            group = usual.get(ttl) if alike else None
            if group is None:
                group = groups.setdefault(first_due(hold, ttl, jitter, asked_at), [])
                if alike:
                    usual[ttl] = group
            group.append(hold)
        for when, group in groups.items():
            port.renewals.add_all(group, when)
    for hold in late:
        end_late(port, hold)
    if before:
        _report(holds, before, answered_at - asked_at)


def _proved(holds: Sequence[Hold]) -> list[float]:
    """Return until when the users' leases are proved."""
    return [hold.whole.deadline for hold in holds]


def _report(holds: Sequence[Hold], before: Sequence[float], took: float) -> None:
    """Report the renewals that have prolonged a user's lease.

    That of a quorum grows with the renewal that completes a majority, and by little afterwards.
    """
    after, told = _proved(holds), []
    for hold, was, now in zip(holds, before, after, strict=True):
        if now != was and (not hold.partial or now - was > hold.ttl * LEAST_GROWTH):
            told.append(hold.whole)
    events.renewed(told, took=took)


def _apply_steady(
    port: Port, holds: Sequence[Hold], ttls: Sequence[float], asked_at: float, jitter: float
) -> Sequence[int]:
    """Apply renewals of one ttl to leases that nothing may cut short; return the other numbers.

    With very many leases this is most of what keeping them costs.
    """
    span, answered_at = ttls[0], port.now()
    deadline = asked_at + validity(span)
    if ttls.count(span) < len(ttls):
        return range(len(holds))
    done = [
        hold
        for hold in holds
        if answered_at < hold.deadline < deadline
        and (hold.open and hold.loss is None and hold.observer is None)
        and not (hold.short or hold.failures)
        and hold.steady == span <= hold.reach
    ]
    if done:
        Hold.renew_together(done, deadline)
        port.renewals.add_all(done, first_due(done[0], span, jitter, asked_at))
    if len(done) == len(holds):
        return ()
    renewed = set(done)
    return [number for number, hold in enumerate(holds) if hold not in renewed]


def end_late(port: Port, hold: Hold) -> None:
    """Release a lease that was renewed after its loss was reported: a lost lease stays lost."""
    lose(port, hold, hold.end, hold.deadline)
    if hold.open:
        port.run_in_background(*release_call(hold, hold.fence))


async def notify_refused(port: Port, refused: Mapping[Hold, str], until: float) -> None:
    """Notify of losses, with an operator's reason if the server tells one soon."""
    full = [hold for hold in refused if not hold.terms.plain]
    words: dict[Hold, bytes] = {}
    if full:
        keys = [hold.terms.keys.revoked for hold in full]
        until = min(until, port.now() + REASON_SECONDS)
        with suppress(NoReply, FencelockError):
            words.update(zip(full, await port.call(REVOKED, keys, (), until), strict=True))
    for hold, how in refused.items():
        holders, _, reason = words.get(hold, b"").partition(b" ")
        if hold.holder_id in (holders.split(b",") if hold.kind == SHARES else (holders,)):
            lose(port, hold, "revoked", port.now(), reason.decode())
        else:
            lose(port, hold, how, port.now())


def lose_all(port: Port, reason: str) -> None:
    """Notify the holder of every scheduled lease that it is no longer renewed."""
    with port.mutex:
        holds = port.renewals.tracked()
        port.renewals.clear()
    lost = [hold for hold in holds if lose(port, hold, reason, port.now()) and not hold.dropped]
    if lost:
        text = "%d lease(s) were still held and are no longer renewed: %s (%s)"
        names = (hold.name for hold in lost if not hold.partial)
        log.warning(text, len(lost), reason, listed(names))


def lose(port: Port, hold: Hold, reason: str, since: float, detail: str = "") -> bool:
    """End the renewal of a lost hold; return True if nothing else reports its loss."""
    with port.mutex:
        port.renewals.discard(hold)
    return hold.lose(reason, since, detail)


def log_loss(hold: Hold) -> None:
    """Log a loss with its cause; the leases that a closed client gives up share one record."""
    reason, _, detail = hold.loss or (hold.end, 0.0, "")
    if reason == "closed":
        return
    tell = log.info if hold.partial or hold.dropped else log.warning
    why = f"{reason}: {detail}" if detail else reason
    tell("lost lease of %r, fence %d: %s", hold.name, hold.fence, why)


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
    await port.renew(hold, ttl, shortens)


async def renew_one(port: Port, hold: Hold, ttl: float | None, shortens: bool) -> None:  # noqa: FBT001 - passed on as it came
    """Renew a lease of one server; ends as ``renew_now``."""
    until = min(port.now() + port.server_timeout, hold.deadline)
    renewal = await reserve(port, hold, ttl, until, shortens=shortens)
    log = Seat()

    async def once() -> tuple[float, Answer]:
        if renewal.asks_clock:
            try:
                asked_at, clock = port.now(), await port.call(*renewal.clock_call(), until)
            except NoReply as silence:  # nothing was sent that changes the lease
                raise NoReply(str(silence), sent=False) from silence.__cause__
            renewal.bound(clock, asked_at, port.now(), until)
        sent_at = port.now()
        renewal.within_limits(sent_at)  # a repeated request comes later, and so nearer to them
        rely_on(port, renewal)
        end = hold.deadline
        return sent_at, await renew_batch(port, [hold], [renewal.ttl], until, end, renewal.until_us)

    try:
        until = renewal.answered_by(until)
        try:
            sent_at, answer = await persist(port, once, until, log)
        except (ClientClosed, ServerError) as error:
            renewal.failed(may_run=log.sent)
            events.renewed([hold], error)
            raise
        renewal.answered(repeated=log.sent)
        refused, missing = answer
        del answer
        if missing is not None:
            try:
                raise missing
            finally:
                del missing
        apply_renewal(port, [hold], [renewal.ttl], sent_at, refused)
        if refused:
            await notify_refused(port, {hold: refused[0]}, until)
    finally:
        track_renewed(port, renewal)
    check_tended(hold)


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
            under_way = hold in port.renewals.under_way
            reserved = renewal.reserves(until, under_way=under_way, waits=waits)
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

    def bound(self, clock: Reply, asked_at: float, now: float, until: float) -> None:
        """Let it shorten the lease until its caller gives up, and not later."""
        left = max(0.0, until - asked_at)
        self.until_us = int(clock) + int(left * 1e6)
        self.may_run_until = over_at(now, left)

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
        goes_on = hold.open and not hold.notified
        port.renewals.settle((hold,))
    if last and goes_on:
        now = port.now()
        left = min(renewal.ttl, hold.reach)
        port.move(hold, max(now, first_due(hold, left, port.jitter(), renewal.asked_at)))
