"""Renew leases as they come due, and notify their holders in time of a loss.

Rules of this file:

- One renewal schedule for all leases of a client; one thread or task works through it.
- A renewal counts from the instant before it was sent (I2), uses the holder's own id, and never
  outlives its hold (I11).
- A hold is in the schedule, under way, or over. ``close`` and pushed messages find it there, also
  one whose handle was dropped: it is not renewed, and is notified of its loss.
- A missing answer is not a refusal: the renewal is retried while the lease lasts (I4). A refusal is
  a loss, whether or not the server can be asked for an operator's reason.
- The holder is notified of a loss once, and at the local deadline at the latest (I8): see
  ``Hold.lose``.
- Leases are renewed node by node, and one script touches one slot: a single server is one node with
  one slot.
- A node with a request under way is not asked again: what is due there waits in the schedule.
- A node that is silent holds up only its own leases. No wait lasts beyond the next deadline of a
  lease whose holder could not be notified meanwhile (I8).
- After a time without listening, leases that are not renewed are looked at, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, repeat
from math import inf

from fencelock._core import events
from fencelock._core.deadlines import retry_delay, validity
from fencelock._core.lock.acknowledge import confirmed
from fencelock._core.lock.hold import Hold, first_due, lose
from fencelock._core.lock.renewal_schedule import Bucket, RenewalBatch
from fencelock._core.lock.tenure import give_up_due, revoke
from fencelock._core.lock.terms import LOCKS, OWNED, PLAIN, REDISSON, SHARES, milliseconds
from fencelock._core.retry import passes
from fencelock._core.round_trips import CALL_TRIPS
from fencelock._core.types import Call, NoReply, PackedCall, Reply
from fencelock._runtime.log import listed, log
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import FencelockError, NotAcknowledged, ServerError
from fencelock.lease import fence_of
from fencelock.scripts import (
    POLL_RENEW,
    REDISSON_RENEW,
    RENEW,
    REVOKED,
    SHARES_RENEW,
    packed,
    with_source,
)

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# Leases per command. The server needs half a millisecond, in which it serves no other client. From
# 100 on the command's own cost is negligible; with 500 each lease takes no less time
# (tests/scale/measure.py).
LEASES_PER_CALL = 200

# One silent call may hold up the others for at most this long on a near network, and at most for a
# third of what its shortest lease has left: so three tries fit.
CALL_SECONDS_MAX = 1.0
TRIES = 3
# Where a third is less than a round trip, a try gets nearly all, and so does the first one of a
# lease that was handed over short: a far server's answer takes most of it.
ONE_TRY = 0.9
# Asks for nothing, because no renewal shortens a lease: the answer says whether it is still held.
LOOK_SECONDS = 0.001

# Returns the earliest end of the leases that wait meanwhile, at least if it is before an instant.
FirstEnd = Callable[[float], float]
# Refusals by index, and NotAcknowledged if the remaining renewals were not replicated.
Answer = tuple[Mapping[int, str], NotAcknowledged | None]
# How many leases are handled in one go: the other tasks of a loop wait meanwhile.
LEASES_PER_PAUSE = 1000
# A lease that cannot be renewed is retried twice a second; not each try is worth a line of the log.
FAILURES_PER_LINE = 120
RECHECK_AFTER_SECONDS = 1.0
# When to look again at what is due at a node that is being asked.
BUSY_SECONDS = 0.05
# When to try again after an error that is none of a server: not at once, for ever (I16).
ERROR_SECONDS = 0.1
# A lease of a quorum was renewed when it has grown by this part of its ttl.
LEAST_GROWTH = 0.1
# What renews the leases of each kind, and how many keys each lease has there.
RENEWALS = {
    LOCKS: (RENEW, 2),
    OWNED: (RENEW, 3),
    SHARES: (SHARES_RENEW, 3),
    REDISSON: (REDISSON_RENEW, 1),
    PLAIN: (POLL_RENEW, 1),
}
# How long the loss of a refused lease may wait for an operator's reason.
REASON_SECONDS = 0.1


class Renewer:
    """What renews the leases of a client at its server, and notifies their holders of losses.

    It is made when there is something to do: an engine that kept one would not be freed as soon as
    it is dropped.
    """

    __slots__ = ("port",)

    def __init__(self, port: Engine) -> None:
        self.port: Engine = port

    async def recheck(self) -> None:
        """Renew leases now: a revocation may have come while no connection listened.

        A lease whose renewal is due soon learns of it then; very many leases are spread until then.
        """
        now = self.port.now()
        with self.port.mutex:
            later = self.port.renewals.later_than(now + RECHECK_AFTER_SECONDS)
        for start in range(0, len(later), LEASES_PER_PAUSE):
            if start:
                await self.port.sleep(now)  # others may run
            with self.port.mutex:
                when = now + RECHECK_AFTER_SECONDS * start / len(later)
                self.port.renewals.move(later[start : start + LEASES_PER_PAUSE], when)

    async def maintain(self) -> None:
        """Do what is due: notify holders of losses, renew the rest; no server's error is raised."""
        now, takes = self.port.now(), self.port.renewals.takes

        def taken() -> list[Bucket]:
            return self.port.renewals.taken_since(takes)

        with self._scheduled(taken, lambda: [*chain(*taken())]):
            with self.port.mutex:
                whole, due = self.port.renewals.whole_batches(now), self.port.renewals.due(now)
            if self.port.renewals.watched:
                give_up_due(self.port, now)
            nodes: dict[Hashable | None, list[RenewalBatch]] = {}
            for batch in await self._batches(whole, due, now):
                nodes.setdefault(self.port.node_of(_key(batch[0])), []).append(batch)
            for node, batches in nodes.items():
                if not await self.port.renew_at(node, batches):
                    for batch in batches:
                        self.put_back(batch, min(now + BUSY_SECONDS, batch.shortest.deadline))

    @contextmanager
    def _scheduled(
        self, taken: Callable[[], Iterable[Bucket]], left: Callable[[], list[Hold]]
    ) -> Iterator[None]:
        """Lose no hold from the schedule, whatever ends the block, and forget those that are over.

        ``left`` returns those that the block had to do with, and that are still under way, and
        ``taken`` the buckets in which they are.
        """
        try:
            yield
        except BaseException as error:  # cancelled, out of memory, or a bug
            pause = ERROR_SECONDS if isinstance(error, Exception) else 0.0
            for hold in left():
                self.put_back([hold], min(self.port.now() + pause, hold.deadline))
            raise
        finally:
            with self.port.mutex:
                self.port.renewals.settle(taken())

    async def _batches(
        self, whole: Sequence[RenewalBatch], due: Sequence[Hold], now: float
    ) -> Sequence[RenewalBatch]:
        """Return what is to be renewed, command by command; the rest is lost, or put back.

        A full batch is renewed as it was. Smaller ones are joined with what else is due: one script
        can renew so many of one kind and one slot.
        """
        batches: list[RenewalBatch] = []
        slots = {slot: [*holds] for slot, holds in self.port.by_slot(due, _key).items()}
        for slot, found in self.port.by_slot(whole, lambda batch: _key(batch[0])).items():
            small = [batch for batch in found if len(batch) < LEASES_PER_CALL]
            joined = len(small) > 1 or slot in slots
            if joined:
                slots.setdefault(slot, []).extend(chain(*small))
            batches += [each for each in found if not joined or len(each) == LEASES_PER_CALL]
        seen = 0
        for holds in slots.values():
            kinds: tuple[list[Hold], ...] = ([], [], [], [], [])
            for hold in holds:
                seen += 1
                steady = hold.steady and hold.open and now < hold.deadline
                if steady or self._renews(hold, now):
                    kinds[hold.kind].append(hold)
                if seen % LEASES_PER_PAUSE == 0:
                    await self.port.sleep(now)  # others may run
            for kind, alike in enumerate(kinds):
                size = 1 if kind == PLAIN else LEASES_PER_CALL
                for start in range(0, len(alike), size):
                    batches.append(RenewalBatch(alike[start : start + size]))
        return batches

    def _renews(self, hold: Hold, now: float) -> bool:
        """Return True if a hold is to be renewed now; else notify of its loss, or put it back."""
        if now >= hold.deadline or hold.loss is not None:  # an error came in between
            self.ended(hold)
        elif hold.renewable(now):
            return True
        elif not hold.released:
            if hold.open:
                hold.final()
            return True  # ``recheck`` made it due, or its handle was dropped: look at it
        return False

    async def renew_node(self, batches: Sequence[RenewalBatch], first_end: FirstEnd) -> None:
        """Renew the leases of one node, until it is silent: the rest is retried soon.

        No wait lasts beyond the next of their deadlines, or the end of a lease that waits.
        """
        # The earliest deadline of each batch and all after it.
        deadlines = (batch.shortest.deadline for batch in reversed(batches))
        ends = [*accumulate(deadlines, min, initial=inf)][::-1]
        buckets = {id(at): at for batch in batches for at in batch.buckets}

        def left() -> list[Hold]:
            return [hold for hold in chain(*batches) if self.port.renewals.is_under_way(hold)]

        # Replicas acknowledge one at a time.
        at_once = self.port.pipeline_max if self.port.replicas is None else 1
        with self._scheduled(buckets.values, left):
            for start in range(0, len(batches), at_once):
                end = start + at_once
                silent, trouble = await self._renew(batches[start:end], ends[start], first_end)
                if trouble is None:
                    continue
                over = isinstance(trouble, NotAcknowledged) or not isinstance(trouble, ServerError)
                if over:
                    silent += chain(*batches[end:])
                await self.failed(silent, trouble)
                if over:
                    return

    def ended(self, hold: Hold, *, late: bool = False) -> None:
        """Notify the holder of a loss; release a lease that may last longer on the server.

        One that was renewed too ``late``, or without enough replicas, may; or one with a fixed end
        that was handed over just before that. A lost lease stays lost. What a client held that was
        closed without giving it back ends by its ttl, also where it was just being renewed.
        """
        port, fixed = self.port, hold.terms.options.fixed_end
        lose(port, hold, hold.end, hold.deadline)
        lasts = late or fixed or (hold.failures and port.replicas is not None)
        if lasts and hold.open and not hold.closed:
            port.run_in_background(*hold.terms.release(hold))

    def put_back(self, holds: Iterable[Hold], when: float) -> None:
        """Schedule those that are still tracked for ``when``."""
        with self.port.mutex:
            left = [hold for hold in holds if hold.open and not hold.notified]
            self.port.renewals.add_all(left, when)

    async def _renew(
        self, batches: Sequence[RenewalBatch], ends: float, first_end: FirstEnd
    ) -> tuple[list[Hold], Exception | None]:
        """Renew batches at once, and notify of losses; return what stays as it was, and why."""
        port = self.port
        batches = [live for batch in batches if (live := _live(batch))]
        silent: list[Hold] = []
        trouble: Exception | None = None
        if not batches:
            return silent, trouble
        asked_at = port.now()
        ttls = [next_ttls(batch, asked_at) for batch in batches]
        replicas_take = 0.0 if port.replicas is None else port.replicas.timeout
        most = port.trips.within(CALL_SECONDS_MAX, CALL_TRIPS)
        with port.mutex:
            ends = min(ends, first_end(asked_at + most + replicas_take))
        trip = port.trips.seconds
        within = min(map(answer_within, batches, ttls, repeat(asked_at), repeat(trip)))
        until = min(asked_at + min(most, within), ends)
        answers = await self.renew_batches(batches, ttls, until, ends)
        for batch, each, (refused, missing) in zip(batches, ttls, answers, strict=True):
            if missing is None:
                self.apply(batch, each, asked_at, refused)
            else:
                silent += batch
                trouble = trouble or missing
            if refused:
                await self.notify_refused({batch[at]: how for at, how in refused.items()}, until)
        return silent, trouble

    async def failed(self, holds: Sequence[Hold], error: Exception) -> None:
        """Retry soon, and at each lease's end at the latest."""
        passing = isinstance(error, NoReply) or passes(error)
        known = holds[0].failures % FAILURES_PER_LINE and all(hold.trouble for hold in holds)
        tell = log.debug if known else log.info if passing or holds[0].partial else log.warning
        now, jitter = self.port.now(), self.port.jitter()  # one, so that they share commands again
        retries: dict[float, list[Hold]] = {}
        for number, hold in enumerate(holds, 1):
            hold.failures += 1
            hold.trouble, hold.may_grow = error, True
            again_at = now + retry_delay(hold.failures, jitter)
            if hold.notified:  # its holder was the first to notice, while this was under way
                with self.port.mutex:
                    self.port.renewals.discard(hold)
                self.ended(hold)
            else:
                retries.setdefault(min(again_at, hold.deadline), []).append(hold)
            if number % LEASES_PER_PAUSE == 0:
                await self.port.sleep(now)  # others may run
        for when, group in retries.items():
            self.put_back(group, when)
        text = "renewal of %d lease(s) failed, retrying while they last: %s"
        tell(text, len(holds), error)
        if events.hooks:
            events.renewed([hold.user_lease for hold in holds if _endangers(hold)], error)

    async def renew_confirmed(
        self, holds: Sequence[Hold], asked: Call, until: float, ends: float
    ) -> Answer:
        """Renew holds of one kind, where replicas must have it by ``ends``; ends like ``call``."""

        def counts(reply: Reply) -> bool:
            """Return True if one of them was renewed."""
            return len(refusals(holds, reply)) < len(holds)

        port, first = self.port, holds[0]
        reply, missing = await confirmed(port, first, asked, until, ends=ends, counts=counts)
        return refusals(holds, reply), missing

    async def renew_batches(
        self,
        batches: Sequence[RenewalBatch],
        ttls: Sequence[Sequence[float]],
        until: float,
        ends: float,
    ) -> Sequence[tuple[Mapping[int, str], Exception | None]]:
        """Renew batches of one node at once; return of each the refusals, or what it raises."""
        port = self.port
        if port.replicas is not None:
            (holds,), (lengths,) = batches, ttls
            try:
                asked = renewal_request(holds, lengths)
                return [await self.renew_confirmed(holds, asked, until, ends)]
            except (NoReply, FencelockError) as error:
                return [({}, error)]
        requests: list[PackedCall] = []
        for batch, lengths in zip(batches, ttls, strict=True):
            terms, request = batch[0].terms, packed_renewal(batch, lengths)
            if port.trips.far and len(batches) == 1:  # a third of the lease may be one round trip
                request = with_source(request)
            requests.append((request, terms.keys.lock))
        return [
            ({}, answer) if isinstance(answer, Exception) else (refusals(batch, answer), None)
            for batch, answer in zip(batches, await port.run_packed(requests, until), strict=True)
        ]

    def apply(
        self,
        holds: Sequence[Hold],
        ttls: Sequence[float],
        asked_at: float,
        refused: Mapping[int, str],
    ) -> None:
        """Apply successful renewals. Leases of one length stay together, at one new instant."""
        answered_at, jitter = self.port.now(), self.port.jitter()
        groups: dict[float, list[Hold]] = {}
        late: list[Hold] = []
        before = [hold.user_lease.deadline for hold in holds] if events.hooks else []
        with self.port.mutex:
            steady = self._apply_steady
            for number in range(len(holds)) if refused else steady(holds, ttls, asked_at, jitter):
                hold, ttl = holds[number], ttls[number]
                if number in refused:
                    hold.last = True
                if not hold.open or number in refused:
                    continue
                if hold.loss is not None or answered_at >= hold.deadline:
                    late.append(hold)
                    continue
                if ttl == LOOK_SECONDS:
                    groups.setdefault(hold.deadline, []).append(hold)
                    continue
                deadline = asked_at + validity(ttl)
                hold.renewed()
                hold.move_deadline(max(hold.deadline, deadline))
                length = max(ttl, hold.deadline - asked_at)  # it may have had more left
                when = first_due(self.port, hold, length, jitter, asked_at)
                groups.setdefault(when, []).append(hold)
            for when, group in groups.items():
                self.port.renewals.add_all(group, when)
        for hold in late:
            self.ended(hold, late=True)
        if before:
            _report(holds, before, answered_at - asked_at)

    def _apply_steady(
        self, holds: Sequence[Hold], ttls: Sequence[float], asked_at: float, jitter: float
    ) -> Sequence[int]:
        """Apply renewals of one ttl to leases that nothing may cut short; return the other numbers.

        With very many leases this is most of what keeping them costs.
        """
        span, answered_at = ttls[0], self.port.now()
        done: Sequence[Hold]
        deadline = asked_at + validity(span)
        if ttls.count(span) < len(ttls):
            return range(len(holds))
        if isinstance(holds, RenewalBatch) and holds.is_whole:
            alike = answered_at < holds[0].deadline < deadline
            done = holds if alike and span == holds[0].terms.steady else []
        else:
            done = [
                hold
                for hold in holds
                if (hold.steady == span and hold.open and answered_at < hold.deadline < deadline)
                and not (hold.short or hold.failures)
            ]
        if done:
            Hold.renew_together(done, deadline)
            when = first_due(self.port, done[0], span, jitter, asked_at)
            if len(done) == len(holds) and isinstance(holds, RenewalBatch):
                self.port.renewals.add_batch(holds, when)
            else:
                self.port.renewals.add_all(done, when)
        if len(done) == len(holds):
            return ()
        renewed = set(done)
        return [number for number, hold in enumerate(holds) if hold not in renewed]

    async def notify_refused(self, refused: Mapping[Hold, str], until: float) -> None:
        """Notify of losses, with an operator's reason if the server tells one soon.

        A refusal is about the holder id: the turn to which a lease was passed on is notified, too.
        """
        passed = [hold for hold in refused if hold.passes]
        turns = {hold: revoke(self.port, hold.holder_id, None) for hold in passed}
        full = [hold for hold in refused if not hold.terms.plain]
        words: dict[Hold, bytes] = {}
        if full:
            keys = [hold.terms.keys.revoked for hold in full]
            until = min(until, self.port.now() + REASON_SECONDS)
            with suppress(NoReply, FencelockError):
                words.update(zip(full, await self.port.call(REVOKED, keys, (), until), strict=True))
        for hold, how in refused.items():
            holders, _, reason = words.get(hold, b"").partition(b" ")
            revoked = holders.split(b",") if hold.kind == SHARES else (holders,)
            by_operator = hold.holder_id in revoked
            why, detail = ("revoked", reason.decode()) if by_operator else (how, "")
            for each in (hold, *turns.get(hold, ())):
                lose(self.port, each, why, self.port.now(), detail)

    def lose_all(self, reason: str) -> None:
        """Notify the holder of every scheduled lease that it is no longer renewed."""
        with self.port.mutex:
            holds = self.port.renewals.tracked()
        lost = [
            hold
            for hold in holds
            if lose(self.port, hold, reason, self.port.now()) and not hold.dropped
        ]
        with self.port.mutex:
            self.port.renewals.clear()
        if lost:
            text = "%d lease(s) were still held and are no longer renewed: %s (%s)"
            names = (hold.name for hold in lost if not hold.partial)
            log.warning(text, len(lost), reason, listed(names))


def _key(hold: Hold) -> bytes:
    return hold.terms.keys.lock


def _live(batch: RenewalBatch) -> RenewalBatch:
    """Return what is left of a batch: leases may be released by now, but none of a whole one."""
    if batch.is_whole:
        return batch
    live = [hold for hold in batch if not hold.released]
    return batch if len(live) == len(batch) else RenewalBatch(live)


def _endangers(hold: Hold) -> bool:
    """Return True if a renewal that failed is that of a user's lease.

    That of a quorum's fails when too few nodes are left for a majority, and once for all of them.
    """
    if not hold.partial:
        return True
    parts = [part for part in hold.user_lease.parts if part is not None]
    failing = [part for part in parts if part.failures or part.loss is not None]
    return 2 * (len(parts) - len(failing)) <= len(parts) and failing[0] is hold


# -- the command, of as many as it can renew ------------------------------------------------------


def next_ttls(holds: RenewalBatch, now: float) -> list[float]:
    """Return for how long to renew each lease, or that it is only looked at."""
    if holds.is_whole:
        return [holds[0].terms.steady] * len(holds)
    return [
        hold.steady or (hold.next_ttl(now) if hold.renewable(now) else LOOK_SECONDS)
        for hold in holds
    ]


def answer_within(holds: RenewalBatch, ttls: Sequence[float], now: float, trip: float) -> float:
    """Return how long a renewal of leases for so long may wait, for the sake of the shortest."""
    if LOOK_SECONDS in ttls:
        pairs = zip(holds, ttls, strict=True)
        holds = RenewalBatch(hold for hold, ttl in pairs if ttl != LOOK_SECONDS)
        if not holds:
            return inf
    shortest = holds.shortest
    left = shortest.deadline - now
    one = left / TRIES < trip or (shortest.short and not shortest.failures)
    return left * ONE_TRY if one else left / TRIES


def renewal_request(holds: Sequence[Hold], ttls: Sequence[float]) -> Call:
    """Return the request that renews holds of one kind, each for its ttl.

    Whenever it runs, it makes no lease end earlier.
    """
    terms = holds[0].terms
    if terms.plain:
        return POLL_RENEW, terms.keys.plain, (holds[0].holder_id, milliseconds(ttls[0]))
    script, each = RENEWALS[terms.batch]
    keys: list[bytes] = []
    args: list[bytes] = [b"%d" % each]
    texts = {ttl: b"%d" % milliseconds(ttl) for ttl in set(ttls)}
    for hold, ttl in zip(holds, ttls, strict=True):
        names = hold.terms.keys
        keys += names.renew if terms.batch == LOCKS else names.renew_owned
        args += (hold.holder_id, texts[ttl])
    return script, keys, args


def packed_renewal(holds: RenewalBatch, ttls: Sequence[float]) -> bytes:
    """Return one in wire form, as it was packed for the same leases before."""
    alike = ttls.count(ttls[0]) == len(ttls)
    if holds.request and alike and holds.ttl == ttls[0]:
        return holds.request
    request = packed(*renewal_request(holds, ttls))
    if alike:
        holds.request, holds.ttl = request, ttls[0]
    return request


def refusals(holds: Sequence[Hold], reply: Reply) -> Mapping[int, str]:
    """Return which holds are refused, by their index, and how."""
    if holds[0].terms.plain:
        return {} if reply > 0 else {0: "expired" if reply else "taken"}
    return {reply[at] - 1: reply[at + 1].decode() for at in range(0, len(reply), 2)}


# -- what came of it -----------------------------------------------------------------------------


def _report(holds: Sequence[Hold], before: Sequence[float], took: float) -> None:
    """Report the renewals that have prolonged a user's lease.

    That of a quorum grows with the renewal that completes a majority, and by little afterwards.
    """
    grown: list[Hold] = []
    for hold, was in zip(holds, before, strict=True):
        now = hold.user_lease.deadline
        if now != was and (not hold.partial or now - was > hold.ttl * LEAST_GROWTH):
            grown.append(hold.user_lease)
    events.renewed(grown, took=took)


def log_loss(hold: Hold) -> None:
    """Log a loss with its cause; the leases that a closed client gives up share one record."""
    reason, _, detail = hold.loss or (hold.end, 0.0, "")
    if reason == "closed" or not hold.is_first_to("log"):
        return
    tell = log.info if hold.partial or hold.dropped else log.warning
    why = f"{reason}: {detail}" if detail else reason
    tell("lost lease of %r, fence %d: %s", hold.name, fence_of(hold), why)
