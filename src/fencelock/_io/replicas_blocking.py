"""For the blocking port of clients whose grants replicas must acknowledge. Others do not load it.

``WAIT`` counts the writes of its own connection, and a grant that was handed over was written by
another. So a throw-away key is written first: a replica that acknowledges it has everything before
it. The key is in the lock's slot, because a PUBLISH reaches no replica in a Cluster.

Rules of this file:

- The server that is asked is the one that granted: it is asked on the waiter's own connection.
- ``WAIT n 0`` has no end, so it is never sent.
- No answer in time is no acknowledgement. A broken connection is reported as ``NoReply``.
"""

from __future__ import annotations

from fencelock._core.keys import ACKNOWLEDGED_KINDS, LockKeys, derived
from fencelock._core.seat import Seat
from fencelock._core.types import DEMOTED, Demoted, NoReply
from fencelock._io.connection_blocking import Connection
from fencelock._io.wire import ReplyError, pack
from fencelock._runtime.clock import now
from fencelock.errors import ServerError
from fencelock.options import Acknowledgement

# Servers up to Redis 7 end a WAIT up to 0.1 s late: so it gets only a part of the time, and its
# answer may be a little late.
PART = 0.9
ACK_SECONDS = 0.025
LATE_SECONDS = 0.25


def mark(keys: LockKeys) -> bytes:
    """Return a packed write that all replicas get, and that expires at once."""
    lock = keys.lock
    prefix = lock.removesuffix(keys.name.encode())
    (key,) = derived(prefix, lock, ACKNOWLEDGED_KINDS)
    return pack((b"SET", key, b"", b"PX", 1))


def wait(wanted: int, until: float) -> bytes:
    """Return a WAIT for so many replicas that ends before the instant, packed."""
    return pack((b"WAIT", wanted, max(1, int((until - now()) * PART * 1000))))


def refused(trouble: ServerError) -> Exception:
    """Return the error for a refusal: the old node cannot count for a slot that has moved.

    Nor can a master that became a replica: the grant is asked for again elsewhere.
    """
    if trouble.code in DEMOTED:
        return Demoted(trouble, mastered=True, sent=True)
    if trouble.code in {"MOVED", "ASK"}:
        return NoReply(f"the slot has moved: {trouble}", sent=True)
    return trouble


class BlockingReplicas:
    """Implements ``_core.wire.Replicas`` for threads: each waiter has a connection of its own."""

    def __init__(self, asked: Acknowledgement) -> None:
        self.wanted, self.timeout = asked

    async def acknowledge(self, waiter: Seat, until: float) -> int:
        """Count on the waiter's own connection; see ``Replicas``."""
        connection = waiter.connection
        if not isinstance(connection, Connection) or not connection.sound:
            raise NoReply("the connection of the request was lost", sent=False)
        if until <= now():
            return 0
        try:
            connection.asked_at = now()
            connection.send(mark(waiter.keys) + wait(self.wanted, until), 2)
            reply = connection.answer(until + ACK_SECONDS)
            if type(reply) is not ReplyError:
                reply = connection.answer(until + ACK_SECONDS)
        except BaseException as broken:
            connection.sound = False
            if isinstance(broken, NoReply) and broken.undo_connection is not None:
                return 0
            raise
        if type(reply) is ReplyError:
            raise refused(
                connection.error_of(reply)
            ) from reply  # what is still owed ends the connection
        return int(reply)
