"""The options of a lease, and the requests that acquire and release a lock.

The usual acquire and release are joined from parts that were packed once for each handle: packing
sixteen arguments each time costs more than everything else a client does for an uncontended lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Any

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.keys import LockKeys
from fencelock._core.types import Call
from fencelock._runtime.records import NamedTuple
from fencelock.errors import ServerUnreachable
from fencelock.options import Cohort
from fencelock.scripts import (
    ABANDON,
    ACQUIRE,
    ACQUIRE_NEXT,
    HEARTBEAT,
    POLL_RELEASE,
    PROBE,
    QUORUM_VOTE,
    RELEASE,
    bulk,
    head,
)
from fencelock.scripts.constants import RECORD_MS

# A lease with a fixed end is requested with at least this ttl; after its end it is not granted.
LEAST_SECONDS = 0.001

# In the options of a request, where an explicit owner has 1: its client may keep the lease.
LINGERS = 2
# The first letter of the holder ids of such leases: an id tells that its lease may be idle.
LINGER_MARK = b"*"
# The first letter of a waiter's id that only tries, while it waits for such a lease.
TRIES = b"?"

# Kinds of holds: one command renews those of locks (LOCKS), those of their explicit owners (OWNED),
# those of what many may have at once (SHARES), and one each the plain ones.
LOCKS, OWNED, PLAIN, SHARES = range(4)


class LeaseOptions(NamedTuple):
    """How a lock is to be held: the validated options of a handle."""

    ttl: float
    renew: bool
    max_hold: float | None = None
    max_renewals: int | None = None
    on_lost: Any = None
    fixed_end: bool = False  # until an instant: nothing prolongs it
    cohort: Cohort | None = None  # how long this client's waiters may take turns by themselves
    linger: float = 0.0  # for how long the client keeps a lease that it does not use; see kept.py
    # A wait of so many seconds looks for a deadlock; None: it takes no part, nor does its lease.
    deadlock_after: float | None = None
    plain: bool = False  # Poll: plain commands, no line, no fence
    interval: float = 0.0  # of Poll
    max_tries: int | None = None  # of Poll
    kind: str = "lock"  # of object, for events
    template: str = ""  # the class of the name, for events

    def first_ttl(self) -> float:
        """Return the length of the first lease: ``max_hold`` bounds it too."""
        return self.ttl if self.max_hold is None else min(self.ttl, self.max_hold)

    def unlimited(self) -> bool:
        """Return True if a lease is renewed for as long as it is held, each time for its ttl."""
        limited = self.max_hold is not None or self.max_renewals is not None
        return self.renew and not limited and not self.plain


class RequestTemplate:
    """What all requests of one handle have in common, packed as far as it can be.

    ``ttl`` is theirs: the options' first ttl, or what is left until the instant at which the lease
    ``ends``, by the port's clock. It is also what the
    flows know of the kind: ``alive`` is the script that looks, ``batch`` who is renewed together.
    """

    alive = HEARTBEAT
    nodes: Sequence[RequestTemplate]

    __slots__ = (
        "_ask",
        "_free",
        "_freed",
        "_ttl",
        "_ttl_ms",
        "_vote",
        "batch",
        "client_channel",
        "cohort",
        "ends",
        "keys",
        "lease",
        "mark",
        "nodes",
        "options",
        "owned",
        "steady",
        "ttl",
        "words",
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
    ) -> None:
        self.keys: LockKeys = keys
        self.ends: float = ends
        self.options: LeaseOptions = options
        self.client_channel: bytes = client_channel
        self.ttl: float = ttl
        self.owned: bool = owned
        self.batch: int = PLAIN if options.plain else OWNED if owned else LOCKS
        # The length of every renewal; 0 where a limit may cut one short, or none is wanted.
        self.steady: float = options.ttl if options.unlimited() and ends == inf else 0.0
        self.cohort: Hashable = None if owned or ends < inf else _cohort_key(keys, options)
        # The beginning of what the scripts call options; see _lock.lua. How long a waiter will be
        # in line is unknown: a lease with a fixed end is handed over short, and then grows.
        handoff_ms = milliseconds(self._handoff_ttl())
        # A lease that its client may keep begins short: so a client that dies or freezes while it
        # keeps one stops the others for a moment only.
        self.lease: float = self._handoff_ttl() if options.linger else ttl
        ttl_ms = milliseconds(self.lease) if ends == inf else handoff_ms
        kind = LINGERS if options.linger else owned
        self.mark: bytes = LINGER_MARK if options.linger else b""  # with which holder ids begin
        self.words: bytes = b"%d %d %d %b " % (ttl_ms, handoff_ms, kind, client_channel)
        self._ask = head(ACQUIRE, keys.grant, 6 if owned else 5)
        self._ttl = _ttl_words(self.lease)
        self._free = head(RELEASE, keys.all, 2)
        self._freed = bulk(client_channel)
        self._vote = self._ttl_ms = b""

    def _handoff_ttl(self) -> float:
        """Return the lease that a handoff starts with: short when renewal will prolong it."""
        grows = self.options.renew or self.ends < inf
        return min(self.ttl, HANDOFF_TTL_SECONDS) if grows else self.ttl

    def lasting(self, now: float) -> float:
        """Return the length of a lease that is requested now and granted at once."""
        if self.ends < inf:
            self.ttl = max(LEAST_SECONDS, min(self.options.first_ttl(), self.ends - now))
            self._ttl = _ttl_words(self.ttl)
            self._ttl_ms = b"%d" % milliseconds(self.ttl)
            self.lease = self.ttl
        return self.lease

    def acquire(self, holder: bytes, place: bytes, info: bytes) -> bytes:
        """Return a call of ``acquire.lua``, all but an explicit owner's last argument."""
        words = self.words
        return b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n%b$%d\r\n%b%b\r\n" % (
            self._ask, len(holder), holder, len(place), place,
            self._ttl, len(words) + len(info), words, info,
        )  # fmt: skip

    def vote(self, holder: bytes, info: bytes, ttl: float, fence: int) -> bytes:
        """Return a call of ``quorum_vote.lua``."""
        if not self._vote:  # most handles are of no quorum
            self._vote = head(QUORUM_VOTE, self.keys.grant, 4)
            self._ttl_ms = b"%d" % milliseconds(self.ttl)
        ttl_ms = self._ttl_ms if ttl == self.ttl else b"%d" % milliseconds(ttl)
        least, words = b"%d" % fence, self.words
        return b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b%b\r\n$%d\r\n%b\r\n" % (
            self._vote, len(holder), holder, len(ttl_ms), ttl_ms,
            len(words) + len(info), words, info, len(least), least,
        )  # fmt: skip

    def acquire_next(
        self, holder: bytes, place: bytes, info: bytes, tenure: Sequence[bytes]
    ) -> bytes:
        """Return a call of ``acquire_next.lua``; its last arguments are about another tenure."""
        asks = head(ACQUIRE_NEXT, self.keys.all, 9), bulk(holder), bulk(place), self._ttl
        return b"".join((*asks, *map(bulk, (self.words + info, b"", *tenure))))

    def release(self, holder: bytes) -> bytes:
        """Return a call of ``release.lua``, as all but explicit owners make it."""
        return b"%b$%d\r\n%b\r\n%b" % (self._free, len(holder), holder, self._freed)


class Stray(NamedTuple):
    """A request that was repeated with its id, and may still arrive on its first connection.

    ``undo_connection`` is that connection; None when it broke, so that no undo can follow on it.
    """

    undo_connection: object
    channel: bytes


# A lease's part in the request that renews many: a ttl and a holder id, and for these the keys and
# the arguments in wire form.
Renewal = tuple[float, bytes, bytes, bytes]
NEVER_RENEWED: Renewal = (0.0, b"", b"", b"")


class AcquireRequest:
    """One request for a lock. ``waiter`` names the request, ``holder`` proves the tenure.

    They are the same except for an explicit owner, whose holder id all its requests share.
    ``info`` describes the client that asks, for ``show``.
    """

    once = False  # it never waits in line, however long its answer may take

    __slots__ = (
        *("acquisition", "template", "holder", "info", "keys", "known", "owned", "renewal"),
        "_told",
        *("strays", "options", "ttl", "turn", "unit", "unit_wait", "waiter"),
    )

    def __init__(
        self,
        template: RequestTemplate,
        waiter: bytes,
        info: bytes = b"{}",
        owner: bytes | None = None,
    ) -> None:
        self.template: RequestTemplate = template
        self.waiter: bytes = waiter
        self.holder: bytes = owner or waiter
        self.info: bytes = info
        self.keys: LockKeys = template.keys
        self.options: LeaseOptions = template.options
        self.ttl: float = template.ttl
        self.owned: bool = template.owned
        # What may still come of this request: when it is over, that is undone
        # (``release.undo_strays``).
        self.strays: tuple[Stray, ...] = ()
        self.renewal: Renewal = NEVER_RENEWED
        self.known: bool = True  # the server may know its id, or will
        self.turn: int = 0  # the fence of a turn that its client's waiter before passed on
        self.acquisition: Any = None  # what hooks know of it; see events.py
        # The thread or task that asks, if it can be part of a deadlock; and its wait.
        self.unit: Any = None
        self.unit_wait: Any = None

    def adopt(self, other: AcquireRequest) -> None:
        """Continue with the ids of a request of equal options, and with what is undone."""
        self._told = self.info
        self.waiter, self.holder, self.info = other.waiter, other.holder, other.info
        self.strays, self.known = other.strays, True
        self.renewal = NEVER_RENEWED

    @property
    def own_info(self) -> bytes:
        """Return the description of its own thread or task, also when it continues another's."""
        return getattr(self, "_told", self.info)

    def anew(self, waiter: bytes, others: int = 0) -> AcquireRequest:
        """Return the same request with another id, for this one and ``others`` of its cohort."""
        told = self.info
        if others and told.endswith(b'"}'):  # it is of bounded size: no number has more digits
            told = b'%b,"others":%d}' % (told[:-1], others)
        return AcquireRequest(self.template, self.template.mark + waiter, told)

    def lasting(self, now: float) -> float:
        """Return the length of a lease that is requested now and granted at once."""
        template = self.template
        if template.ends == inf:
            return template.lease
        length = template.lasting(now)
        self.ttl = template.ttl
        return length

    @property
    def client_channel(self) -> bytes:
        """Return the channel of the client that asks."""
        return self.template.client_channel

    @property
    def plain(self) -> bool:
        """Return True if only the plain form may be used."""
        return self.options.plain

    def rename(self, waiter: bytes = b"") -> AcquireRequest:
        """Continue with another id; return the request with the old one, which is given up."""
        from copy import copy  # noqa: PLC0415 - only for a request that was repeated

        old = copy(self)
        self.waiter = waiter or self.waiter + b"'"
        self.holder = self.holder if self.owned else self.waiter
        return old

    def acquire(self, channel: bytes) -> bytes:
        """Return a packed call of ``acquire.lua``; the channel is empty for a try."""
        place = self.place(channel) if channel else b""
        packed = self.template.acquire(self.holder, place, self.info)
        return packed + bulk(self.waiter) if self.owned else packed

    def acquire_next(self, channel: bytes, before: AcquireRequest | None, waited: float) -> bytes:
        """Return a packed call of ``acquire_next.lua``, for one that ``waited`` for its cohort.

        ``before`` is the request whose tenure ends with it.
        """
        place = self.place(channel) if channel else b""
        holder = b"" if before is None else before.holder
        fence = b"%d" % before.turn if before is not None and before.turn else b""
        tenure = holder, fence, b"%d" % max(0, int(waited * 1e6))
        return self.template.acquire_next(self.holder, place, self.info, tenure)

    def on(self, template: RequestTemplate) -> AcquireRequest:
        """Return the same request for one node of a quorum."""
        made = AcquireRequest(template, self.waiter, self.info)
        made.acquisition = self.acquisition
        return made

    def vote(self, fence: int) -> bytes:
        """Return a packed call for a further node of a quorum; its fence is not below this one."""
        return self.template.vote(self.holder, self.info, self.ttl, fence)

    def pack_renewal(self, ttl: float) -> Renewal:
        """Pack the lease's part of a renewal, and keep it: most leases are renewed many times."""
        keys = self.keys.renew if self.template.batch == LOCKS else self.keys.renew_owned
        words = bulk(self.holder) + bulk(b"%d" % milliseconds(ttl))
        self.renewal = (ttl, self.holder, b"".join(map(bulk, keys)), words)
        return self.renewal

    def entry(self, channel: bytes) -> bytes:
        """Return the waiter's entry in the lock's line; see ``_lock.lua``."""
        return self.place(channel) + self.template.words + self.info

    def place(self, channel: bytes) -> bytes:
        """Return the waiter's entry without its options, which the script adds."""
        return b"%b %b %b " % (self.waiter, self.holder, channel)

    def abandon(self, channel: bytes) -> Call:
        """Return the request that undoes an acquire with this channel."""
        entry = self.entry(channel) if channel else b""
        args = (self.waiter, self.holder, b"1" if self.owned else b"0", entry, self.client_channel)
        return ABANDON, self.keys.grant, args

    def probe(self, holder: bytes, text: bytes) -> Call:
        """Return the request that sends a probe on to the clients that hold it; see chase.py."""
        return PROBE, self.keys.renew, (holder, text)

    def give_back(self, fence: int = 0, waiter: bytes = b"") -> Call:
        """Return the request that releases what was granted, with this fence if known.

        ``waiter``: the id of another request of the same owner, which was granted it.
        """
        if self.plain:
            return POLL_RELEASE, self.keys.plain, (self.holder,)
        if not self.owned:
            args = (self.holder, self.client_channel)
            last = (b"", b"%d" % self.turn) if self.turn else ()
            return RELEASE, self.keys.all, (*args, *last)
        tenure = b"%d" % fence if fence else b""
        return (
            RELEASE,
            self.keys.all,
            (self.holder, self.client_channel, waiter or self.waiter, tenure),
        )


def _cohort_key(keys: LockKeys, options: LeaseOptions) -> Hashable:
    """Return what is the same for all requests that may take turns; None: no others."""
    cohort = options.cohort
    if cohort is None or options.plain:
        return None
    lasts = (options.ttl, options.renew, options.max_hold, options.max_renewals, options.linger)
    return keys.lock, *lasts, cohort.turns, cohort.seconds


def _ttl_words(ttl: float) -> bytes:
    ttl_ms = milliseconds(ttl)
    return bulk(b"%d" % ttl_ms) + bulk(b"%d" % (ttl_ms + RECORD_MS))


def milliseconds(seconds: float) -> int:
    """Return the wire form of a span, never below 1: PEXPIRE 0 would delete the lock."""
    return max(1, round(seconds * 1000))


def may_linger(holder: bytes) -> bool:
    """Return True if the client of a holder's id may keep its lease while it does not use it."""
    return holder.removeprefix(TRIES).startswith(LINGER_MARK)


def too_late(request: AcquireRequest) -> ServerUnreachable:
    """Return the error for grants that arrive already expired."""
    return ServerUnreachable(
        f"the server's answers take longer than the ttl of {request.ttl} s: use a longer ttl"
    )
