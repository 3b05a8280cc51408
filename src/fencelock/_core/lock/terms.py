"""The terms of a handle's leases, and every request about them in wire form.

The usual acquire and release are joined from parts that were packed once for each handle: packing
sixteen arguments each time costs more than everything else a client does for an uncontended lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from functools import lru_cache
from math import ceil, inf

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS, validity
from fencelock._core.keys import LockKeys
from fencelock._core.types import Call
from fencelock._runtime import process
from fencelock._runtime.typed import TYPE_CHECKING, Self
from fencelock.errors import ServerUnreachable
from fencelock.options import LeaseOptions
from fencelock.scripts import (
    ABANDON,
    ACQUIRE,
    ACQUIRE_NEXT,
    HEARTBEAT,
    POLL_RELEASE,
    PROBE,
    QUORUM_VOTE,
    RELEASE,
    Script,
    bulk,
    head,
    packed,
)
from fencelock.scripts.constants import RECORD_MS
from fencelock.scripts.layout import words_of, written

if TYPE_CHECKING:
    from fencelock._core.lock.attempt import Attempt

# A lease with a fixed end is requested with at least this ttl; after its end it is not granted.
LEAST_SECONDS = 0.001

# In the options of a request, where an explicit owner has 1: its client may keep the lease.
LINGERS = b"2"
# The first letter of the holder ids of such leases: an id tells that its lease may be idle.
LINGER_MARK = b"*"
# The first letter of a waiter's id that only tries, while it waits for such a lease.
TRIES = b"?"

# Kinds of holds: one command renews those of locks (LOCKS), those of their explicit owners (OWNED),
# those of what many may have at once (SHARES), those in Redisson's layout (REDISSON), and one each
# the plain ones.
LOCKS, OWNED, PLAIN, SHARES, REDISSON = range(5)


class Terms:
    """What all requests of one handle have in common, packed as far as it can be.

    ``ttl`` is the options' first ttl, or what is left until the lease ``ends`` (the port's clock).
    Each kind of lock has its ``alive``, the script of the heartbeat, and its ``batch``: leases of
    one batch are renewed together. A ``question`` is the script that asks instead of
    ``acquire.lua``, with its keys.
    """

    alive = HEARTBEAT
    most_at_once: float = inf  # how long a lease with a fixed end may be when it is granted at once
    part: Terms  # those of each node of a quorum; see quorum/lease.py

    __slots__ = (
        *("_ask", "_asked", "_far", "_freed", "_ttl", "_ttl_ms", "_vote", "batch"),
        *("client_channel", "cohort", "deadlock_after", "due", "ends", "generation", "keys"),
        *("lease", "linger", "mark", "options", "owned", "part", "plain", "steady", "topic"),
        *("ttl", "valid", "words"),
    )

    def __init__(
        self,
        *,
        keys: LockKeys,
        options: LeaseOptions,
        client_channel: bytes,
        ttl: float,
        owned: bool = False,
        ends: float = inf,
        question: tuple[Script, Sequence[bytes]] | None = None,
        share: bytes = b"",
    ) -> None:
        self.keys: LockKeys = keys
        self.ends: float = ends
        self.options: LeaseOptions = options
        self.client_channel: bytes = client_channel
        self.generation: int = process.number()  # in a copy of the process a handle makes others
        self.ttl: float = ttl
        self.owned: bool = owned
        # Of the options, what each pair reads: a field of a tuple takes four times as long.
        self.plain: bool = options.plain  # only the plain form may be used
        self.linger: float = options.linger
        self.deadlock_after: float | None = options.deadlock_after
        self.topic: bytes = b""  # another program's channel that tells of releases: no line
        self.batch: int = PLAIN if options.plain else OWNED if owned else LOCKS
        # The length of every renewal; 0 where a limit may cut one short, or none is wanted.
        self.steady: float = options.ttl if options.unlimited() and ends == inf else 0.0
        self.cohort: Hashable = None if owned or ends < inf else _cohort_key(keys, options)
        # The beginning of what the scripts call options; see _lock.lua. How long a waiter will be
        # in line is unknown: a lease with a fixed end is handed over short, and then grows.
        handoff_ms = milliseconds(self._handoff_ttl())
        # A lease that its client may keep begins short: so a client that dies or freezes while it
        # keeps one stops the others for a moment only.
        self.lease: float = self._handoff_ttl() if self.linger else ttl
        self.valid: float = _valid(self.lease)  # how much of it may be relied on
        ttl_ms = milliseconds(self.lease) if ends == inf else handoff_ms
        form = share or (LINGERS if self.linger else b"%d" % owned)
        self.mark: bytes = LINGER_MARK if self.linger else b""  # with which holder ids begin
        self.words: bytes = _words(ttl_ms, handoff_ms, form, client_channel)
        # Of a lock, kept from its second question on: very many are held by handles that ask once.
        self._ask: bytes = b"" if question is None else head(*question, 5)
        self._ttl = _ttl_words(self.lease)
        self._vote = self._ttl_ms = b""  # packed when they are first needed
        # The last question: its channel, description and length of its id, and what its id stands
        # between; and the last release: the length of its id, what is before, what after.
        self._asked: Between = NOT_ASKED
        self._freed: tuple[int, bytes, bytes] = 0, b"", b""
        self._far: tuple[int, Self] | None = None  # those with longer handoffs, and how long
        # The length and end of a lease, and when those that are granted until an instant, and end
        # no sooner, are due: see ``acquire.begin``.
        self.due: tuple[float, float, float, float] = 0.0, inf, 0.0, 0.0

    def _handoff_ttl(self) -> float:
        """Return the lease that a handoff starts with: short when renewal will prolong it."""
        grows = self.options.renew or self.ends < inf
        return min(self.ttl, HANDOFF_TTL_SECONDS) if grows else self.ttl

    def far(self, lease: float) -> Self:
        """Return the same for a client so far away that a handoff must last for so long."""
        words = words_of("options", self.words)
        handoff_ms = milliseconds(min(self.ttl, ceil(lease)))
        if self.ends < inf or handoff_ms <= int(words["handoff_ttl"]):
            return self
        known = self._far
        if known is not None and known[0] == handoff_ms:
            return known[1]
        far: Self = copy(self)
        far._asked, far._far = NOT_ASKED, None
        far.words = written("options", **{**words, "handoff_ttl": b"%d" % handoff_ms})
        self._far = handoff_ms, far
        return far

    def renamed(self, own_id: bytes) -> bytes:
        """Return another id for an acquisition whose old one was given up."""
        return own_id + b"'"

    def lasting(self, now: float) -> Self:
        """Return those of a lease that is requested now: until a fixed end there is less left."""
        if self.ends == inf:
            return self
        left = copy(self)  # other threads may ask on the same terms
        left.ttl = max(LEAST_SECONDS, min(self.options.first_ttl(), self.ends - now))
        left.lease = min(left.ttl, self.most_at_once)
        left.valid = min(validity(left.lease), self.ends - now)
        left._asked = NOT_ASKED  # noqa: SLF001 - as in far
        left._ttl, left._ttl_ms = _ttl_words(left.ttl), b"%d" % milliseconds(left.ttl)  # noqa: SLF001 - as in far
        return left

    def acquire(self, one: Attempt, channel: bytes) -> bytes:
        """Return a call of ``acquire.lua``; the channel is empty for a try."""
        own_id, info = one.id, one.info
        for_channel, of, length, parts = self._asked
        if for_channel is channel and of is info and length == len(own_id):
            return (self._ask or self._begun(keeps=length)) + own_id.join(parts)
        asks = self._ask or self._begun(keeps=length or self.owned)
        if self.owned:
            place = b"%b %b %b " % (own_id, one.holder_id, channel) if channel else b""
            words = bulk(one.holder_id) + bulk(place) + self._ttl + bulk(self.words + info)
            return asks + words + bulk(own_id)
        # Another thread may keep what it asks meanwhile: this one sends its own.
        self._asked = asked = _between(channel, info, self._ttl, len(own_id), self.words)
        return asks + own_id.join(asked[-1])

    def _begun(self, *, keeps: int) -> bytes:
        """Return the beginning of a question, and keep it if it will be needed again."""
        packed = head(ACQUIRE, self.keys.derive()[:5], 6 if self.owned else 5)
        if keeps:
            self._ask = packed
        return packed

    def acquire_next(
        self, one: Attempt, channel: bytes, before: Attempt | None, waited: float
    ) -> bytes:
        """Return a call of ``acquire_next.lua``, for one that ``waited`` for its cohort.

        ``before`` is the one whose tenure ends with it.
        """
        holder = b"" if before is None else before.holder_id
        fence = b"%d" % before.turn if before is not None and before.turn else b""
        tenure = holder, fence, b"%d" % max(0, int(waited * 1e6))
        place = b"%b %b %b " % (one.id, one.holder_id, channel) if channel else b""
        asks = head(ACQUIRE_NEXT, self.keys.all, 9), bulk(one.holder_id), bulk(place), self._ttl
        return b"".join((*asks, *map(bulk, (self.words + one.info, b"", *tenure))))

    def vote(self, one: Attempt, ttl: float, fence: int) -> bytes:
        """Return a call of ``quorum_vote.lua``, for a fence that is not below this one."""
        if not self._vote:  # most handles are of no quorum
            self._ttl_ms = b"%d" % milliseconds(self.ttl)  # first: another thread looks at the next
            self._vote = head(QUORUM_VOTE, self.keys.grant, 4)
        ttl_ms = self._ttl_ms if ttl == self.ttl else b"%d" % milliseconds(ttl)
        holder, info, least, words = one.holder_id, one.info, b"%d" % fence, self.words
        return b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b%b\r\n$%d\r\n%b\r\n" % (
            self._vote, len(holder), holder, len(ttl_ms), ttl_ms,
            len(words) + len(info), words, info, len(least), least,
        )  # fmt: skip

    def entry(self, one: Attempt, channel: bytes) -> bytes:
        """Return the waiter's entry in the lock's line; see ``_lock.lua``."""
        return b"%b %b %b " % (one.id, one.holder_id, channel) + self.words + one.info

    def abandon(self, one: Attempt, channel: bytes = b"") -> Call:
        """Return the request that undoes an acquire with this channel."""
        if self.plain:
            return self.release(one)
        entry = self.entry(one, channel) if channel else b""
        owned = b"1" if self.owned else b"0"
        args = (one.id, one.holder_id, owned, entry, self.client_channel)
        return ABANDON, self.keys.grant, args

    def probe(self, one: Attempt, holder: bytes, text: bytes) -> Call:  # noqa: ARG002 - shares need it
        """Return the request that sends a probe to the clients that hold it; see unit_waits.py."""
        return PROBE, self.keys.renew, (holder, text)

    def release(self, one: Attempt, asker: bytes = b"") -> Call:
        """Return the request that releases what was granted, with its fence if known.

        ``asker``: the id of another acquisition of the same owner, which was granted it.
        """
        if self.plain:
            return POLL_RELEASE, self.keys.plain, (one.holder_id,)
        last: tuple[bytes, ...] = (b"", b"%d" % one.turn) if one.turn else ()
        if self.owned:
            last = asker or one.id, b"%d" % one.fence if one.fence else b""
        # Each release of these asks; most others are joined.
        keys = self.keys.all if self.owned or one.turn else self.keys.derive()
        return RELEASE, keys, (one.holder_id, self.client_channel, *last)

    def packed_release(self, one: Attempt) -> bytes:
        """Return the same, packed; that of most from the one before."""
        holder, (length, before, after) = one.holder_id, self._freed
        if length == len(holder) and not one.turn:
            return before + holder + after
        request = packed(*self.release(one))
        if not (self.owned or one.turn):
            before, _, after = request.rpartition(b"\r\n%b\r\n" % holder)
            self._freed = len(holder), before + b"\r\n", b"\r\n" + after
        return request


def _cohort_key(keys: LockKeys, options: LeaseOptions) -> Hashable:
    """Return what is the same for all requests that may take turns; None: no others."""
    cohort = options.cohort
    if cohort is None or options.plain:
        return None
    lasts = (options.ttl, options.renew, options.max_hold, options.max_renewals, options.linger)
    return b"%b %b" % (keys.lock, _as_text((*lasts, cohort.turns, cohort.seconds)))


@lru_cache(maxsize=256)
def _as_text(options: Hashable) -> bytes:
    """Return options as text: a text's hash is kept, and each pair looks it up four times."""
    return repr(options).encode()


# What the id of a question stands between, after all that it depends on.
Between = tuple[bytes, bytes, int, Sequence[bytes]]
NOT_ASKED: Between = b"", b"", 0, ()


@lru_cache(maxsize=256)
def _between(channel: bytes, info: bytes, ttl: bytes, length: int, words: bytes) -> Between:
    """Return what an id of this length stands between, as one object for all handles."""
    first, rest = b"$%d\r\n" % length, ttl + bulk(words + info)
    if not channel:
        return channel, info, length, (first, b"\r\n$0\r\n\r\n" + rest)
    place = b"\r\n$%d\r\n" % (2 * length + len(channel) + 3)  # two ids, a channel, spaces after
    return channel, info, length, (first, place, b" ", b" %b \r\n%b" % (channel, rest))


_valid = lru_cache(maxsize=256)(validity)


@lru_cache(maxsize=256)
def _words(ttl_ms: int, handoff_ms: int, owned: bytes, client_channel: bytes) -> bytes:
    spans = {"ttl": b"%d" % ttl_ms, "handoff_ttl": b"%d" % handoff_ms}
    return written("options", **spans, owned=owned, client=client_channel, info=b"")


@lru_cache(maxsize=256)
def _ttl_words(ttl: float) -> bytes:
    return _span(ttl) + bulk(b"%d" % (milliseconds(ttl) + RECORD_MS))


@lru_cache(maxsize=256)
def _span(ttl: float) -> bytes:
    return bulk(b"%d" % milliseconds(ttl))


def milliseconds(seconds: float) -> int:
    """Return the wire form of a span, never below 1: PEXPIRE 0 would delete the lock."""
    return max(1, round(seconds * 1000))


def may_linger(holder: bytes) -> bool:
    """Return True if the client of a holder's id may keep its lease while it does not use it."""
    return holder.removeprefix(TRIES).startswith(LINGER_MARK)


def too_late(ttl: float) -> ServerUnreachable:
    """Return the error for grants that arrive already expired."""
    return ServerUnreachable(
        f"the server's answers take longer than the ttl of {ttl} s: use a longer ttl"
    )
