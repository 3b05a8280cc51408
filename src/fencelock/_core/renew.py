"""Keep leases, and tell in time which are lost.

Rules of this file:

- One book for all leases of a client; one thread or task tends it (N1).
- A renewal counts from the instant before it was sent (I2), asks with the holder's own id, and
  never outlives its hold (I11).
- No answer is not a refusal: it is asked again while the lease lasts (N6). A refusal is a loss.
- A loss is told once, and at the local deadline at the latest (I8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from fencelock._core.ask import PASSING, Asked, persist
from fencelock._core.hold import Hold, first_attention
from fencelock._core.port import Broken, Port
from fencelock._core.prolong import Answer, prolong
from fencelock._core.release import request
from fencelock._core.renewal import cut
from fencelock._core.timing import retry_delay, validity
from fencelock._core.want import SHARES
from fencelock.errors import ServerError
from fencelock.log import log
from fencelock.scripts import REVOKED

# Leases looked at in one go: the other tasks of a loop wait meanwhile.
LEASES_PER_PAUSE = 1000
# One silent call may not hold up the others longer than this, nor longer than a third of a lease.
CALL_SECONDS_MAX = 1.0
RECHECK_AFTER_SECONDS = 1.0


async def recheck(port: Port) -> None:
    """Have leases renewed now: a revocation may have come while nobody listened.

    Those that are renewed soon by themselves hear of it then; very many take their turn till then.
    """
    now = port.now()
    with port.mutex():
        later = port.book.later_than(now + RECHECK_AFTER_SECONDS)
    for start in range(0, len(later), LEASES_PER_PAUSE):
        if start:
            await port.sleep(now)  # others may run
        with port.mutex():
            when = now + RECHECK_AFTER_SECONDS * start / len(later)
            port.book.move(later[start : start + LEASES_PER_PAUSE], when)


async def attend(port: Port) -> None:
    """Do what is due: tell losses, renew the rest. Never raises for a server's trouble.

    The first command without an answer ends the round: what is left is tried again soon, and no
    silence lasts beyond the next deadline of any lease.
    """
    now = port.now()
    with port.mutex():
        due = port.book.due(now)
    try:
        kinds = await _sorted(port, due, now)
        if port.apart is None:
            await renew_batches(port, list(_batches(kinds)))
        else:
            from fencelock._core import apart  # noqa: PLC0415 - only for a Cluster

            apart.renew_apart(port, port.apart, kinds)
    except BaseException:  # cancelled, or a defect: nobody may be forgotten
        put_back(port, [hold for hold in due if hold in port.book.under_way], now)
        raise
    with port.mutex():
        port.book.discard_closed(due)


async def _sorted(port: Port, due: Sequence[Hold], now: float) -> Sequence[list[Hold]]:
    """Sort what is to be renewed by kind; tell losses, and put back what only waits for its end."""
    kinds: tuple[list[Hold], ...] = ([], [], [], [])
    for number, hold in enumerate(due, 1):
        if now >= hold.lease._deadline:
            _ended(port, hold)
        elif hold.renewable(now):
            kinds[hold.want.form.batch].append(hold)
        else:
            hold.final()
            put_back(port, [hold], hold.lease._deadline)
        if number % LEASES_PER_PAUSE == 0:
            await port.sleep(now)  # others may run
    return kinds


async def renew_batches(port: Port, batches: Sequence[Sequence[Hold]]) -> None:
    """Renew one batch after the other, until one gets no answer."""
    ends = [inf]
    for batch in reversed(batches):  # the earliest deadline of this batch and all behind it
        ends.append(min(ends[-1], *[hold.lease._deadline for hold in batch]))
    for number, batch in enumerate(batches):
        try:
            await _renew(port, batch, ends.pop())
        except (Broken, ServerError) as error:
            await failed(port, [hold for left in batches[number:] for hold in left], error)
            return


def _ended(port: Port, hold: Hold) -> None:
    """Tell a loss; give back what the server prolonged and no replica acknowledged."""
    if hold.failures and port.replicas is not None:
        _too_late(port, hold)
    else:
        lose(port, hold, hold.lease._end, hold.lease._deadline)


def _batches(kinds: Sequence[list[Hold]]) -> Iterator[list[Hold]]:
    """Bring holds together that one command can renew; the plain form takes one each."""
    for number, kind in enumerate(kinds):
        yield from cut(number, kind)


def put_back(port: Port, holds: Iterable[Hold], when: float) -> None:
    """Have those that are still to be minded get attention at ``when``."""
    with port.mutex():
        port.book.add_all([hold for hold in holds if hold.open and not hold.told], when)


async def _renew(port: Port, holds: Sequence[Hold], ends: float) -> None:
    """Renew one batch, and say what is lost; raises when there was no answer."""
    holds = [hold for hold in holds if hold.open]  # some may be released by now
    if not holds:
        return
    asked_at = port.now()
    ttls = [hold.next_ttl(asked_at) for hold in holds]
    with port.mutex():
        ends = min(ends, port.book.first_end(asked_at + _horizon(port)))
    until = min(asked_at + min(CALL_SECONDS_MAX, min(ttls) / 3), ends)
    refused, missing = await prolong(port, holds, ttls, until, ends)
    if missing is None:
        apply_renewal(port, holds, ttls, asked_at, refused)
    if refused:
        await tell_refused(
            port, {holds[number]: reason for number, reason in refused.items()}, until
        )
    if missing is not None:
        raise missing


def _horizon(port: Port) -> float:
    """Return how long one renewal may take."""
    waits = 0.0 if port.replicas is None else port.replicas.timeout
    return CALL_SECONDS_MAX + waits


def apply_renewal(
    port: Port,
    holds: Sequence[Hold],
    ttls: Sequence[float],
    asked_at: float,
    refused: Mapping[int, str],
) -> None:
    """Prolong what was renewed. Leases of one length stay together, at one new instant."""
    answered_at, jitter = port.now(), port.jitter()
    groups: dict[float, list[Hold]] = {}
    usual: dict[float, list[Hold]] = {}  # by ttl, where no limit makes a hold a case of its own
    late: list[Hold] = []
    with port.mutex():
        for number, (hold, ttl) in enumerate(zip(holds, ttls, strict=True)):
            if not hold.open or (refused and number in refused):
                continue
            lease, terms = hold.lease, hold.want.terms
            if lease._loss is not None or answered_at >= lease._deadline:
                late.append(hold)
                continue
            lease._deadline = asked_at + validity(ttl)
            hold.renewals += 1
            hold.failures = 0
            alike = ttl == terms.ttl and terms.max_hold is None and terms.max_renewals is None
            group = usual.get(ttl) if alike else None
            if group is None:
                group = groups.setdefault(first_attention(hold, ttl, jitter, asked_at), [])
                if alike:
                    usual[ttl] = group
            group.append(hold)
        for when, group in groups.items():
            port.book.add_all(group, when)
    for hold in late:
        _too_late(port, hold)


def _too_late(port: Port, hold: Hold) -> None:
    """End what was renewed after its loss: a lost lease stays lost, so must the server's copy."""
    lose(port, hold, hold.lease._end, hold.lease._deadline)
    if hold.open:
        port.post(*request(hold.want, hold.lease.fence))


async def tell_refused(port: Port, refused: Mapping[Hold, str], until: float) -> None:
    """Tell losses, with an operator's reason where there is one; no answer: all is tried again."""
    full = [hold for hold in refused if not hold.want.plain]
    words: dict[Hold, bytes] = {}
    if full:
        try:
            keys = [hold.want.keys.revoked for hold in full]
            words.update(zip(full, await port.call(REVOKED, keys, (), until), strict=True))
        except (Broken, ServerError) as error:
            await failed(port, full, error)
            return
    for hold, how in refused.items():
        holders, _, reason = words.get(hold, b"").partition(b" ")
        many = hold.want.form.batch == SHARES
        if hold.want.holder in (holders.split(b",") if many else (holders,)):
            lose(port, hold, "revoked", port.now(), reason.decode())
        else:
            lose(port, hold, how, port.now())


async def failed(port: Port, holds: Sequence[Hold], error: Exception) -> None:
    """Try again soon, and at each lease's end at the latest."""
    passing = isinstance(error, Broken) or getattr(error, "code", "") in PASSING
    tell = log.info if passing or holds[0].lease._partial else log.warning
    tell(
        "renewal of %d lease(s) failed, trying again while they last: %s",
        len(holds),
        error,
    )
    now = port.now()
    for number, hold in enumerate(holds, 1):
        hold.failures += 1
        again_at = now + retry_delay(hold.failures, port.jitter())
        with port.mutex():
            port.book.discard(hold)  # it may be back already: refused, and why was not told
        put_back(port, [hold], min(again_at, hold.lease._deadline))
        if number % LEASES_PER_PAUSE == 0:
            await port.sleep(now)  # others may run


def lose_all(port: Port, reason: str) -> None:
    """Tell the holder of every lease in the book that it is not minded any more."""
    with port.mutex():
        holds = port.book.minded()
        port.book.clear()
    lost = sum(lose(port, hold, reason, port.now(), logged=False) for hold in holds)
    if lost:
        log.warning("%d lease(s) were held and are not renewed any more: %s", lost, reason)


def lose(
    port: Port, hold: Hold, reason: str, since: float, detail: str = "", *, logged: bool = True
) -> bool:
    """Mark a hold lost and tell its holder, once; return whether this was the one time."""
    with port.mutex():
        first = hold.open and not hold.told
        hold.told = True
        port.book.discard(hold)
    if not first:
        return False
    lease = hold.lease
    lease._lose(reason, since, detail)
    if logged:
        tell = log.info if lease._partial else log.warning
        why = f"{reason}: {detail}" if detail else reason
        tell("lost lease of %r, fence %d: %s", lease.name, lease.fence, why)
    port.tell(hold)
    return True


async def renew_now(port: Port, hold: Hold, ttl: float | None) -> None:
    """Renew one lease that is held, for ``ttl`` seconds or as long as usual.

    Raises LeaseLost when it was lost or is refused, and like ``ask`` when no answer comes, or
    NotAcknowledged: then the lease stays what it was.
    """
    if ttl is None and hold.want.terms.fixed_end:
        return
    if port.nodes:
        from fencelock._core import quorum_keep  # noqa: PLC0415 - only where there is one

        await quorum_keep.renew_now(port, hold, ttl)
        return
    span = hold.next_ttl(port.now()) if ttl is None else ttl
    asked = Asked()
    asked_at = port.now()
    until = min(asked_at + port.patience, hold.lease.deadline)

    async def once() -> tuple[float, Answer]:
        sent_at = port.now()
        return sent_at, await prolong(port, [hold], [span], until, hold.lease.deadline)

    sent_at, (refused, missing) = await persist(port, once, until, asked)
    if missing is not None:
        raise missing
    with port.mutex():
        port.book.discard(hold)
    apply_renewal(port, [hold], [span], sent_at, refused)
    if refused:
        await tell_refused(port, {hold: refused[0]}, until)
    hold.lease.check()
