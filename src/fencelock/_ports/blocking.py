"""The blocking port: coroutines that block and never suspend.

Rules of this file:

- A connection is used by one thread at a time; a waiting thread reads its own.
- A connection with an unread answer is used for one thing only: an undo behind it (``trail``).
- Threads exist only while there is something to do: one tends the leases, one sees to posts.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

from fencelock._core.ask import ask
from fencelock._core.book import RenewalBook
from fencelock._core.hold import Hold
from fencelock._core.port import Flows, Replicas
from fencelock._core.pushes import dispatch
from fencelock._core.renew import log_loss, lose_all
from fencelock._core.types import Args, Broken, Keys, Reply, closed
from fencelock._core.waiter import Waiter
from fencelock._core.waiters import Lines
from fencelock._ports import fork, leaving, loops
from fencelock._ports.chance import Chance
from fencelock._ports.pool import Pool
from fencelock._ports.posts import Posts
from fencelock._ports.repeating import RepeatingThread
from fencelock._ports.teller import Teller
from fencelock._ports.tender import Tender
from fencelock._topology.flows.single import SINGLE
from fencelock._transport.direct import Connection
from fencelock._transport.source import Source
from fencelock.clock import REST_SECONDS, now
from fencelock.errors import FencelockError, NotRenewable
from fencelock.log import log
from fencelock.mutex import catch_up, inside, mutex, put_off, refuse, waiting
from fencelock.scripts import Script

if TYPE_CHECKING:
    from fencelock._topology.slots import Clustered

T = TypeVar("T")

# How long close() waits for waiters to leave their lines and for clean-ups.
CLOSE_SECONDS = 1.0


def run_blocking(flow: Coroutine[Any, Any, T]) -> T:
    """Run a flow to its end on this thread; its port blocks, so it never suspends.

    RuntimeError in a finalizer or signal handler that interrupted this thread inside the mutex.
    """
    if inside():
        flow.close()
        raise refuse()
    if waiting():
        catch_up()
    if loops.in_loop():
        loops.warn(flow)
    try:
        flow.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    flow.close()
    raise RuntimeError("a blocking port suspended")


def run_release(handle: object, flow: Coroutine[Any, Any, T]) -> T | None:
    """Run a flow whose caller can go on without its result: where need be, after the unlock.

    None when it was put off; what it raises then is logged. The handle is kept until then.
    """
    if not inside():
        return run_blocking(flow)
    put_off(partial(_release_late, handle, flow))
    return None


def _release_late(handle: object, flow: Coroutine[Any, Any, object]) -> None:
    """Run a release that was put off."""
    run_blocking(flow)
    del handle  # not before: it would report that it was dropped while it held the lock


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

    flows: Flows = SINGLE
    needed = 1
    nodes: Sequence[BlockingPort] = ()  # of a quorum only
    replicas: Replicas  # only where they count: see acknowledging.py

    def __init__(self, source: Source | Clustered, *, home: str, patience: float) -> None:
        self.source: Any = source
        self.label: str = source.label
        self.patience = patience
        self._prefix = home
        self._ear = _ear(ref(self))
        self._start()
        fork.watch(self)
        leaving.watch(self)

    def _start(self) -> None:
        """Begin with nothing: at first, and in a child process."""
        self.home: bytes = f"{self._prefix}@{os.urandom(8).hex()}".encode()
        self.lines: Lines = Lines()
        self._lent: set[Waiter] = set()  # waiters that gave their connection away
        self.book: RenewalBook = RenewalBook()
        self.closing: bool = False  # nobody may stand in line any more
        chance = Chance()
        self.new_id: Callable[[], bytes] = chance.new_id
        self.jitter: Callable[[], float] = chance.jitter
        self._lock = mutex()
        self.pool: Pool = self._new_pool()
        self._channels = 0
        self._tender = Tender(self)
        self._posts = Posts(self)
        self._teller = Teller()

    def _new_pool(self) -> Pool:
        return Pool(self.source, self._ear)

    # -- clock, ids, tables ---------------------------------------------------------------------

    now: staticmethod[[], float] = staticmethod(now)

    def mutex(self) -> threading.RLock:
        """Guard the tables against other threads; see mutex.py."""
        return self._lock

    async def sleep(self, until: float) -> None:
        """Sleep until an instant."""
        while (left := until - now()) > 0:
            time.sleep(min(left, REST_SECONDS))

    # -- calls ----------------------------------------------------------------------------------

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a script on any connection, or on the waiter's."""
        if waiter is not None:
            return self._seat(waiter).call(script, keys, args, until)
        connection = self.pool.take(until)
        try:
            return connection.call(script, keys, args, until)
        finally:
            self.pool.give(connection)

    async def parts(self, until: float) -> Sequence[bytes]:
        """Return one key: there is one server."""
        return (b"",)

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a packed script call on any connection, or on the waiter's."""
        if waiter is not None:
            return waiter.seat.run(request, until)
        connection = self.pool.take(until)
        try:
            return connection.run(request, until)
        finally:
            self.pool.give(connection)

    async def command(
        self, args: Sequence[bytes | int], key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a plain command on any connection, or on the waiter's."""
        if waiter is not None:
            return self._seat(waiter).command(args, until)
        connection = self.pool.take(until)
        try:
            return connection.command(args, until)
        finally:
            self.pool.give(connection)

    # -- waiting --------------------------------------------------------------------------------

    def seat(self, waiter: Waiter, *, listen: bool) -> bool:
        """Seat a waiter on a connection that stands by and listens to a channel already."""
        seat = waiter.seat
        if seat is None:
            seat = waiter.seat = self.pool.idle()
            if seat is None:
                return False
            seat.waiter = waiter
        if self.closing or not seat.sound:
            return False
        if not listen:
            return True
        waiter.channel = waiter.channel or seat.channel
        return bool(seat.channel) and seat.channel == waiter.channel

    async def open(self, waiter: Waiter, until: float, *, listen: bool = True) -> None:
        """Seat a waiter on a connection, one that listens to its channel when asked."""
        if self.closing:
            raise closed()
        seat = waiter.seat
        if not isinstance(seat, Connection) or not seat.sound:
            self.close(waiter)
            seat = waiter.seat = self.pool.take(until)
            seat.waiter = waiter
        if not listen:
            return
        waiter.channel = waiter.channel or seat.channel or self._new_channel()
        if seat.channel != waiter.channel:
            seat.subscribe(waiter.channel, until)

    def take_any(self, until: float) -> Connection:
        """Return a connection that hears revocations once it listens; ends like ``Pool.take``."""
        return self.pool.take(until)

    def _new_channel(self) -> bytes:
        with self._lock:
            self._channels += 1
            return b"%b.%d" % (self.home, self._channels)

    def _seat(self, waiter: Waiter) -> Connection:
        if not isinstance(waiter.seat, Connection) or not waiter.seat.sound:
            raise Broken("the waiter's connection was lost", sent=False)
        return waiter.seat

    def close(self, waiter: Waiter) -> None:
        """Take the connection back from a waiter."""
        connection, waiter.seat = waiter.seat, None
        if isinstance(connection, Connection):
            connection.waiter = None
            for stray in waiter.want.strays:  # what it may still bring is undone there
                connection.undoing = connection.undoing or stray.trail is connection
            self.pool.give(connection)

    async def wait(self, waiter: Waiter, until: float) -> None:
        """Read the waiter's connection until a push concerns it, or until the instant."""
        self._tender.stand_by()
        if waiting():
            catch_up()
        if (self.book.busy or self._lent) and not self._spares_one(waiter, until):
            return
        try:
            seat = self._seat(waiter)
            seat.fresh = False  # it may die while nothing is sent
            while not waiter.news and seat.listen(until):
                pass
        except Broken:
            waiter.lose_place()

    def _spares_one(self, waiter: Waiter, until: float) -> bool:
        """See that waiters leave a connection: to renew and release with, and to one another.

        Where the server takes no more clients, the waiter lends its own, and asks again soon: it
        may be granted meanwhile and does not hear of it. So the others leave it one to ask with.
        """
        seat = waiter.seat
        if not isinstance(seat, Connection) or not (self.book.busy or self._lent_out()):
            return True
        if self.pool.beside(seat).spare(min(until, now() + REST_SECONDS)):
            return True
        self.close(waiter)
        with self._lock:
            self._lent.add(waiter)
        left = min(until, now() + REST_SECONDS) - now()
        if left > 0:
            time.sleep(left)
        waiter.lose_place()
        return False

    def _lent_out(self) -> bool:
        """Return True if a waiter that lent its connection stands in line without one."""
        with self._lock:
            standing = self.lines.all_waiters() if self._lent else ()
            self._lent = {each for each in standing if each in self._lent and each.seat is None}
            return bool(self._lent)

    def wake(self, waiter: Waiter) -> None:
        """Leave it to the waiter's own bound: it reads a socket, and news come there first."""

    def pushed(self, connection: Connection, message: list[bytes]) -> None:
        """Take a push; the waiter it may be for is the one that reads."""
        waiter = connection.waiter

        def find(who: bytes) -> Waiter | None:
            return waiter if waiter is not None and waiter.want.waiter == who else None

        dispatch(self, message, find)

    # -- leases ---------------------------------------------------------------------------------

    def keep(self, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal book and see that somebody tends it."""
        with self._lock:
            self.book.add(hold, when)
        trouble = self._tender.mind(when)
        terms = hold.want.terms
        if trouble is not None and (terms.renew or terms.on_lost is not None):
            name = hold.name
            text = f"{name!r} is given back: no thread can be started to renew it: {trouble}"
            raise NotRenewable(text, name=name, server=self.label) from trouble

    def tell(self, hold: Hold) -> None:
        """Call the holder's ``on_lost`` in another thread: other leases cannot wait for it."""
        if inside():
            put_off(lambda: self.tell(hold))
            return
        log_loss(hold)
        if hold.want.terms.on_lost is not None:
            self._teller.add(hold)

    def post(self, script: Script, keys: Keys, args: Args, trail: object = None) -> None:
        """Send behind the trail at once, and see to the answer in a background thread."""
        self._posts.add(script, keys, args, trail if isinstance(trail, Connection) else None)

    def repeating(
        self, flow: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> RepeatingThread:
        """Run a flow now and then in a thread."""
        return RepeatingThread(flow, seconds, run_blocking)

    async def deliver(self, script: Script, keys: Keys, args: Args, until: float) -> None:
        """Repeat a posted request until it is answered or its time is up."""
        try:
            await ask(self, script, keys, args, until)
        except FencelockError as error:
            log.warning(
                "a clean-up (%s) could not reach the server in time: %s", script.name, error
            )

    # -- ends -----------------------------------------------------------------------------------

    def shut(self, within: float = CLOSE_SECONDS) -> None:
        """Close the connections; who still waits gets an error, who holds keeps its lease."""
        if inside():
            put_off(self.shut)
            return
        self.closing = True
        until = now() + within
        with self._lock:
            seats = [waiter.seat for waiter in self.lines.all_waiters()]
        for seat in seats:
            if isinstance(seat, Connection):
                seat.interrupt()
        while len(self.lines) and now() < until:
            time.sleep(0.005)
        self._posts.finish(until)
        lose_all(self, "closed")
        self.pool.closed = True
        self._tender.stop(until)
        self.pool.drop()

    def after_fork(self) -> None:
        """In a child: everything here was the parent's."""
        self.pool.drop()
        self._tender.in_child()
        self._start()
