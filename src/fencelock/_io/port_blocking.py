"""The blocking port: coroutines that block and never suspend.

Rules of this file:

- A connection is used by one thread at a time; a waiting thread reads its own.
- A connection with an unread answer is used only for an undo after it (``undo_connection``).
- Threads exist only while there is something to do: one renews leases, a few do clean-ups.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from math import inf
from weakref import ref

from fencelock._core.lock.acquire import (
    acquire,
    answered,
    enter,
    failed,
    has_grant,
    has_turn,
    start,
)
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.maintain import Renewer
from fencelock._core.lock.release import Of, Take, end_lease, finish, not_released, take_and_release
from fencelock._core.lock.tenure import give_up_all
from fencelock._core.pushes import dispatch
from fencelock._core.round_trips import DIAL_SECONDS, RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Carrier, Keys, NoReply, Reply, closed
from fencelock._io.cleanup_queue import CleanupQueue
from fencelock._io.connection_blocking import Connection, dial
from fencelock._io.pool_blocking import Pool
from fencelock._io.pool_places import lend_place
from fencelock._io.process_ports import CLOSE_SECONDS, ProcessPort, note_dropped
from fencelock._io.renewal_thread import RenewalThread
from fencelock._io.sources.kinds import One, silence
from fencelock._io.threads import RepeatingThread, is_free, run_blocking, run_inline, run_release
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import catch_up, put_off_work, started
from fencelock._runtime.process import mark
from fencelock._runtime.typed import Any
from fencelock.errors import NotRenewable, ServerError
from fencelock.scripts import Script

# Most turns of one client are over sooner, and most leases for which threads stand in line.
MOMENT_SECONDS = 0.1


class BlockingPort(ProcessPort):
    """The port of one server, and of Sentinels, for threads."""

    def _start(self) -> None:
        super()._start()
        alive = ref(self)  # without a cycle a dropped client closes its connections at once

        def hear(connection: Connection, message: list[bytes]) -> None:
            port = alive()
            if port is not None:
                port.pushed(connection, message)

        self._ear = hear
        # Waiters without a connection: they lent it, or the server accepted no other.
        self._lent: set[Seat] = set()
        self.pool: Pool = self._new_pool()
        self._keep_pace(self.pool.trips)
        self._channels = count(1)
        self._renewal_thread = RenewalThread(self)
        self._cleanups = CleanupQueue(self)
        self._loss_callbacks = LossCallbacks()

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        """End the renewal thread, if it lingers: its client was dropped."""
        thread = getattr(self, "_renewal_thread", None)  # none after an error while it was made
        if thread is not None and not _ending() and self.has_threads:
            thread.orphan()
            if not (self.closing or self.is_node):
                note_dropped(self.label)

    def _new_pool(self) -> Pool:
        if isinstance(self.source, One):
            pool = Pool(partial(dial, self.source), self._ear, self.server_timeout)
        else:
            from fencelock._io.sentinel_blocking import following  # noqa: PLC0415 - for Sentinels only

            trips = RoundTrips(DIAL_SECONDS)  # to a silent master; then Sentinels are asked again
            pool = Pool(following(self.source, trips), self._ear, self.server_timeout, trips)
        pool.silence = partial(silence, self.source)
        return pool

    @property
    def trips(self) -> RoundTrips:
        """Return the round trips that bound its calls."""
        return self.pool.trips

    # -- clock, ids, tables ---------------------------------------------------------------------

    async def sleep(self, until: float) -> None:
        """Sleep until an instant."""
        while (left := until - now()) > 0:
            time.sleep(min(left, REST_SECONDS))

    # -- calls ----------------------------------------------------------------------------------

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a packed script call on any connection, or on the waiter's."""
        if waiter is not None:
            return self._connect(waiter).run(request, until, now())
        return self._exchange(request, key, now(), until)

    def _exchange(self, request: bytes, _key: bytes, at: float, until: float) -> Reply:
        """Run a packed script call on an idle connection, or a new one."""
        connection = self.pool.idle(at) or self.pool.take(until)
        try:
            reply = connection.run(request, until, at)
        except BaseException:
            self.pool.give(connection)
            raise
        self.pool.free.append(connection)
        return reply

    # -- the usual acquire and release, where nothing suspends ------------------------------------

    def acquire(self, attempt: Hold, timeout: float | None) -> Hold | None:
        """Acquire for a thread; see ``acquire`` of the core, which goes on where need be."""
        if not (self.direct and is_free()):
            return run_blocking(acquire(self, attempt, timeout))
        try:
            start(self, attempt, timeout)
            enter(self, attempt)
            if attempt.asks is None:
                if self._turn_comes(attempt) if attempt.local else has_turn(self, attempt):
                    return attempt
            else:
                at = attempt.arrived_at
                until = at + self.server_timeout
                if attempt.give_up_at < until:  # seldom: else not even a call
                    until = self.answer_by(at, attempt.give_up_at)
                try:
                    answer = self._ask(attempt, at, until, listen=True)
                except (NoReply, ServerError) as trouble:
                    attempt.answer = trouble
                else:
                    if answered(self, attempt, answer) or self._grant_comes(attempt):
                        return attempt
        except BaseException as error:
            failed(self, attempt, error)
            raise
        try:
            return run_inline(acquire(self, attempt, timeout))
        except RecursionError as error:  # perhaps before it could begin
            failed(self, attempt, error)
            raise

    def _turn_comes(self, attempt: Hold) -> bool:
        """Wait a moment for a turn of this client, and begin it; False if it did not come.

        The flow sees to what a longer wait needs: hooks, a place in the table of waits, lines of
        the log, one thread more in a pool, and the end of the front's lease.
        """
        tenure = attempt.tenure
        front = None if tenure is None else tenure.front
        if front is None or front.unit is attempt.unit or attempt.event is not None:
            return False  # who waits for itself is refused at once
        until = attempt.arrived_at + MOMENT_SECONDS
        give_up_at = attempt.give_up_at
        self._wait_for_bell(attempt, until if until < give_up_at else give_up_at)  # noqa: FURB136 - quicker
        return has_turn(self, attempt)

    def _grant_comes(self, attempt: Hold) -> bool:
        """Wait a moment for a grant in line, and begin the lease; False if none came.

        As ``_turn_comes``. Not where something is held: it may be what the thread waits for.
        """
        line = self.lines.by_key.get(attempt.terms.keys.lock) if attempt.placed else None
        if line is None or attempt.event is not None or self.renewals.busy:
            return False
        moment = attempt.arrived_at + MOMENT_SECONDS
        self._wait(attempt, min(moment, attempt.give_up_at, line.bound(attempt)))
        return has_grant(self, attempt)

    def release(self, handle: object, take: Take[*Of], *of: *Of) -> int | None:
        """Release for a thread; see ``take_and_release`` of the core, which goes on if need be."""
        if not self.direct or not mark[0] or put_off_work or mutexes.owned():
            return run_release(take_and_release(self, take, *of), handle, self)
        taken: list[Hold] = []
        reply: Reply | Exception = None
        until = 0.0
        try:
            take(*of, taken)
            hold = taken[0]
            tenure = hold.tenure
            if tenure is not None:
                if tenure.retain(hold):
                    if hold.owed or hold.reported:  # seldom: else not even a call
                        finish(self, taken)
                    return 0
            elif not hold.released:
                request, at = end_lease(self, hold), now()
                until = at + self.server_timeout
                try:
                    reply = self._exchange(request, hold.terms.keys.lock, at, until)
                except (NoReply, ServerError) as trouble:
                    reply = trouble
                if reply == 1:
                    if hold.owed or hold.reported:
                        finish(self, taken)
                    return 0
            flow = take_and_release(self, take, *of, taken=taken, reply=reply, until=until)
            return run_inline(flow)
        except BaseException as error:
            not_released(self, taken, error)
            raise
        finally:
            del reply

    # -- waiting --------------------------------------------------------------------------------

    async def ask_for(self, attempt: Attempt, at: float, until: float, /, *, listen: bool) -> Reply:
        """Ask on an idle connection, for a place in line on one that listens already."""
        reply = self._ask(attempt, at, until, listen=listen)
        if reply is None:
            await self.open(attempt, until, listen=listen)
            reply = self._ask(attempt, now(), until, listen=listen, opened=True)
        return reply

    def _ask(
        self, attempt: Attempt, at: float, until: float, *, listen: bool, opened: bool = False
    ) -> Reply:
        """Send a question on an idle connection; None if that is not ready for it.

        It is the attempt's own while it asks: an interrupt leaves it there, for the undo. A grant
        takes it back.
        """
        connection: Any = attempt.connection
        if not opened:
            if connection is None:
                attempt.connection = connection = self.pool.idle(at)
            if connection is None or not connection.sound or self.closing:
                return None
            connection.waiter = attempt
            if listen:
                channel, own = connection.channel, attempt.channel
                if not channel or (own and own != channel) or attempt.terms.topic:
                    return None
                attempt.channel = channel
        if connection.trips.watched:
            attempt.reckon(connection.trips)
        reply = connection.run(attempt.question(at), until, at)
        if self.replicas is None and (type(reply) is bytes or not listen):
            if attempt.owed or self._lent or attempt.terms.topic:
                self.close(attempt)
            else:
                attempt.connection = connection.waiter = None
                self.pool.free.append(connection)
        return reply

    async def open(self, waiter: Seat, until: float, *, listen: bool = True) -> None:
        """Give a waiter a connection; with ``listen``, one that listens to its channel."""
        if self.closing:
            raise closed()
        connection = waiter.connection
        if not isinstance(connection, Connection) or not connection.sound:
            self._unseat(waiter)
            with self._seating(waiter):
                connection = waiter.connection = self.pool.take(until)
            connection.waiter = waiter
        if not listen:
            return
        if waiter.topic:
            if waiter.topic not in connection.topics:
                connection.tune(waiter.topic, until)
            waiter.channel = waiter.topic
            return
        own = waiter.channel or connection.channel
        waiter.channel = own or b"%b.%d" % (self.client_channel, next(self._channels))
        if connection.channel != waiter.channel:
            connection.subscribe(waiter.channel, until)

    def take_any(self, until: float) -> Connection:
        """Return a connection that hears revocations once it listens; ends like ``Pool.take``."""
        return self.pool.take(until)

    def _connect(self, waiter: Seat) -> Connection:
        if not isinstance(waiter.connection, Connection) or not waiter.connection.sound:
            raise NoReply("the waiter's connection was lost", sent=False)
        return waiter.connection

    @contextmanager
    def _seating(self, waiter: Seat) -> Iterator[None]:
        """Find a connection for a waiter; if there is none, others that only wait lend theirs."""
        try:
            yield
        except (NoReply, ServerError):
            with self.mutex:
                self._lent.add(waiter)
            raise

    def close(self, waiter: Seat) -> None:
        """Take the connection back from a waiter, which has ended, or asks with another one."""
        self._unseat(waiter)
        if self._lent:
            with self.mutex:
                self._lent.discard(waiter)

    def _unseat(self, waiter: Seat) -> None:
        with self.mutex:  # another thread may finish what a signal interrupted
            connection, waiter.connection, waiter.origin = waiter.connection, None, None
        if isinstance(connection, Connection):
            connection.waiter = None
            if connection.topics:
                connection.untune(now() + connection.trips.silence)
            if waiter.owed and connection in [stray.undo_connection for stray in waiter.owed]:
                connection.sound = False  # for that undo only
                self.pool.of_node(connection).drop()
            else:
                self.pool.give(connection)

    @property
    def has_threads(self) -> bool:
        """Return True while the renewal thread runs."""
        return self._renewal_thread.wakes_at < inf

    async def wait(self, waiter: Seat, until: float) -> None:
        """Read the waiter's connection until a push concerns it, or until the instant."""
        change = lend_place()
        try:
            (self._wait_for_bell if waiter.local else self._wait)(waiter, until)
        finally:
            if change is not None:
                change(-1)

    def _wait(self, waiter: Seat, until: float) -> None:
        if self.closing:  # its place came after the others in line had to leave
            waiter.lose_place()
            return
        self._renewal_thread.start_soon()
        if put_off_work:
            catch_up()
        if (self.renewals.busy or self._lent) and not self._spares_one(waiter, until):
            return
        try:
            connection = self._connect(waiter)
            connection.fresh = False  # it may die while nothing is sent
            while not waiter.news:
                short = min(until, now() + REST_SECONDS)
                if connection.listen(short):
                    continue
                if short == until or (self._lent and not self._spares_one(waiter, until)):
                    return
        except NoReply:
            waiter.lose_place()

    def _spares_one(self, waiter: Seat, until: float) -> bool:
        """Make sure that waiters leave a connection, for renewals, releases and one another.

        If the server accepts no more clients, the waiter lends its own, and asks again soon: it may
        be granted meanwhile without being notified. So the others leave it a connection to ask.
        """
        connection = waiter.connection
        with self.mutex:  # some that lent theirs may be in line no more
            standing = self.lines.all_waiters() if self._lent else ()
            self._lent = {one for one in standing if one in self._lent and one.connection is None}
        if not isinstance(connection, Connection) or not (self.renewals.busy or self._lent):
            return True
        if self.pool.of_node(connection).spare(min(until, now() + REST_SECONDS)):
            return True
        self.close(waiter)
        with self.mutex:
            self._lent.add(waiter)
        time.sleep(max(0.0, min(until - now(), REST_SECONDS)))
        waiter.lose_place()
        return False

    @staticmethod
    def _wait_for_bell(waiter: Seat, until: float) -> None:
        """Wait for another thread of this client, without a connection."""
        bell = threading.Lock()
        bell.acquire()
        waiter.connection = bell
        while not waiter.news and (left := until - now()) > 0:
            if bell.acquire(timeout=left if left < REST_SECONDS else REST_SECONDS):  # noqa: FURB136 - quicker
                return

    def wake(self, waiter: Seat) -> None:
        """Wake a thread that waits for others of this client; others block on their own sockets."""
        bell = waiter.connection
        if waiter.local and bell is not None:
            try:  # noqa: SIM105 - ``suppress`` would cost more than the rest
                bell.release()
            except RuntimeError:  # it is rung already
                pass

    def pushed(self, connection: Connection, message: list[bytes]) -> None:
        """Take a push; the waiter it may be for is the one that reads."""
        waiter = connection.waiter
        if waiter is not None and waiter.topic and message[1:2] == [waiter.topic]:
            waiter.lose_place()
            return

        def find(who: bytes) -> Seat | None:
            return waiter if waiter is not None and waiter.id == who else None

        dispatch(self, message, find)

    # -- leases ---------------------------------------------------------------------------------

    def attend(self, hold: Hold, when: float) -> None:
        """Make sure that the renewal thread runs for a new hold."""
        thread = self._renewal_thread
        trouble = None if when >= thread.wakes_at else thread.mind(when)
        if trouble is not None:
            options, name = hold.terms.options, hold.name
            if options.renew or options.on_lost is not None:
                text = f"{name!r} is given back: no thread can be started to renew it: {trouble}"
                raise NotRenewable(text, name=name, server=self.label) from trouble
        if self.pool.closed:  # while the lock was granted: nothing renews it
            Renewer(self).lose_all("closed")

    @property
    def hears(self) -> bool:
        """Return True while the renewal thread hears the messages to this client."""
        return self._renewal_thread.hears

    def hear_soon(self) -> None:
        """Have the renewal thread listen."""
        self._renewal_thread.hear_soon()

    def attend_by(self, when: float) -> None:
        """Have the renewal thread awake by an instant."""
        self._renewal_thread.mind(when)

    def tell(self, hold: Hold) -> None:
        """Call ``on_lost`` in another thread: other leases cannot wait for it."""
        self._loss_callbacks.add(hold)

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Send at once on the undo connection, and handle the answer in a background thread."""
        self._cleanups.add(
            script, keys, args, undo_connection if isinstance(undo_connection, Connection) else None
        )

    repeating = RepeatingThread

    # -- ends -----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Release idle leases and send the history."""
        give_up_all(self)
        if self.recorder is not None:
            self.recorder.send()

    def finish_leaving(self, until: float) -> None:
        """Wait for the threads that send what is owed, also of what Ctrl-C interrupted."""
        self._cleanups.finish(until)

    def shut(self, within: float = CLOSE_SECONDS, *, release: bool = False) -> bool:
        """Close the client; see ``end``. False also when it is done later, by another thread."""
        if mutexes.inside():
            mutexes.put_off(partial(self.shut, within, release=release))
            return False
        return run_blocking(self.end(within, release=release))

    async def each(self, flow: Callable[[Any, float], Awaitable[Any]], until: float) -> None:
        """Run a flow for one after the other: a silent node leaves time to the others."""
        ports = self.nodes or (self,)
        for number, port in enumerate(ports):
            left = max(0.0, until - now())
            await flow(port, now() + left / (len(ports) - number))

    async def dismiss_waiters(self, until: float) -> None:
        """Wake those that wait; they find the client closed, and leave."""
        self.closing = True
        with self.mutex:
            seats = [waiter.connection for waiter in self.lines.all_waiters()]
            self.lines.close(self.wake)
        give_up_all(self)
        for connection in seats:
            if isinstance(connection, Connection):
                connection.interrupt()
        while (len(self.lines) or self.pool.asking) and now() < until:
            time.sleep(0.005)
        await self.finish_cleanups(until)

    async def finish_cleanups(self, until: float) -> None:
        """Wait for the threads that do them, until an instant at most."""
        self._cleanups.finish(until)

    async def hang_up(self, until: float, *, release: bool) -> None:
        """Close the connections, and end the renewal thread."""
        self.pool.close()
        self._renewal_thread.stop(until)

    def after_fork(self) -> None:
        """In a child: everything here was the parent's."""
        self.pool.drop()
        self._renewal_thread.close_pipe()
        self._start()


class LossCallbacks:
    """Calls ``on_lost`` in threads: no callback waits for another, and no renewal for a callback.

    A thread goes on with the next callback as long as they are quick, so that a few threads notify
    of a hundred thousand losses; each callback that blocks costs one thread. The threads end with
    the last loss. They are started outside the mutex: a starting thread may collect garbage, and
    need the mutex. There, too, they are asked whether they have ended: see cleanup_queue.py.
    """

    def __init__(self) -> None:
        self._untold: deque[Hold] = deque()
        self._lock = mutexes.mutex()
        self._spare: set[threading.Thread] = set()  # threads outside a callback
        self._busy: set[threading.Thread] = set()  # threads inside a callback

    def add(self, hold: Hold) -> None:
        """Have the holder notified of a loss."""
        with self._lock:
            self._untold.append(hold)
        self._see_to_it()

    def _see_to_it(self) -> None:
        """Start a thread unless one is about to run. An interrupt may leave one unstarted.

        If none can be started, call ``on_lost`` here, unless a thread inside a callback goes on.
        """
        thread = threading.Thread(target=self._run, name="fencelock-on-lost")
        with self._lock:
            spare = tuple(self._spare)
        if any(each.is_alive() for each in spare):  # gevent may run others while that is asked
            return
        with self._lock:
            self._spare = {thread}
        trouble = started(thread)
        if trouble is None:
            return
        with self._lock:
            busy = tuple(self._busy)
        others = any(each.is_alive() for each in busy)
        with self._lock:
            holds = () if others else tuple(self._untold)
            if not others:
                self._untold.clear()
        for hold in holds:
            _notify(hold)
        what = "waits for another on_lost" if others else "delays its caller"
        log.warning("no thread can be started: on_lost %s: %s", what, trouble)

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                self._spare.discard(me)
                if not self._untold:
                    return
                hold = self._untold.popleft()
                self._busy.add(me)
                more = bool(self._untold)
            with suppress(Exception):  # out of memory: then this thread calls the others, too
                if more:
                    self._see_to_it()
            _notify(hold)
            with self._lock:
                self._busy.discard(me)
                self._spare.add(me)


def _notify(hold: Hold) -> None:
    if not hold.is_first_to("tell"):
        return
    try:
        hold.terms.options.on_lost(hold)
    except BaseException:  # also sys.exit(): others wait for this thread
        log.exception("on_lost of %r raised", hold.name)
