"""Keep leases, and tell in time which are lost.

Rules of this file:

- One book for all leases of a client; one thread or task tends it (N1).
- A renewal counts from the instant before it was sent (I2), asks with the holder's own id, and
  never outlives its hold (I11).
- No answer is not a refusal: it is asked again while the lease lasts (N6). A refusal is a loss.
- A loss is told once, and at the local deadline at the latest (I8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from fencelock._core.ask import PASSING, Asked, persist
from fencelock._core.hold import Hold, milliseconds
from fencelock._core.port import Broken, Port
from fencelock._core.release import request
from fencelock._core.timing import GROW_SECONDS, gathered, renewal_delay, retry_delay, validity
from fencelock.errors import ServerError
from fencelock.log import log
from fencelock.scripts import KEEP, RENEW

# Leases per command: enough to make the command's own cost vanish, short enough for the server.
LEASES_PER_CALL = 100
# One silent call may not hold up the others longer than this, nor longer than a third of a lease.
CALL_SECONDS_MAX = 1.0
RECHECK_AFTER_SECONDS = 1.0


class RenewalBook:
    """When which hold wants attention next. Pure: ``now`` comes in as an argument.

    Holds stand in buckets of 20 ms, so that adding and removing cost the same with 10 or 100,000
    leases, and removing leaves nothing behind. Call everything under the port's mutex.
    """

    GRAIN = 0.02

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Hold, float]] = {}

    @property
    def holds(self) -> int:
        """Return how many holds there are; counted, so that no interrupt can make it wrong."""
        return sum(map(len, self._buckets.values()))

    def add(self, hold: Hold, when: float) -> None:
        """Note that a hold wants attention at ``when``."""
        hold.bucket = bucket = int(when / self.GRAIN)
        self._buckets.setdefault(bucket, {})[hold] = when

    def discard(self, hold: Hold) -> None:
        """Forget a hold; harmless when it is not in the book."""
        bucket = self._buckets.get(hold.bucket)
        if bucket is not None:
            bucket.pop(hold, None)
            if not bucket:
                self._buckets.pop(hold.bucket, None)

    def next_at(self) -> float | None:
        """Return when the next hold wants attention."""
        while self._buckets:
            first = min(self._buckets)
            if self._buckets[first]:
                return min(self._buckets[first].values())
            del self._buckets[first]  # left empty by an interrupt
        return None

    def due(self, now: float) -> list[Hold]:
        """Take out every hold that wants attention now, the earliest buckets first."""
        begun = sorted(key for key in self._buckets if key <= int(now / self.GRAIN))
        due = [hold for key in begun for hold, when in self._buckets[key].items() if when <= now]
        for hold in due:
            self.discard(hold)
        return due

    def first_end(self, horizon: float) -> float:
        """Return the earliest deadline before ``horizon``, or infinity.

        A lease ends after it wants attention, so only buckets up to the horizon matter.
        """
        near = (key for key in self._buckets if key <= int(horizon / self.GRAIN))
        return min((h.lease.deadline for key in near for h in self._buckets[key]), default=inf)

    def later_than(self, when: float) -> list[Hold]:
        """Return the holds that want no attention before an instant."""
        return [h for bucket in self._buckets.values() for h, at in bucket.items() if at > when]

    def all_holds(self) -> list[Hold]:
        """Return every hold."""
        return [hold for bucket in self._buckets.values() for hold in bucket]


def first_attention(hold: Hold, lease: float, jitter: float, now: float) -> float:
    """Return when a hold with a new lease wants attention: at its renewal, or at its end."""
    deadline = hold.lease.deadline
    delay = renewal_delay(min(lease, deadline - now), jitter)
    if lease < hold.want.ttl:  # handed over and short: whoever stalls now would lose it soon
        delay = min(delay, GROW_SECONDS)
    if not hold.renewable(now + delay):
        hold.final()
        return deadline
    return min(deadline, gathered(now + delay, lease))


def recheck(port: Port) -> None:
    """Have leases renewed at once: a revocation may have come while nobody listened.

    Those that are renewed soon by themselves hear of it then.
    """
    now = port.now()
    with port.mutex():
        for hold in port.book.later_than(now + RECHECK_AFTER_SECONDS):
            port.book.discard(hold)
            port.book.add(hold, now)


async def attend(port: Port) -> None:
    """Do what is due: tell losses, renew the rest. Never raises for a server's trouble.

    The first command without an answer ends the round: what is left is tried again soon, and no
    silence lasts beyond the next deadline of any lease.
    """
    now = port.now()
    with port.mutex():
        due = port.book.due(now)
    renewing = [hold for hold in due if not _ended(port, hold, now)]
    batches = list(_batches(renewing))
    for number, batch in enumerate(batches):
        failure = await _renew(port, batch, renewing)
        if failure is not None:
            for left in batches[number:]:
                _failed(port, left, failure)
            return


def _batches(holds: Sequence[Hold]) -> Iterator[Sequence[Hold]]:
    """Bring holds together that one command can renew; the plain form takes one each."""
    full = [hold for hold in holds if not hold.want.plain]
    for start in range(0, len(full), LEASES_PER_CALL):
        yield full[start : start + LEASES_PER_CALL]
    for hold in holds:
        if hold.want.plain:
            yield [hold]


def _ended(port: Port, hold: Hold, now: float) -> bool:
    """Tell a loss that has come; put a hold that only waits for its end back."""
    if now >= hold.lease.deadline:
        lose(port, hold, hold.lease._end, hold.lease.deadline)
        return True
    if hold.renewable(now):
        return False
    hold.final()
    _put_back(port, hold, hold.lease.deadline)
    return True


def _put_back(port: Port, hold: Hold, when: float) -> None:
    with port.mutex():
        if hold.open and not hold.told:
            port.book.add(hold, when)


async def _renew(port: Port, holds: Sequence[Hold], under_way: Sequence[Hold]) -> Exception | None:
    """Renew one batch; return what went wrong when there was no answer."""
    asked_at = port.now()
    ttls = [hold.next_ttl(asked_at) for hold in holds]
    with port.mutex():
        ends = port.book.first_end(asked_at + CALL_SECONDS_MAX)
    ends = min([ends, *(hold.lease.deadline for hold in under_way if hold.open)])
    until = min(asked_at + min(CALL_SECONDS_MAX, min(ttls) / 3), ends)
    try:
        replies = await _ask(port, holds, ttls, until)
    except (Broken, ServerError) as error:
        return error
    for hold, ttl, reply in zip(holds, ttls, replies, strict=True):
        _apply(port, hold, ttl, reply, asked_at)
    return None


async def _ask(
    port: Port, holds: Sequence[Hold], ttls: Sequence[float], until: float
) -> Sequence[bytes]:
    if holds[0].want.plain:
        want = holds[0].want
        kept = await port.call(KEEP, want.keys.plain, (want.holder, milliseconds(ttls[0])), until)
        return [b"1" if kept else b"0 taken"]
    keys = [key for hold in holds for key in hold.want.keys.renew]
    args: list[bytes | int] = []
    for hold, ttl in zip(holds, ttls, strict=True):
        args += (hold.want.holder, milliseconds(ttl), b"1" if hold.want.owned else b"0")
    replies: Sequence[bytes] = await port.call(RENEW, keys, args, until)
    return replies


def _apply(port: Port, hold: Hold, ttl: float, reply: bytes, asked_at: float) -> None:
    if reply != b"1":
        reason, _, detail = reply[2:].decode().partition(" ")
        lose(port, hold, reason, port.now(), detail)
        return
    if hold.lease.lost:  # too late: a lost lease stays lost, so the server's copy must go
        lose(port, hold, hold.lease._end, hold.lease.deadline)
        if hold.open:
            port.post(*request(hold.want, hold.lease.fence))
        return
    hold.lease._deadline = asked_at + validity(ttl)
    hold.renewals += 1
    hold.failures = 0
    _put_back(port, hold, first_attention(hold, ttl, port.jitter(), asked_at))


def _failed(port: Port, holds: Sequence[Hold], error: Exception) -> None:
    """Try again soon, and at each lease's end at the latest."""
    passing = isinstance(error, Broken) or getattr(error, "code", "") in PASSING
    tell = log.info if passing else log.warning
    tell(
        "renewal of %d lease(s) failed, trying again while they last: %s",
        len(holds),
        error,
    )
    now = port.now()
    for hold in holds:
        hold.failures += 1
        again_at = now + retry_delay(hold.failures, port.jitter())
        _put_back(port, hold, min(again_at, hold.lease.deadline))


def lose_all(port: Port, reason: str) -> None:
    """Tell the holder of every lease in the book that it is not minded any more."""
    with port.mutex():
        holds = port.book.all_holds()
        for hold in holds:
            port.book.discard(hold)
    for hold in holds:
        lose(port, hold, reason, port.now())


def lose(port: Port, hold: Hold, reason: str, since: float, detail: str = "") -> None:
    """Mark a hold lost and tell its holder, once."""
    with port.mutex():
        first = hold.open and not hold.told
        hold.told = True
    if not first:
        return
    hold.lease._lose(reason, since, detail)
    log.warning(
        "lost lease of %r, fence %d: %s %s", hold.lease.name, hold.lease.fence, reason, detail
    )
    port.tell(hold)


async def renew_now(port: Port, hold: Hold, ttl: float | None) -> None:
    """Renew one lease that is held, for ``ttl`` seconds or as long as usual.

    Raises LeaseLost when it was lost or is refused, and like ``ask`` when no answer comes: then
    the lease stays what it was.
    """
    if ttl is None and hold.want.terms.fixed_end:
        return
    span = hold.next_ttl(port.now()) if ttl is None else ttl
    asked = Asked()
    asked_at = port.now()
    until = min(asked_at + port.patience, hold.lease.deadline)

    async def once() -> tuple[float, bytes]:
        sent_at = port.now()
        return sent_at, (await _ask(port, [hold], [span], until))[0]

    sent_at, reply = await persist(port, once, until, asked)
    with port.mutex():
        port.book.discard(hold)
    _apply(port, hold, span, reply, sent_at)
    hold.lease.check()
