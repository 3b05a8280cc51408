"""Clean-ups of the blocking port: sent at once, answered in the background.

An undo must not overtake the request that it undoes: a frozen server reads what it was sent in
order, connection by connection. So it goes out on the same connection, right behind the request,
from the thread that gives up; only its answer is waited for elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple, Protocol
from weakref import ref

from fencelock._core.types import Args, Keys, NoReply
from fencelock._io.connection_blocking import Connection
from fencelock._io.run_blocking import run_blocking
from fencelock._io.wire import ReplyError, not_now, pack_source
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex, started
from fencelock.scripts import Script

# How long a clean-up is tried: a default lease has ended by itself by then.
CLEANUP_SECONDS = 30.0
# How long the connection of the request gets to answer before another one is tried as well: the
# copy behind the request stays there and keeps its order.
UNDO_SECONDS = 2.0
# Threads that see to clean-ups at once; a silent server may hold up each for a while.
WORKERS_MAX = 4
# How long a thread tries that does it by itself, as no other can be started.
HERE_SECONDS = 1.0


class Delivers(Protocol):
    """A port that carries a clean-up out."""

    async def deliver(self, script: Script, keys: Keys, args: Args, until: float) -> None:
        """Repeat it until it is answered, or until the instant."""

    def settles(self, connection: Connection, key: bytes, asked_at: float) -> bool:
        """Return True if an answer on a connection counts: it came from the server of the key."""


class Job(NamedTuple):
    """One request to deliver."""

    script: Script
    keys: Keys
    args: Args
    undo_connection: Connection | None
    until: float
    asked_at: float


class CleanupQueue:
    """Jobs and the few threads that see to them; they end with the last job.

    Only a running thread keeps the port alive. A signal's exception may strike at any instant of
    ``add``: so which threads there are is seen from the threads, and each counts itself. They are
    started outside the mutex: a thread that starts may collect garbage, and need it.
    """

    def __init__(self, port: Delivers) -> None:
        self._ref = ref(port)
        self._jobs: deque[Job] = deque()
        self._lock = mutex()
        self._workers: set[threading.Thread] = set()

    def add(
        self, script: Script, keys: Keys, args: Args, undo_connection: Connection | None
    ) -> None:
        """Send behind the trail, and have the answer seen to."""
        if undo_connection is not None and not _sent_behind(undo_connection, script, keys, args):
            undo_connection = None
        asked_at = now()
        job = Job(script, keys, args, undo_connection, asked_at + CLEANUP_SECONDS, asked_at)
        with self._lock:
            # What was not sent yet comes first: the others only wait for an answer.
            (self._jobs.append if undo_connection else self._jobs.appendleft)(job)
        self._see_to_it()

    def _see_to_it(self) -> None:
        """Start a thread unless there are enough; where none can be started, do it here."""
        with self._lock:
            self._workers = {each for each in self._workers if each.is_alive()}
            enough = len(self._workers) >= WORKERS_MAX
        port = self._ref()
        if port is None or enough:
            return
        thread = threading.Thread(
            target=self._run, args=(port,), name="fencelock-posts", daemon=True
        )
        trouble = started(thread)
        if trouble is not None:
            log.info("the calling thread does a clean-up itself: %s", trouble)
            self._do_here(port)

    def _do_here(self, port: Delivers) -> None:
        """Do what there is to do in this thread, but not for long: it has other things to do."""
        until = now() + HERE_SECONDS
        while (job := self._next()) is not None:
            _do(port, job._replace(until=min(job.until, until)))

    def finish(self, until: float) -> None:
        """Wait until all jobs are done, or until the instant."""
        with self._lock:
            idle = bool(self._jobs) and not self._workers
        if idle:
            self._see_to_it()
        while now() < until:
            with self._lock:
                workers = [each for each in self._workers if each.is_alive()]
                if not workers and not self._jobs:
                    return
            for each in workers:
                each.join(max(0.0, until - now()))
            if not workers:  # one is about to begin
                time.sleep(0.001)

    def _next(self) -> Job | None:
        with self._lock:
            return self._jobs.popleft() if self._jobs else None

    def _run(self, port: Delivers) -> None:
        me = threading.current_thread()
        with self._lock:
            if len(self._workers) >= WORKERS_MAX:
                return
            self._workers.add(me)
        while True:
            with self._lock:
                if not self._jobs:
                    self._workers.discard(me)
                    return
                job = self._jobs.popleft()
            _do(port, job)


def _do(port: Delivers, job: Job) -> None:
    if job.undo_connection is not None and _settled(port, job, job.undo_connection):
        return
    run_blocking(port.deliver(job.script, job.keys, job.args, job.until))


def _settled(port: Delivers, job: Job, undo_connection: Connection) -> bool:
    """Return True if the answer came behind the request, and counts."""
    answered = _answered(undo_connection, min(job.until, now() + UNDO_SECONDS))
    return answered and port.settles(undo_connection, job.keys[0], job.asked_at)


def _sent_behind(undo_connection: Connection, script: Script, keys: Keys, args: Args) -> bool:
    """Send on the connection that a request went on; with the source, as NOSCRIPT cannot be met."""
    undo_connection.sound, undo_connection.undoing = False, True  # for nothing but this
    try:
        undo_connection.send(pack_source(script, keys, args))
    except (NoReply, OSError):
        return False
    return True


def _answered(undo_connection: Connection, until: float) -> bool:
    """Read all answers that a connection owes, and close it; False when they did not come."""
    try:
        while undo_connection.owed:
            try:
                undo_connection.answer(until)
            except ReplyError as error:
                if undo_connection.owed == 0:
                    return not not_now(error)
    except NoReply:
        return False
    finally:
        undo_connection.close()
    return True
