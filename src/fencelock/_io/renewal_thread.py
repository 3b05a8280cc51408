"""The one thread of a client that renews its leases, hears revocations and notifies of losses.

It starts with the first lease, or with the first waiter in line, so that a handoff does not wait
for a new thread. It sleeps until the next lease is due, and ends when there has been no waiter and
no lease for a while, or when its client was dropped: an idle client has no thread (I10).

Rules of this file:

- Nothing ends the thread while there are leases (I16): whatever is raised in it, by the machine or
  by code of the user's, it pauses, logs that, and goes on.
- Only the running thread registers itself. One that is dead all the same is seen by the next lease.
- What it can do without, it does without: descriptors for its pipe or a connection that listens.
- It does not keep its port alive while it rests: a client that is dropped ends it at once.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from functools import partial
from math import inf
from weakref import ref

from fencelock._core.deadlines import PING_SECONDS, PONG_SECONDS, QUIET_SECONDS, retry_delay
from fencelock._core.lock.maintain import Renewer
from fencelock._core.round_trips import FIRST_TRIPS
from fencelock._core.types import NoReply
from fencelock._io.bounded_call import Work, WorkClaim, under_way
from fencelock._io.connect import is_master
from fencelock._io.connection_blocking import Connection
from fencelock._io.poll import POLLIN, poller
from fencelock._io.threads import run_blocking
from fencelock._runtime import descriptors
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import catch_up, mutex, started
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import FencelockError

if TYPE_CHECKING:
    from fencelock._io.port_blocking import BlockingPort

# How long the thread stays without a lease: locks taken in a row then share one thread.
LINGER_SECONDS = 1.0
# A lease held longer than this gets a connection that hears revocations; shorter ones cost none.
LISTEN_AFTER_SECONDS = 0.2
CONNECT_SECONDS = 1.0  # on a near network
EAR = "fencelock-ear"
PAUSE_SECONDS = 1.0  # before another takes over from a thread that ended all the same
# Without a pipe nothing can wake the thread: it looks so often.
PIPELESS_SECONDS = 0.05


class RenewalThread:
    """Starts, wakes and ends the thread. Only one that works keeps the port alive."""

    def __init__(self, port: BlockingPort) -> None:
        self._ref = ref(port)
        self._lock = mutex()
        self._thread: threading.Thread | None = None
        self.wakes_at: float = inf  # at the latest; never without a thread
        self._pipe: tuple[socket.socket, socket.socket] | None = None
        self._idle_since: float | None = None
        self._rests_until = 0.0  # or until it is called; 0.0: it has work
        self._ear: Connection | None = None
        self._opening: WorkClaim[Connection] | None = None  # the next one is being opened
        self._ask_at = inf  # whether the ear is alive
        self._dials = -1  # of its pool, when it was last seen to lead to a master
        self._deaf_until = 0.0
        self._eager = False  # listening does not wait until a lease lasts
        self._refused_until = 0.0  # not so eagerly again: perhaps the user may not listen
        self.hears: bool = False  # the client's channel is listened to

    def hear_soon(self) -> None:
        """Have the thread listen now: a lease may be recalled."""
        if not self._eager and now() >= self._refused_until:
            self._eager = True
            self.mind(now())

    def start_soon(self) -> None:
        """Start the thread: a waiter is in line, and its lease may come at any moment.

        If it cannot be started, ``mind`` says so when the lease is there.
        """
        if self._thread is None:
            self.mind(now())

    def mind(self, when: float) -> RuntimeError | None:
        """Have the thread awake by ``when``; return the error if it cannot be started."""
        if self._thread is not None and when >= self.wakes_at:
            return None
        ended = self._ended()
        with self._lock:
            up = self._thread is not None and self._thread is not ended
            if up and when < self.wakes_at:
                self.wakes_at = when
                self._nudge()
        return None if up else self._start()

    def _start(self) -> RuntimeError | None:
        """Start the thread outside the mutex: while it starts it may collect garbage, and need it.

        It registers itself: an interrupt may leave it unstarted, or running and not yet seen.
        """
        if self._pipe is None:
            self._lay_pipe()
        thread = threading.Thread(target=self._run, name="fencelock-leases")
        trouble = started(thread)
        with self._lock:
            if trouble is not None and self._thread is None:
                self.close_pipe()
        return trouble

    def _ended(self) -> threading.Thread | None:
        """Return the thread that is registered if it has ended.

        Never asked inside the mutex: gevent lets other greenlets run meanwhile.
        """
        thread = self._thread
        return None if thread is None or thread.is_alive() else thread

    def _registered(self) -> bool:
        """Register this thread as the renewal thread; False when there is another."""
        me, ended = threading.current_thread(), self._ended()
        with self._lock:
            if self._thread is None or self._thread is ended:
                self.wakes_at = 0.0
                self._thread = me
            return self._thread is me

    def _lay_pipe(self) -> None:
        """Have a pipe that wakes the thread; without a free descriptor it tries again each round.

        It is one of sockets: Windows waits for nothing else.
        """
        try:
            near, far = socket.socketpair()
        except OSError as error:
            log.debug("the thread that renews leases looks often: nothing can wake it: %s", error)
            return
        pipe = descriptors.own(near), descriptors.own(far)
        far.settimeout(0)
        with self._lock:  # another thread may be quicker
            spare, self._pipe = (pipe, self._pipe) if self._pipe else ((), pipe)
        for end in spare:
            end.close()

    def stop(self, until: float) -> None:
        """End the thread at once if there are no leases; wait for it until the instant."""
        with self._lock:
            thread = self._thread
            if thread is None:
                return
            self._nudge()
        if thread is not threading.current_thread() and thread.is_alive():
            thread.join(max(0.0, until - now()))

    def _nudge(self) -> None:
        pipe = self._pipe
        if pipe is not None:
            with suppress(OSError):  # it is full: that wakes the thread as well
                pipe[1].send(b"!")

    def orphan(self) -> None:
        """Wake the thread as its port is dropped; a finalizer calls it, which takes no mutex."""
        self._nudge()

    def _run(self) -> None:
        """Renew leases until there are none for a while.

        What a hook raises ends nothing, also sys.exit(), or what a debugger raises in a thread. If
        that ends the thread all the same, another takes over after a pause.
        """
        try:
            self._renew_all()
        finally:
            port = self._ref()
            with self._lock:
                died = self._thread is threading.current_thread()
                if died:
                    self._thread, self.wakes_at = None, inf
            if port is None:
                self._hang_up()
                self.close_pipe()
            elif died and port.renewals.busy:
                time.sleep(PAUSE_SECONDS)
                self._start()

    def _renew_all(self) -> None:
        self._idle_since, failures = None, 0
        while (port := self._ref()) is not None:
            self._rests_until = 0.0
            try:
                if not self._registered() or self._round(port):
                    return
                del port
                if self._rests_until:
                    self._rest()
                failures = 0
            except BaseException:
                failures += 1
                time.sleep(retry_delay(failures, 1.0))
                self._hang_up()
                log.exception("renewing leases failed; retrying")

    def _round(self, port: BlockingPort) -> bool:
        """Do what is due, or rest until then; True once the thread has ended for want of leases."""
        if self._pipe is None:
            self._lay_pipe()
        catch_up()
        with port.mutex:
            next_at = port.renewals.next_at()
        current = now()
        if next_at is None and (len(port.lines) or port.renewals.under_way):
            self._idle_since, next_at = None, current + LISTEN_AFTER_SECONDS
        elif next_at is None:
            self._idle_since = self._idle_since or current
            if self._ends(port, current - self._idle_since):
                return True
            next_at = self._idle_since + LINGER_SECONDS
        else:
            self._idle_since = None
        if next_at > current:
            self._prepare_rest(port, next_at)
        else:
            run_blocking(port.maintain())
            run_blocking(port.warn_of_eviction())
        return False

    def _ends(self, port: BlockingPort, idle: float) -> bool:
        """End the thread when it lingered long enough and nothing came in the meantime."""
        if idle < LINGER_SECONDS and not port.pool.closed:
            return False
        with self._lock:
            if port.renewals.busy or len(port.lines):
                return False
            self._thread, self.wakes_at = None, inf
            self._hang_up()
            self.close_pipe()
            return True

    def close_pipe(self) -> None:
        """Close the thread's descriptors; a child of a fork has those of its parent's thread."""
        pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            descriptors.close(end)

    def _prepare_rest(self, port: BlockingPort, until: float) -> None:
        """Have the thread rest until the instant, unless there is work."""
        ear = self._listening(port, until)
        try:
            until = until if ear is None else min(until, self._silent_at(port, ear))
        except NoReply:
            self._hang_up()
            # The next one does not hear what this one should have.
            run_blocking(Renewer(port).recheck())
            return
        # In short sleeps, so that a handed-over lease need not wake us.
        short = ear is None or len(port.lines)
        until = min(until, now() + (LISTEN_AFTER_SECONDS if short else REST_SECONDS))
        with self._lock:
            self.wakes_at = until
        with port.mutex:
            sooner = port.renewals.next_at()
        if sooner is not None and sooner < until:
            return  # added after this check, before ``mind`` could see when we wake
        self._rests_until = until

    def _rest(self) -> None:
        """Sleep until the instant, a nudge, or a revocation."""
        pipe, ear = self._pipe, self._ear
        left = max(0.0, self._rests_until - now())
        try:
            if pipe is None:
                time.sleep(min(left, PIPELESS_SECONDS))
                if ear is not None:
                    ear.settle()
                return
            if ear is not None and ear.readable(pipe[0].fileno(), left):
                ear.settle()
                self._ask_at = max(self._ask_at, now() + QUIET_SECONDS)
                return
        except NoReply:
            self._hang_up()
            return
        poll = poller()
        poll.register(pipe[0], POLLIN)
        if poll.poll(0 if ear is not None else left * 1000):
            if descriptors.is_lost(pipe[0]):
                self.close_pipe()  # the next round lays another
            else:
                pipe[0].recv(4096)

    def _silent_at(self, port: BlockingPort, ear: Connection) -> float:
        """Ask a quiet ear whether it is alive; return when it is given up. NoReply when it is now.

        Not while each lease is renewed, or ends, so soon that it need not hear of a revocation.
        """
        current = now()
        pong = port.trips.within(PONG_SECONDS)
        if ear.pinged_at and current >= ear.pinged_at + pong:
            ear.settle()  # this process may have been stopped meanwhile
            if ear.pinged_at:
                raise NoReply("the connection that listens is silent", sent=True)
        if not ear.pinged_at and current >= self._ask_at:
            self._ask_at = current + PING_SECONDS
            with port.mutex:
                lasts = port.renewals.lasts(current + PING_SECONDS)
            if lasts:
                ear.ping(current)
        return ear.pinged_at + pong if ear.pinged_at else inf

    def _listening(self, port: BlockingPort, until: float) -> Connection | None:
        """Return the connection that hears revocations, opened once a lease lasts.

        It is opened in a thread of its own: a far server takes its time, and renewals do not wait.
        """
        current = now()
        if self._ear is not None and not self._leads(port, self._ear):
            port.pool.give(self._ear)  # it drops the idle ones, too
            self._ear, self.hears = None, False
        if self._ear is not None:
            return self._ear
        if self._opening is not None:
            return self._opened(port)
        eager, self._eager = self._eager, False
        if port.nodes or not (eager or port.renewals.busy):
            return None
        if self._deaf_until == 0.0:
            self._deaf_until = current + LISTEN_AFTER_SECONDS
        if not eager and (current < self._deaf_until or until - current < LISTEN_AFTER_SECONDS):
            return None
        self._deaf_until = current + CONNECT_SECONDS * 2
        opening: WorkClaim[Connection] = WorkClaim(self._wake)
        self._opening = opening
        under_way.claim(
            self, lambda: Work(partial(_listener, port), Connection.close), EAR, opening
        )
        return None

    def _opened(self, port: BlockingPort) -> Connection | None:
        """Take the connection that was being opened; None while it is, or when it could not be."""
        opening = self._opening
        if opening is None or opening.work is None or not opening.work.ended:
            return None
        self._opening = None
        try:
            self._ear = opening.result()
        except (NoReply, FencelockError):
            self._refused_until = now() + CONNECT_SECONDS * 2
            return None
        self.hears, self._ask_at, self._dials = True, now() + QUIET_SECONDS, -1
        run_blocking(Renewer(port).recheck())
        return self._ear

    def _leads(self, port: BlockingPort, ear: Connection) -> bool:
        """Return False if a listening connection is of no use: it is lost, or leads to a replica.

        It asks nothing, so it finds no such thing by itself. It is looked at when it begins to
        listen, and after another one was opened: by then the address may lead to another server.
        """
        dials = port.pool.of_node(ear).dials if ear.sound and ear.mastered else self._dials
        if dials != self._dials:
            self._dials = dials
            until = now() + port.trips.within(CONNECT_SECONDS)
            with suppress(NoReply, FencelockError):
                ear.sound = is_master(ear.command((b"HELLO",), until))
        return ear.sound

    def _wake(self) -> None:
        with self._lock:
            self._nudge()

    def _hang_up(self) -> None:
        ear, self._ear = self._ear, None
        opening, self._opening = self._opening, None
        self.hears, self._deaf_until = False, 0.0
        if opening is not None:
            under_way.leave(self, opening, EAR)
        if ear is not None:
            with suppress(OSError):  # it was reset
                ear.close()


def _listener(port: BlockingPort) -> Connection:
    """Return a connection that hears revocations; the last idle one stays for other requests."""
    until = now() + port.trips.within(CONNECT_SECONDS, FIRST_TRIPS)
    ear = port.take_any(until)
    pool = port.pool.of_node(ear)
    if not pool.free:
        pool.give(ear)
        ear = pool.dial(until)
    try:
        ear.subscribe(port.client_channel, until)
    except BaseException:
        ear.close()
        raise
    return ear
