"""The blocking port: coroutines that block and never suspend.

Rules of this file:

- A connection is used by one thread at a time; a waiting thread reads its own.
- A connection with an unread answer is used for one thing only: an undo behind it (``trail``).
- Threads exist only while there is something to do: one tends the leases, one sees to posts.
"""

from __future__ import annotations

import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar
from weakref import ref

from fencelock._core.ask import ask
from fencelock._core.hold import Hold
from fencelock._core.port import Args, Broken, Keys, Reply
from fencelock._core.renew import RenewalBook, lose
from fencelock._core.waiters import Lines, Waiter
from fencelock._ports import fork
from fencelock._ports.posts import Posts
from fencelock._ports.tender import Tender
from fencelock._transport import direct
from fencelock._transport.direct import Connection
from fencelock._transport.source import Direct, Source
from fencelock.clock import now
from fencelock.errors import FencelockError, ServerUnreachable
from fencelock.scripts import Script

log = logging.getLogger("fencelock")
T = TypeVar("T")

# Idle connections that are kept for the next call; more are opened when more threads ask at once.
IDLE_MAX = 16


def run_blocking(flow: Coroutine[Any, Any, T]) -> T:
    """Run a flow to its end on this thread; its port blocks, so it never suspends."""
    try:
        flow.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        flow.close()
    raise RuntimeError("a blocking port suspended")


def _ear(port: ref[BlockingPort]) -> Callable[[Connection, list[bytes]], None]:
    """Return what connections call with a push; it does not keep the port alive.

    Without cycles a client that is dropped closes its connections at once.
    """

    def pushed(connection: Connection, message: list[bytes]) -> None:
        alive = port()
        if alive is not None:
            alive.pushed(connection, message)

    return pushed


class BlockingPort:
    """Implements ``_core.port.Port`` for threads."""

    def __init__(self, source: Source, *, home: str, patience: float) -> None:
        self.source = source
        self.patience = patience
        self._prefix = home
        self._ear = _ear(ref(self))
        self._start()
        fork.watch(self)

    def _start(self) -> None:
        """Begin with nothing: at first, and in a child process."""
        self.home = f"{self._prefix}@{secrets.token_hex(8)}".encode()
        self.lines = Lines()
        self.book = RenewalBook()
        self.closed = False
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._channels = 0
        self._reached = False
        self._tender = Tender(self)
        self._posts = Posts(self)

    # -- clock, ids, tables ---------------------------------------------------------------------

    now = staticmethod(now)
    jitter = staticmethod(random.random)

    def new_id(self) -> bytes:
        """Return 128 random bits as 22 characters."""
        return secrets.token_urlsafe(16).encode()

    def mutex(self) -> threading.Lock:
        """Guard the tables against other threads."""
        return self._lock

    async def sleep(self, until: float) -> None:
        """Sleep until an instant."""
        left = until - now()
        if left > 0:
            time.sleep(left)

    # -- calls ----------------------------------------------------------------------------------

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a script on any connection, or on the waiter's."""
        if waiter is not None:
            return self._seat(waiter).call(script, keys, args, until)
        connection = self.take(until)
        try:
            return connection.call(script, keys, args, until)
        finally:
            self.give(connection)

    async def command(self, args: Sequence[bytes | int], until: float) -> Reply:
        """Run a plain command on any connection."""
        connection = self.take(until)
        try:
            return connection.command(args, until)
        finally:
            self.give(connection)

    def take(self, until: float) -> Connection:
        """Return a sound connection, opened when none is idle."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._dial(until)

    def give(self, connection: Connection) -> None:
        """Keep a sound connection for the next call; after a failure drop all idle ones too.

        What broke one (a restart, a failover) broke the others: they must not cost a try each.
        """
        if connection.sound and len(self._idle) < IDLE_MAX and not self.closed:
            self._idle.append(connection)
        elif connection.sound:
            connection.close()
        else:
            self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _dial(self, until: float) -> Connection:
        if self.closed:
            raise ServerUnreachable("this client was closed", code="CLOSED")
        try:
            connection = self._connect(until)
        except ServerUnreachable as error:
            # Nobody answered there ever: more likely a wrong address than a restart.
            if not self._reached or error.code not in {"", "REFUSED"}:
                raise
            raise Broken(str(error), sent=False) from error
        self._reached = True
        return connection

    def _connect(self, until: float) -> Connection:
        if isinstance(self.source, Direct):
            return direct.connect(self.source.locate(until), until, self._ear)
        from fencelock._transport import cloned  # noqa: PLC0415 - needs redis-py's exceptions

        return cloned.connect(self.source, until, self._ear)

    # -- waiting --------------------------------------------------------------------------------

    async def open(self, waiter: Waiter, until: float) -> None:
        """Seat a waiter on a connection that listens to the waiter's channel."""
        seat = waiter.seat
        if isinstance(seat, Connection):
            if seat.sound:
                return
            self.close(waiter)
        connection = self.take(until)
        waiter.channel = waiter.channel or connection.channel or self._new_channel()
        waiter.seat = connection
        connection.waiter = waiter
        if connection.channel != waiter.channel:
            connection.subscribe(waiter.channel, until)

    def _new_channel(self) -> bytes:
        with self._lock:
            self._channels += 1
            return b"%b.%d" % (self.home, self._channels)

    def _seat(self, waiter: Waiter) -> Connection:
        if not isinstance(waiter.seat, Connection) or not waiter.seat.sound:
            raise Broken("the waiter's connection is gone", sent=False)
        return waiter.seat

    def close(self, waiter: Waiter) -> None:
        """Take the connection back from a waiter."""
        connection, waiter.seat = waiter.seat, None
        if isinstance(connection, Connection):
            connection.waiter = None
            self.give(connection)

    async def wait(self, waiter: Waiter, until: float) -> None:
        """Read the waiter's connection until a push concerns it, or until the instant."""
        try:
            seat = self._seat(waiter)
            while not waiter.news and seat.listen(until):
                pass
        except Broken:
            waiter.lose_place()

    def wake(self, waiter: Waiter) -> None:
        """Leave it to the waiter's own bound: it reads a socket, and news come there first."""

    def pushed(self, connection: Connection, message: list[bytes]) -> None:
        """Dispatch a push: a grant to the waiter that reads, a revocation to its hold."""
        kind, _, payload = (
            message[2].partition(b" ") if message[0] == b"message" else (b"", b"", b"")
        )
        waiter = connection.waiter
        if kind == b"granted" and waiter is not None:
            who, fence, granted_us, lease_ms = payload.split()
            if who == waiter.want.waiter:
                waiter.hear(int(fence), int(granted_us), int(lease_ms))
        elif kind == b"revoked":
            self.revoked(payload)

    def revoked(self, payload: bytes) -> None:
        """Tell the hold that an operator broke."""
        holder, _, reason = payload.partition(b" ")
        with self._lock:
            hit = [hold for hold in self.book.all_holds() if hold.want.holder == holder]
        for hold in hit:
            lose(self, hold, "revoked", now(), reason.decode())

    # -- leases ---------------------------------------------------------------------------------

    def keep(self, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal book and see that somebody tends it."""
        with self._lock:
            self.book.add(hold, when)
        self._tender.mind(when)

    def tell(self, hold: Hold) -> None:
        """Call the holder's ``on_lost``; what it raises is logged."""
        on_lost = hold.want.terms.on_lost
        if on_lost is None:
            return
        try:
            on_lost(hold.lease)
        except Exception:
            log.exception("on_lost of %r raised", hold.lease.name)

    def post(self, script: Script, keys: Keys, args: Args, trail: object = None) -> None:
        """Send behind the trail at once, and see to the answer in a background thread."""
        self._posts.add(script, keys, args, trail if isinstance(trail, Connection) else None)

    async def deliver(self, script: Script, keys: Keys, args: Args, until: float) -> None:
        """Repeat a posted request until it is answered or its time is up."""
        try:
            await ask(self, script, keys, args, until)
        except FencelockError as error:
            log.warning("a clean-up (%s) found no server in time: %s", script.name, error)

    # -- ends -----------------------------------------------------------------------------------

    def shut(self) -> None:
        """Close the connections; who still waits gets an error, who holds keeps its lease."""
        self._posts.finish(now() + 1.0)
        self.closed = True
        with self._lock:
            seats = [waiter.seat for waiter in self.lines.all_waiters()]
        for seat in seats:
            if isinstance(seat, Connection):
                seat.interrupt()
        self._tender.stop()
        self._drop_idle()

    def after_fork(self) -> None:
        """In a child: everything here was the parent's."""
        self._drop_idle()
        self._start()
