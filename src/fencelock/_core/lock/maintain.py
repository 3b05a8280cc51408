"""Do what the renewal schedule has due: renew leases, and notify their holders of losses.

Rules of this file:

- Leases are renewed node by node, and one script touches one slot: a single server is one node with
  one slot.
- A node with a request under way is not asked again: what is due there waits in the schedule.
- A node that is silent holds up only its own leases. No wait lasts beyond the next deadline of a
  lease whose holder could not be notified meanwhile (I8).
- After a time without listening, leases that are not renewed are looked at, too.
- For each lease the rules of ``renew.py`` hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from math import inf

from fencelock._core import events
from fencelock._core.deadlines import retry_delay
from fencelock._core.lock.acknowledge import confirm_seconds
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.kept import give_up_due
from fencelock._core.lock.release import release_call
from fencelock._core.lock.renew import apply_renewal, end_late, lose, notify_refused
from fencelock._core.lock.renew_batch import at_once, renew_batches
from fencelock._core.lock.renew_request import (
    CALL_SECONDS_MAX,
    answer_within,
    in_batches,
    next_ttls,
)
from fencelock._core.port import FirstEnd, Port
from fencelock._core.retry import passes
from fencelock._core.types import NoReply
from fencelock._runtime.log import log
from fencelock.errors import NotAcknowledged, ServerError

# How many leases are handled in one go: the other tasks of a loop wait meanwhile.
LEASES_PER_PAUSE = 1000
# A lease that cannot be renewed is retried twice a second; not each try is worth a line of the log.
FAILURES_PER_LINE = 120
RECHECK_AFTER_SECONDS = 1.0
# When to look again at what is due at a node that is being asked.
BUSY_SECONDS = 0.05


async def recheck(port: Port) -> None:
    """Renew leases now: a revocation may have come while no connection listened.

    A lease whose renewal is due soon learns of it then; very many leases are spread until then.
    """
    now = port.now()
    with port.mutex:
        later = port.renewals.later_than(now + RECHECK_AFTER_SECONDS)
    for start in range(0, len(later), LEASES_PER_PAUSE):
        if start:
            await port.sleep(now)  # others may run
        with port.mutex:
            when = now + RECHECK_AFTER_SECONDS * start / len(later)
            port.renewals.move(later[start : start + LEASES_PER_PAUSE], when)


async def maintain(port: Port) -> None:
    """Do what is due: notify holders of losses, renew the rest. Never raises a server's error."""
    now = port.now()
    with port.mutex:
        due = port.renewals.due(now)
    if port.renewals.watched:
        give_up_due(port, now)
    with _scheduled(port, [due]):
        kinds = await _sorted(port, due, now)
        for node, batches in _by_node(port, kinds).items():
            if not await port.at_node(node, partial(_renew_node, port, batches)):
                for hold in chain(*batches):
                    put_back(port, [hold], min(now + BUSY_SECONDS, hold.deadline))


@contextmanager
def _scheduled(port: Port, batches: Sequence[Sequence[Hold]]) -> Iterator[None]:
    """Lose no hold from the schedule, whatever ends the block, and forget those that are over."""
    try:
        yield
    except BaseException:  # cancelled, or a bug
        left = [hold for hold in chain(*batches) if hold in port.renewals.under_way]
        put_back(port, left, port.now())
        raise
    finally:
        with port.mutex:
            port.renewals.settle([*port.renewals.under_way])


async def _sorted(port: Port, due: Sequence[Hold], now: float) -> Sequence[list[Hold]]:
    """Sort due renewals by kind; notify of losses, and put back leases that only wait to end."""
    kinds: tuple[list[Hold], ...] = ([], [], [], [])
    for start in range(0, len(due), LEASES_PER_PAUSE):
        if start:
            await port.sleep(now)  # others may run
        for hold in due[start : start + LEASES_PER_PAUSE]:
            steady = hold.steady and hold.open and hold.asked_until <= now < hold.deadline
            if steady or _renews(port, hold, now):
                kinds[hold.kind].append(hold)
    return kinds


def _renews(port: Port, hold: Hold, now: float) -> bool:
    """Return True if a hold is to be renewed now; else notify of its loss, or put it back."""
    if now >= hold.deadline:
        ended(port, hold)
    elif now < hold.asked_until:
        put_back(port, [hold], min(hold.asked_until, hold.deadline))
    elif hold.renewable(now):
        return True
    elif not hold.released:
        if hold.open:
            hold.final()
        if not hold.terms.plain:  # ``recheck`` made it due, or its handle was dropped: look at it
            return True
        put_back(port, [hold], hold.deadline)
    return False


def _by_node(port: Port, kinds: Sequence[list[Hold]]) -> Mapping[object, Sequence[Sequence[Hold]]]:
    """Group holds that one script can renew, of one kind and one slot, by their nodes."""
    nodes: dict[object, list[Sequence[Hold]]] = {}
    for number, kind in enumerate(kinds):
        for holds in port.by_slot(kind, _key).values():
            batches = nodes.setdefault(port.node_of(_key(holds[0])), [])
            batches += in_batches(number, holds)
    return nodes


def _key(hold: Hold) -> bytes:
    return hold.terms.keys.lock


async def _renew_node(port: Port, batches: Sequence[Sequence[Hold]], first_end: FirstEnd) -> None:
    """Renew the leases of one node, until it is silent: the rest is retried soon.

    No wait lasts beyond the next of their deadlines, or the end of a lease that waits meanwhile.
    """
    ends = [inf]
    for batch in reversed(batches):  # the earliest deadline of this batch and all after it
        ends.append(min(ends[-1], *[hold.deadline for hold in batch]))
    ends.reverse()
    with _scheduled(port, batches):
        for start in range(0, len(batches), at_once(port)):
            end = start + at_once(port)
            silent, trouble = await _renew(port, batches[start:end], ends[start], first_end)
            if trouble is None:
                continue
            over = isinstance(trouble, NotAcknowledged) or not isinstance(trouble, ServerError)
            if over:
                silent += chain(*batches[end:])
            await failed(port, silent, trouble)
            if over:
                return


def ended(port: Port, hold: Hold) -> None:
    """Notify the holder of a loss; release a lease that may last longer on the server."""
    if hold.failures and port.replicas is not None:  # renewed there without enough replicas
        end_late(port, hold)
        return
    lose(port, hold, hold.end, hold.deadline)
    if hold.open and hold.terms.options.fixed_end:
        # A lease handed over just before its fixed end may last longer on the server.
        port.run_in_background(*release_call(hold, hold.fence))


def put_back(port: Port, holds: Iterable[Hold], when: float) -> None:
    """Schedule those that are still tracked for ``when``."""
    with port.mutex:
        port.renewals.add_all([hold for hold in holds if hold.open and not hold.notified], when)


async def _renew(
    port: Port, batches: Sequence[Sequence[Hold]], ends: float, first_end: FirstEnd
) -> tuple[list[Hold], Exception | None]:
    """Renew batches at once, and notify of losses; return those that stay as they were, and why."""
    live = [[hold for hold in batch if not hold.released] for batch in batches]
    batches = [batch for batch in live if batch]  # some may be released by now
    silent: list[Hold] = []
    trouble: Exception | None = None
    if not batches:
        return silent, trouble
    asked_at = port.now()
    ttls = [next_ttls(batch, asked_at) for batch in batches]
    answered = asked_at + CALL_SECONDS_MAX + confirm_seconds(port)  # at the latest
    with port.mutex:
        ends = min(ends, first_end(answered))
    until = min(asked_at + min(map(answer_within, ttls)), ends)
    answers = await renew_batches(port, batches, ttls, until, ends)
    for batch, each, (refused, missing) in zip(batches, ttls, answers, strict=True):
        if missing is None:
            apply_renewal(port, batch, each, asked_at, refused)
        else:
            silent += batch
            trouble = trouble or missing
        if refused:
            await notify_refused(port, {batch[at]: how for at, how in refused.items()}, until)
    return silent, trouble


async def failed(port: Port, holds: Sequence[Hold], error: Exception) -> None:
    """Retry soon, and at each lease's end at the latest."""
    passing = isinstance(error, NoReply) or passes(error)
    known = holds[0].failures % FAILURES_PER_LINE and all(hold.trouble for hold in holds)
    tell = log.debug if known else log.info if passing or holds[0].partial else log.warning
    tell(
        "renewal of %d lease(s) failed, retrying while they last: %s",
        len(holds),
        error,
    )
    now = port.now()
    for number, hold in enumerate(holds, 1):
        hold.failures += 1
        hold.trouble = error
        if hold.terms.plain:  # it may still run, and shorten a later renewal
            hold.limit(hold.within_limits(hold.terms.options.ttl, now), inf)
        again_at = now + retry_delay(hold.failures, port.jitter())
        if hold.notified:  # its holder was the first to notice, while this renewal was under way
            with port.mutex:
                port.renewals.discard(hold)
            ended(port, hold)
        else:
            put_back(port, [hold], min(again_at, hold.deadline))
        if number % LEASES_PER_PAUSE == 0:
            await port.sleep(now)  # others may run
    if events.hooks:
        events.renewed([hold.whole for hold in holds if _endangers(hold)], error)


def _endangers(hold: Hold) -> bool:
    """Return True if a renewal that failed is that of a user's lease.

    That of a quorum's fails when too few nodes are left for a majority, and once for all of them.
    """
    if not hold.partial:
        return True
    parts = [part for part in hold.whole.parts if part is not None]
    failing = [part for part in parts if part.failures or part.loss is not None]
    return 2 * (len(parts) - len(failing)) <= len(parts) and failing[0] is hold
