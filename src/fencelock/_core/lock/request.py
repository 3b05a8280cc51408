"""The options of a lease, and the requests that acquire and release a lock.

The usual acquire and release are joined from parts that were packed once for each handle: packing
sixteen arguments each time costs more than everything else a client does for an uncontended lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import inf
from typing import Any, NamedTuple

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.keys import LockKeys
from fencelock._core.types import Request
from fencelock.errors import ServerUnreachable
from fencelock.scripts import (
    ABANDON,
    ACQUIRE,
    HEARTBEAT,
    POLL_RELEASE,
    QUORUM_VOTE,
    RELEASE,
    bulk,
    head,
)
from fencelock.scripts.constants import RECORD_MS

# A lease with a fixed end is requested with at least this ttl; after its end it is not granted.
LEAST_SECONDS = 0.001

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
    plain: bool = False  # Poll: plain commands, no line, no fence
    interval: float = 0.0  # of Poll
    max_tries: int | None = None  # of Poll

    def first_ttl(self) -> float:
        """Return the length of the first lease: ``max_hold`` bounds it too."""
        return self.ttl if self.max_hold is None else min(self.ttl, self.max_hold)


class RequestTemplate:
    """What all requests of one handle have in common, packed as far as it can be.

    ``ttl`` is theirs: the terms' first ttl, or what is left until the instant at which the lease
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
        "ends",
        "keys",
        "nodes",
        "owned",
        "terms",
        "ttl",
        "words",
    )

    def __init__(
        self,
        *,
        keys: LockKeys,
        terms: LeaseOptions,
        client_channel: bytes,
        ttl: float,
        owned: bool = False,
        ends: float = inf,
    ) -> None:
        self.keys: LockKeys = keys
        self.ends: float = ends
        self.terms: LeaseOptions = terms
        self.client_channel: bytes = client_channel
        self.ttl: float = ttl
        self.owned: bool = owned
        self.batch: int = PLAIN if terms.plain else OWNED if owned else LOCKS
        # The beginning of what the scripts call the terms; see _lock.lua. How long a waiter will be
        # in line is unknown: a lease with a fixed end is handed over short, and then grows.
        claim_ms = milliseconds(self._claim())
        ttl_ms = milliseconds(ttl) if ends == inf else claim_ms
        self.words: bytes = b"%d %d %d %b " % (ttl_ms, claim_ms, owned, client_channel)
        self._ask = head(ACQUIRE, keys.grant, 6 if owned else 5)
        self._ttl = _ttl_words(ttl)
        self._free = head(RELEASE, keys.all, 2)
        self._freed = bulk(client_channel)
        self._vote = self._ttl_ms = b""

    def _claim(self) -> float:
        """Return the lease that a handoff starts with: short when renewal will prolong it."""
        grows = self.terms.renew or self.ends < inf
        return min(self.ttl, HANDOFF_TTL_SECONDS) if grows else self.ttl

    def lasting(self, now: float) -> float:
        """Return the length of a lease that is requested now and granted at once."""
        if self.ends < inf:
            self.ttl = max(LEAST_SECONDS, min(self.terms.first_ttl(), self.ends - now))
            self._ttl = _ttl_words(self.ttl)
            self._ttl_ms = b"%d" % milliseconds(self.ttl)
        return self.ttl

    def on(self, client_channel: bytes, terms: LeaseOptions) -> RequestTemplate:
        """Return the same for one node of a quorum; a quorum keeps them in ``nodes``."""
        return RequestTemplate(
            keys=self.keys,
            terms=terms,
            client_channel=client_channel,
            ttl=self.ttl,
            owned=self.owned,
            ends=self.ends,
        )

    def acquire(self, holder: bytes, place: bytes, info: bytes) -> bytes:
        """Return a call of ``acquire.lua``, all but an explicit owner's last argument."""
        words = self.words
        return b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n%b$%d\r\n%b%b\r\n" % (
            self._ask, len(holder), holder, len(place), place,
            self._ttl, len(words) + len(info), words, info,
        )  # fmt: skip

    def vote(self, holder: bytes, info: bytes, ttl: float, fence: int) -> bytes:
        """Return a call of ``quorum_vote.lua``."""
        beginning = self._vote or self._begin_vote(head(QUORUM_VOTE, self.keys.grant, 4))
        ttl_ms = self._ttl_ms if ttl == self.ttl else b"%d" % milliseconds(ttl)
        least, words = b"%d" % fence, self.words
        return b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b%b\r\n$%d\r\n%b\r\n" % (
            beginning, len(holder), holder, len(ttl_ms), ttl_ms,
            len(words) + len(info), words, info, len(least), least,
        )  # fmt: skip

    def _begin_vote(self, beginning: bytes) -> bytes:
        """Keep the beginning of a vote: only a quorum's nodes are asked for one."""
        self._vote, self._ttl_ms = beginning, b"%d" % milliseconds(self.ttl)
        return beginning

    def release(self, holder: bytes) -> bytes:
        """Return a call of ``release.lua``, as all but explicit owners make it."""
        return b"%b$%d\r\n%b\r\n%b" % (self._free, len(holder), holder, self._freed)


class Stray(NamedTuple):
    """A request that was repeated with its id, and may still arrive on its first connection.

    ``undo_connection`` is that connection; None when it broke, so that no undo can follow on it.
    """

    undo_connection: object
    channel: bytes


class AcquireRequest:
    """One request for a lock. ``waiter`` names the request, ``holder`` proves the tenure.

    They are the same except for an explicit owner, whose holder id all its requests share.
    ``info`` describes the client that asks, for ``show``.
    """

    once = False  # it never waits in line, however long its answer may take
    other: Any = None  # the caller's other hold that lets this be granted at once
    lines_up: bool = False  # a quorum's nodes count its votes in their lines: see quorum.py

    __slots__ = ("form", "holder", "info", "keys", "owned", "strays", "terms", "ttl", "waiter")

    def __init__(
        self, form: RequestTemplate, waiter: bytes, info: bytes = b"{}", owner: bytes | None = None
    ) -> None:
        self.form: RequestTemplate = form
        self.waiter: bytes = waiter
        self.holder: bytes = owner or waiter
        self.info: bytes = info
        self.keys: LockKeys = form.keys
        self.terms: LeaseOptions = form.terms
        self.ttl: float = form.ttl
        self.owned: bool = form.owned
        # What may still come of this request: when it is over, that is undone
        # (``release.undo_strays``).
        self.strays: tuple[Stray, ...] = ()

    def lasting(self, now: float) -> float:
        """Return the length of a lease that is requested now and granted at once."""
        form = self.form
        if form.ends == inf:
            return self.ttl
        length = form.lasting(now)
        self.ttl = form.ttl
        return length

    @property
    def client_channel(self) -> bytes:
        """Return the channel of the client that asks."""
        return self.form.client_channel

    @property
    def plain(self) -> bool:
        """Return True if only the plain form may be used."""
        return self.terms.plain

    def rename(self) -> AcquireRequest:
        """Continue with another id; return the request with the old one, which is given up."""
        old = copy(self)
        self.waiter += b"'"
        self.holder = self.holder if self.owned else self.waiter
        return old

    def acquire(self, channel: bytes) -> bytes:
        """Return a packed call of ``acquire.lua``; the channel is empty for a try."""
        place = self.place(channel) if channel else b""
        packed = self.form.acquire(self.holder, place, self.info)
        return packed + bulk(self.waiter) if self.owned else packed

    def on(self, form: RequestTemplate) -> AcquireRequest:
        """Return the same request for one node of a quorum."""
        return AcquireRequest(form, self.waiter, self.info)

    def again_on(self, form: RequestTemplate) -> AcquireRequest:
        """Return the request to ask a node of a quorum again for a lease that it lacks."""
        return self.on(form)

    def vote(self, fence: int) -> bytes:
        """Return a packed call for a further node of a quorum; its fence is not below this one."""
        return self.form.vote(self.holder, self.info, self.ttl, fence)

    def entry(self, channel: bytes) -> bytes:
        """Return the waiter's entry in the lock's line; see ``_lock.lua``."""
        return self.place(channel) + self.form.words + self.info

    def place(self, channel: bytes) -> bytes:
        """Return the waiter's entry without its terms, which the script adds."""
        return b"%b %b %b " % (self.waiter, self.holder, channel)

    def abandon(self, channel: bytes) -> Request:
        """Return the request that undoes an acquire with this channel."""
        entry = self.entry(channel) if channel else b""
        args = (self.waiter, self.holder, b"1" if self.owned else b"0", entry, self.client_channel)
        return ABANDON, self.keys.grant, args

    def give_back(self, fence: int = 0, waiter: bytes = b"") -> Request:
        """Return the request that releases what was granted, with this fence if known.

        ``waiter``: the id of another request of the same owner, which was granted it.
        """
        if self.plain:
            return POLL_RELEASE, self.keys.plain, (self.holder,)
        if not self.owned:
            return RELEASE, self.keys.all, (self.holder, self.client_channel)
        tenure = b"%d" % fence if fence else b""
        return (
            RELEASE,
            self.keys.all,
            (self.holder, self.client_channel, waiter or self.waiter, tenure),
        )


def _ttl_words(ttl: float) -> bytes:
    ttl_ms = milliseconds(ttl)
    return bulk(b"%d" % ttl_ms) + bulk(b"%d" % (ttl_ms + RECORD_MS))


def milliseconds(seconds: float) -> int:
    """Return the wire form of a span, never below 1: PEXPIRE 0 would delete the lock."""
    return max(1, round(seconds * 1000))


def too_late(want: AcquireRequest) -> ServerUnreachable:
    """Return the error for grants that arrive already expired."""
    return ServerUnreachable(
        f"the server's answers take longer than the ttl of {want.ttl} s: use a longer ttl"
    )
