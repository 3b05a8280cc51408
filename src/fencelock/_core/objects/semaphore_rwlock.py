"""Semaphores and reader/writer locks, which many clients can hold at once, up to a limit.

Rules of this file:

- A reader takes one permit, a writer all of them: to the server both kinds are one (_shares.lua).
- Each acquisition is a lease of its own, with its own holder id. It is acquired, renewed and
  released by the same flows as a lock; this file has only the requests that they send.
- A hold may release some of its permits. The request says how many it keeps, never how many it
  releases, so that repeating it changes nothing (I4).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold, lose
from fencelock._core.lock.release import judge, release, settled
from fencelock._core.lock.terms import SHARES, Terms
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply
from fencelock.errors import FencelockError, LeaseLost, ServerUnsuitable
from fencelock.options import PERMITS_MAX, LeaseOptions
from fencelock.scripts import (
    SHARES_ABANDON,
    SHARES_ACQUIRE,
    SHARES_HEARTBEAT,
    SHARES_LIMIT,
    SHARES_PROBE,
    SHARES_RELEASE,
    SHARES_SHOW,
    bulk,
    head,
)
from fencelock.scripts.layout import words_of

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

SEMAPHORE: Final = b"semaphore"
RWLOCK: Final = b"rwlock"
# The permits of a reader/writer lock: more than it ever has readers. A writer takes all of them.
ALL: Final = PERMITS_MAX
READ: Final = 1
WRITE: Final = ALL


class ShareTerms(Terms):
    """The terms of ``permits`` of one name."""

    __slots__ = ("kind", "limit", "permits")

    alive = SHARES_HEARTBEAT
    most_at_once = HANDOFF_TTL_SECONDS  # these scripts know only one ttl

    def __init__(
        self,
        *,
        keys: LockKeys,
        options: LeaseOptions,
        client_channel: bytes,
        ttl: float,
        ends: float = inf,
        kind: bytes,
        limit: int,
        permits: int,
    ) -> None:
        super().__init__(
            keys=keys,
            options=options,
            client_channel=client_channel,
            ttl=ttl,
            ends=ends,
            share=b"p%d" % permits,
        )
        self.kind: bytes = kind
        self.limit: int = limit
        self.permits: int = permits
        self.batch = SHARES
        self._ask = head(SHARES_ACQUIRE, self.keys.derive()[:5], 6)

    def acquire(self, one: Attempt, channel: bytes) -> bytes:
        """Return a call of ``shares_acquire.lua``; in order of arrival unless it is nested."""
        holder = one.holder_id
        place = b"%b %b %b " % (one.id, holder, channel) if channel else b""
        nested_under = b"" if one.nested_in is None else one.nested_in.holder_id
        args = (holder, place, self.words + one.info, self.kind, b"%d" % self.limit, nested_under)
        return self._ask + b"".join(map(bulk, args))

    def abandon(self, one: Attempt, channel: bytes = b"") -> Call:
        """Return the request that undoes an acquire with this channel."""
        entry = self.entry(one, channel) if channel else b""
        return SHARES_ABANDON, self.keys.grant, (one.holder_id, entry, self.client_channel)

    def probe(self, one: Attempt, holder: bytes, text: bytes) -> Call:
        """Return the request that sends a probe on to the clients that hold too many permits."""
        return SHARES_PROBE, self.keys.grant, (holder, text, self.permits, one.id)

    def release(self, one: Attempt, asker: bytes = b"") -> Call:  # noqa: ARG002 - as Terms
        """Return the request that releases all its permits."""
        return keeping(one, 0)


def keeping(one: Attempt, permits: int) -> Call:
    """Return the request that releases all permits except the given number."""
    terms = one.terms
    words = one.holder_id, terms.client_channel, b"%d" % permits
    return SHARES_RELEASE, terms.keys.derive(), words


def lost_nested(port: Engine, hold: Hold) -> LeaseLost:
    """Return the error for an outer hold that the server no longer has; mark that hold as lost."""
    lose(port, hold, "expired", port.now())
    return hold.lost_error()


class PermitCount(NamedTuple):
    """How many permits are taken, of how many; ``waiting`` is above 0 if a live waiter queues."""

    taken: int
    limit: int
    waiting: int


# What a name is, in the words of an error.
KINDS: Final = {SEMAPHORE: "a semaphore", RWLOCK: "a reader/writer lock"}


def described(kind: bytes, limit: int, reply: Reply) -> PermitCount:
    """Return the state in a reply of ``shares_show.lua``, for a caller that names kind and limit.

    A name that no client uses is free: the next use decides its kind. It also decides its limit,
    unless earlier users have named that one. Raises ServerUnsuitable when the name is in use as
    another kind.
    """
    record, taken, holders, waiting, *_ = reply
    words = words_of("shares", record)
    if not words:
        return PermitCount(0, limit, 0)
    found, in_force, in_use = words["kind"][1:], int(words["limit"]), holders or waiting
    if found != kind and in_use:
        raise ServerUnsuitable(f"the name is in use as {KINDS[found]}", code="WRONGTYPE")
    known = limit == in_force or b"%d" % limit in words["named"].split(b",")
    if found != kind or not (in_use or known):
        return PermitCount(0, limit, 0)
    return PermitCount(taken, in_force, waiting)


@describes_errors
async def release_part(port: Engine, hold: Hold, keep: int) -> None:
    """Release all but ``keep`` permits of a hold; raises as ``release``."""
    if keep == 0:
        await release(port, hold)
        return
    if hold.released:  # by another thread or task, with these permits
        return
    hold.check()
    log = Seat()
    try:
        reply = await port.ask(*keeping(hold, keep), asked=log)
    except FencelockError as error:
        if not settled(error):
            left = hold.count if hold.open else 0
            port.run_in_background(*keeping(hold, left), log.undo_connection)
        raise
    if reply != 1:  # also when another release overtook this one, and released all
        judge(port, hold, reply, repeated=hold.released)


async def release_permits(port: Engine, take: Callable[[list[tuple[Hold, int]]], None]) -> None:
    """Release the permits that ``take`` takes out: parts of holds, each with what it keeps.

    All are released, even if the first fails; then its error is raised. After a cancellation the
    rest is released in the background.
    """
    parts: list[tuple[Hold, int]] = []
    troubles: list[FencelockError] = []  # the first one
    try:
        with port.mutex:
            take(parts)
        for hold, keep in tuple(parts):
            try:
                await release_part(port, hold, keep)
            except FencelockError as error:
                troubles = troubles or [error]
            del parts[0]
    finally:
        for hold, keep in parts:  # after an interrupt; sent twice, it changes nothing
            if keep:
                port.run_in_background(*keeping(hold, keep))
            else:
                hold.release_in_background(port)
    if troubles:
        raise troubles.pop()


@describes_errors
async def state(port: Engine, keys: LockKeys, kind: bytes, limit: int) -> PermitCount:
    """Return the state of a name, for a caller with this kind and limit; see ``described``."""
    return described(kind, limit, await port.ask(SHARES_SHOW, keys.grant, (), reads=True))


@describes_errors
async def held_of(port: Engine, keys: LockKeys, holders: tuple[bytes, ...]) -> int:
    """Return how many of these holder ids are holders."""
    return sum((await port.ask(SHARES_SHOW, keys.grant, holders, reads=True))[4:])


@describes_errors
async def set_limit(port: Engine, terms: ShareTerms, limit: int) -> int:
    """Change the limit that is in force, and grant to every queued waiter that now fits.

    Returns the limit that the users of the name agreed on: they continue to name that one.
    """
    args = (terms.kind, terms.limit, limit, terms.client_channel, port.new_id())
    _, agreed = await port.ask(SHARES_LIMIT, terms.keys.grant, args)
    return int(agreed)
