"""The one thread of a client that renews its leases, hears revocations and notifies of losses.

It starts with the first lease, or with the first waiter in line, so that a handoff does not wait
for a new thread. It sleeps until the next lease is due, and ends when there has been no waiter and
no lease for a while: an idle client has no thread (I10).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Protocol
from weakref import ref

from fencelock._core.lock.maintain import recheck
from fencelock._core.port import Port
from fencelock._core.round_trips import FIRST_TRIPS
from fencelock._core.types import NoReply
from fencelock._io.bounded_call import Work, WorkClaim, under_way
from fencelock._io.connection_blocking import Connection
from fencelock._io.poll import POLLIN, poller
from fencelock._io.pool_blocking import Pool
from fencelock._io.threads import run_blocking
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import catch_up, mutex, started
from fencelock.errors import FencelockError

# How long the thread stays without a lease: locks taken in a row then share one thread.
LINGER_SECONDS = 1.0
# A lease held longer than this gets a connection that hears revocations; shorter ones cost none.
LISTEN_AFTER_SECONDS = 0.2
CONNECT_SECONDS = 1.0  # on a near network
EAR = "fencelock-ear"
PAUSE_SECONDS = 1.0  # after a bug: the thread must neither end nor spin


class RenewedPort(Port, Protocol):
    """A port whose leases the thread renews."""

    nodes: Sequence[Any]  # of a quorum: they have threads of their own, which hear revocations

    @property
    def pool(self) -> Pool:
        """Return its connections."""

    def take_any(self, until: float) -> Connection:
        """Return a connection that hears revocations once it listens; ends like ``Pool.take``."""


class RenewalThread:
    """Starts, wakes and ends the thread. Only the running thread keeps the port alive."""

    def __init__(self, port: RenewedPort) -> None:
        self._ref = ref(port)
        self._lock = mutex()
        self._thread: threading.Thread | None = None
        self._ended: threading.Thread | None = None  # the last one that ended
        self.wakes_at: float = inf  # at the latest; never without a thread
        self._pipe: tuple[socket.socket, socket.socket] | None = None
        self._ear: Connection | None = None
        self._opening: WorkClaim[Connection] | None = None  # the next one is being opened
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
        with self._lock:
            up = self._thread is not None
            if up and when < self.wakes_at:
                self.wakes_at = when
                self._nudge()
        return None if up else self._start()

    def _start(self) -> RuntimeError | None:
        """Start the thread outside the mutex: while it starts it may collect garbage, and need it.

        An interrupt may leave it unstarted, or running and not yet seen: it registers itself.
        """
        thread = threading.Thread(
            target=self._run, args=(self._ref(),), name="fencelock-leases", daemon=True
        )
        trouble = started(thread)
        if trouble is not None:
            return trouble
        with self._lock:
            if self._thread is None and thread is not self._ended:
                self.wakes_at = 0.0
                self._thread = thread
        return None

    def _registered(self) -> bool:
        """Register this thread as the renewal thread; False when there is another."""
        me = threading.current_thread()
        with self._lock:
            if self._thread is None:
                self.wakes_at = 0.0
                self._thread = me
            if self._thread is not me:
                self._ended = me
                return False
            if self._pipe is None:  # of sockets: Windows waits for nothing else
                self._pipe = socket.socketpair()
                self._pipe[1].settimeout(0)
            return True

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
        if self._pipe is not None:
            with suppress(BlockingIOError):  # it is full: that wakes the thread as well
                self._pipe[1].send(b"!")

    def _run(self, port: RenewedPort) -> None:
        """Renew leases until there are none for a while; another thread takes over from a dead one.

        What a hook raises ends nothing, also sys.exit(), or what a debugger raises in a thread.
        """
        try:
            self._renew_all(port)
        finally:
            with self._lock:
                died = self._thread is threading.current_thread()
                if died:
                    self._thread, self._ended = None, self._thread
                    self.wakes_at = inf
            if died and port.renewals.busy:
                self._start()

    def _renew_all(self, port: RenewedPort) -> None:
        idle_since = None
        while self._registered():
            catch_up()
            with port.mutex:
                next_at = port.renewals.next_at()
            current = now()
            if next_at is None and (len(port.lines) or port.renewals.under_way):
                idle_since, next_at = None, current + LISTEN_AFTER_SECONDS
            elif next_at is None:
                idle_since = idle_since or current
                if self._ends(port, current - idle_since):
                    return
                next_at = idle_since + LINGER_SECONDS
            else:
                idle_since = None
            try:
                if next_at > current:
                    self._rest(port, next_at)
                else:
                    run_blocking(port.maintain())
            except BaseException:
                log.exception("renewing leases failed; retrying")
                self._hang_up()
                time.sleep(PAUSE_SECONDS)

    def _ends(self, port: RenewedPort, idle: float) -> bool:
        """End the thread when it lingered long enough and nothing came in the meantime."""
        if idle < LINGER_SECONDS and not port.pool.closed:
            return False
        with self._lock:
            if port.renewals.busy or len(port.lines):
                return False
            self._thread, self._ended = None, self._thread
            self.wakes_at = inf
            self._hang_up()
            self.close_pipe()
            return True

    def close_pipe(self) -> None:
        """Close the thread's descriptors; a child of a fork has those of its parent's thread."""
        pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            end.close()

    def _rest(self, port: RenewedPort, until: float) -> None:
        """Sleep until the instant, a nudge, or a revocation."""
        ear = self._listening(port, until)
        # In short sleeps, so that a handed-over lease need not wake us.
        short = ear is None or len(port.lines)
        until = min(until, now() + (LISTEN_AFTER_SECONDS if short else REST_SECONDS))
        with self._lock:
            self.wakes_at = until
        with port.mutex:
            sooner = port.renewals.next_at()
        if sooner is not None and sooner < until:
            return  # added after this check, before ``mind`` could see when we wake
        pipe = self._pipe
        if pipe is None:
            return
        try:
            if ear is not None and ear.readable(pipe[0].fileno(), until - now()):
                ear.settle()
                return
        except NoReply:
            self._hang_up()
            return
        poll = poller()
        poll.register(pipe[0], POLLIN)
        if poll.poll(0 if ear is not None else max(0.0, until - now()) * 1000):
            pipe[0].recv(4096)

    def _listening(self, port: RenewedPort, until: float) -> Connection | None:
        """Return the connection that hears revocations, opened once a lease lasts.

        It is opened in a thread of its own: a far server takes its time, and renewals do not wait.
        """
        current = now()
        if self._ear is not None and self._ear.sound:
            return self._ear
        if self._ear is not None:
            self._ear.close()
            self._ear, self.hears = None, False
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

    def _opened(self, port: RenewedPort) -> Connection | None:
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
        self.hears = True
        run_blocking(recheck(port))
        return self._ear

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
            ear.close()


def _listener(port: RenewedPort) -> Connection:
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
