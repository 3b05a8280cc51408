"""Locks in the layout of Redisson's ``RLock``: the flows of a lock, over keys of another library's.

Rules of this file:

- The layout is a hash at the lock's own name, with one field: ``client:number``, and how often its
  holder has entered. Redisson's clients know a thread by the number. Ours is that of an
  acquisition, so repeating a request changes nothing (I4): the hash has no room for another id.
- A client counts its re-entries, and writes their number. It is for those that look: nothing
  decides by it, so it is sent in the background, and release does not ask for it.
- There is no line: who asks first after a release is granted. A waiter subscribes to the channel
  where releases are announced, asks again, and waits for a message. The message may be lost (I6):
  the heartbeat of the client's lines looks at the lock.
- One of a client's waiters asks for all, as in every tenure; a release passes nothing on. The next
  one of the client subscribes before it asks, so others are as near.
- Nothing but ``0`` is ever published on that channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import REVOKED_MS, LockKeys, slot
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold, lose
from fencelock._core.lock.terms import REDISSON, Terms, milliseconds
from fencelock._core.types import Call
from fencelock.options import Cohort, LeaseOptions
from fencelock.scripts import (
    REDISSON_ACQUIRE,
    REDISSON_COUNT,
    REDISSON_LOOK,
    bulk,
    head,
    packed,
)

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# Each turn of a client is a grant of its own: what its waiters share is who of them asks.
ONE_TURN: Final = Cohort(turns=1)


class RedissonKeys(LockKeys):
    """The keys of a lock in Redisson's layout: its name as it is, and what Redisson derives of it.

    The reason of an operator who revoked it is at a key of ours, in the same slot.

    Raises:
        ValueError: the name ends like a key that fencelock derives.
    """

    __slots__ = ("fenced",)

    def __init__(self, name: str, *, fenced: bool) -> None:
        super().__init__("", name)
        self.fenced: bool = fenced

    def beside(self, what: bytes) -> bytes:
        """Return the name that Redisson derives: in the lock's slot if its braces make a tag."""
        return (b"%b:%b" if b"{" in self.lock else b"%b:{%b}") % (what, self.lock)

    @property
    def topic(self) -> bytes:
        """Return the channel where a release is announced."""
        return self.beside(b"redisson_lock__channel")

    @property
    def grant(self) -> tuple[bytes, ...]:
        """Return what decides about a grant: the lock alone."""
        return self.plain

    @property
    def renew_owned(self) -> tuple[bytes, ...]:
        """Return what a renewal touches: the lock alone."""
        return self.plain


class RedissonTerms(Terms):
    """The terms of a lock in Redisson's layout.

    ``client`` draws a UUID, by which Redisson knows a client, for each acquisition: one that was
    drawn before, a restored snapshot would repeat. ``numbers`` gives each a number.

    Raises:
        ValueError: in a Cluster, where the channel of such a name is in another slot: Redisson
            cannot release it there.
    """

    __slots__ = ("_client", "_numbers", "_publishes")

    alive = REDISSON_LOOK

    def __init__(
        self,
        *,
        keys: RedissonKeys,
        options: LeaseOptions,
        client_channel: bytes,
        ttl: float,
        ends: float = inf,
        client: Callable[[], str],
        numbers: Iterator[int],
        publishes: bytes,
    ) -> None:
        super().__init__(
            keys=keys, options=options, client_channel=client_channel, ttl=ttl, ends=ends
        )
        self.batch = REDISSON
        self._client, self._numbers = client, numbers
        self.topic = keys.topic
        self._publishes = publishes
        named = (keys.lock, keys.beside(b"redisson_lock_token")) if keys.fenced else keys.plain
        if publishes == b"SPUBLISH" and {*map(slot, (self.topic, *named))} != {slot(keys.lock)}:
            raise ValueError(
                f"name: braces of {keys.name!r} put Redisson's channel into another slot than the"
                " lock, and no client could release it in a Cluster; choose another name"
            )
        self._ask = head(REDISSON_ACQUIRE, named, 2)
        self._ttl = bulk(b"%d" % milliseconds(self.lease))

    def field(self) -> bytes:
        """Return the field of a new acquisition: its id."""
        return f"{self._client()}:{next(self._numbers)}".encode()

    def renamed(self, own_id: bytes) -> bytes:  # noqa: ARG002 - as Terms
        """Return the field of another acquisition, as which one goes on whose id was given up."""
        return self.field()

    def acquire(self, one: Attempt, channel: bytes) -> bytes:  # noqa: ARG002 - as Terms
        """Return a call of ``redisson_acquire.lua``."""
        return b"%b%b%b" % (self._ask, bulk(one.holder_id), self._ttl)

    def entry(self, one: Attempt, channel: bytes) -> bytes:  # noqa: ARG002 - as Terms
        """Return the word that stands for a waiter in ``redisson_look.lua``."""
        return one.id

    def counting(self, one: Attempt, count: int, *undo: bytes) -> Call:
        """Return the request that says how often the holder has entered; 0: it has released."""
        keys = (self.keys.lock, self.topic, self.keys.revoked)
        return REDISSON_COUNT, keys, (one.holder_id, b"%d" % count, self._publishes, *undo)

    def release(self, one: Attempt, asker: bytes = b"") -> Call:  # noqa: ARG002 - as Terms
        """Return the request that releases it."""
        return self.counting(one, 0)

    def packed_release(self, one: Attempt) -> bytes:
        """Return the same, packed."""
        return packed(*self.release(one))

    def abandon(self, one: Attempt, channel: bytes = b"") -> Call:  # noqa: ARG002 - as Terms
        """Return the request that undoes an acquire."""
        return self.counting(one, 0, b"1")


def tell_count(port: Engine, hold: Hold) -> None:
    """Write how often the holder has entered, for those that look."""
    terms: RedissonTerms = hold.terms  # type: ignore[assignment]  # a handle of this layout made it
    port.run_in_background(*terms.counting(hold, hold.count))


@describes_errors
async def fields_of(port: Engine, keys: LockKeys) -> list[bytes]:
    """Return the fields of the hash: that of the holder, or none."""
    fields: list[bytes] = await port.read((b"HKEYS", keys.lock), keys.lock)
    return fields


@describes_errors
async def force_unlock(port: Engine, keys: RedissonKeys, reason: str = "by force_unlock") -> bool:
    """Take the lock from the holder that it finds, and announce that; False if it finds none.

    This client's holder is notified before the request is sent (I8), or as its hold begins, if its
    acquire is just being answered. Another one of ours reads the reason when its renewal is
    refused. A repeated request takes nothing from the next holder, unless that is the same thread
    of a Java program.
    """
    fields = await fields_of(port, keys)
    with port.mutex:
        held = [hold for hold in port.renewals.tracked() if hold.holder_id in fields]
        names = port.lines.cohorts  # of what this client holds or asks for
        if any(isinstance(name, bytes) and name.startswith(b"%b " % keys.lock) for name in names):
            for field in {*fields} - {hold.holder_id for hold in held}:
                port.lines.remember_revoked(field, reason)
    for hold in held:
        lose(port, hold, "revoked", port.now(), reason)
    for field in fields:  # release its lock, and remember why
        until = port.now() + port.server_timeout
        said = (b"SET", keys.revoked, b"%b %b" % (field, reason.encode()), b"PX", REVOKED_MS)
        await port.persist(partial(port.command, said, keys.lock, until), until)
        args = (field, b"0", port.publishes)
        await port.ask(REDISSON_COUNT, (keys.lock, keys.topic, keys.revoked), args, until)
    return bool(fields)
