"""Clean-ups of the blocking port: sent at once, answered in the background.

An undo must not overtake the request that it undoes: a frozen server later reads its connections
one by one, each in order. So the undo is sent on the same connection, right after the request, by
the thread that gives up; only its answer is waited for elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from weakref import ref

from fencelock._core.types import Args, Keys, NoReply, Reply
from fencelock._io.connection_blocking import Connection
from fencelock._io.pool_blocking import cleaning_up
from fencelock._io.process_ports import ProcessPort
from fencelock._io.threads import run_blocking
from fencelock._io.wire import ReplyError, not_now
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex, started
from fencelock._runtime.records import NamedTuple
from fencelock.scripts import Script, packed, with_source

# How long a clean-up is retried: a default lease has expired by then.
CLEANUP_SECONDS = 30.0
# How long the connection of the request gets to answer before another one is tried as well. The
# copy on the request's connection stays there and keeps its order.
UNDO_SECONDS = 2.0
# How many threads do clean-ups at once; a silent server may hold up each for a while.
WORKERS_MAX = 4
# How many of them wait for answers to what was sent already. An answer may never come, after Ctrl-C
# in the middle of a read: what was not sent yet must not wait behind it.
WAITING_MAX = WORKERS_MAX - 1
# After an error that is none of a server: then the clean-up is repeated.
PAUSE_SECONDS = 0.5
# How long the calling thread tries when no other thread can be started.
HERE_SECONDS = 1.0


class Job(NamedTuple):
    """One request to deliver."""

    script: Script
    keys: Keys
    args: Args
    undo_connection: Connection | None
    until: float
    asked_at: float


class CleanupQueue:
    """Jobs and the few threads that do them; the threads end with the last job.

    Only a running thread keeps the port alive. A signal handler may raise at any instant of
    ``add``, so each thread registers itself. Threads are started outside the mutex: a starting
    thread may collect garbage, and need the mutex. Whether one has ended is never asked inside it:
    gevent lets other greenlets run meanwhile.
    """

    def __init__(self, port: ProcessPort) -> None:
        self._ref = ref(port)
        self._jobs: deque[Job] = deque()
        self._lock = mutex()
        self._workers: set[threading.Thread] = set()
        self._waiting: set[threading.Thread] = set()  # those of them that wait for an answer

    def add(
        self, script: Script, keys: Keys, args: Args, undo_connection: Connection | None
    ) -> None:
        """Send on the undo connection, and have the answer read in the background."""
        if undo_connection is not None and not _sent_behind(undo_connection, script, keys, args):
            undo_connection = None
        asked_at = now()
        job = Job(script, keys, args, undo_connection, asked_at + CLEANUP_SECONDS, asked_at)
        with self._lock:
            # Jobs that were not sent yet come first: the others only wait for an answer.
            (self._jobs.append if undo_connection else self._jobs.appendleft)(job)
        self._see_to_it()

    def _see_to_it(self) -> None:
        """Start a thread unless there are enough; if none can be started, do the job here."""
        ended = {each for each in (*self._workers,) if not each.is_alive()}
        with self._lock:
            self._workers -= ended
            enough = len(self._workers) >= WORKERS_MAX
        port = self._ref()
        if port is None or enough:
            return
        thread = threading.Thread(target=self._run, args=(port,), name="fencelock-posts")
        trouble = started(thread)
        if trouble is not None:
            until = now() + HERE_SECONDS  # only for a short time: it has other work
            while (job := self._next()) is not None:
                _do(port, job._replace(until=min(job.until, until)))
            log.info("the calling thread did a clean-up itself: %s", trouble)

    def finish(self, until: float) -> None:
        """Wait until all jobs are done, or until the instant."""
        with self._lock:
            idle = bool(self._jobs) and not self._workers
        if idle:
            self._see_to_it()
        while now() < until:
            with self._lock:
                workers, jobs = [*self._workers], bool(self._jobs)
            workers = [each for each in workers if each.is_alive()]
            if not workers and not jobs:
                return
            for each in workers:
                each.join(max(0.0, until - now()))
            if not workers:  # one is about to begin
                time.sleep(0.001)

    def _next(self) -> Job | None:
        with self._lock:
            job = self._jobs.popleft() if self._jobs else None
        return job

    def _run(self, port: ProcessPort) -> None:
        me = threading.current_thread()
        with self._lock:
            if len(self._workers) >= WORKERS_MAX:
                return
            self._workers.add(me)
        while (job := self._next_for(me)) is not None:
            try:
                _do(port, job)
            except BaseException:  # of the machine, or of the user's code: the others go on (I16)
                time.sleep(PAUSE_SECONDS)
                if now() < job.until:
                    with self._lock:
                        self._jobs.append(job._replace(undo_connection=None))
                log.exception("a clean-up (%s) failed", job.script.name)

    def _next_for(self, worker: threading.Thread) -> Job | None:
        """Return what a worker does next; None when it is to end."""
        with self._lock:
            self._waiting = (self._waiting - {worker}) & self._workers
            job = self._jobs[0] if self._jobs else None
            waits = job is not None and job.undo_connection is not None
            if job is None or (waits and len(self._waiting) >= WAITING_MAX):
                self._workers.discard(worker)  # those that wait do the others afterwards
                return None
            if waits:
                self._waiting.add(worker)
            self._jobs.popleft()
        return job


def _do(port: ProcessPort, job: Job) -> None:
    sent_on = job.undo_connection
    if (
        sent_on is not None
        and _answered(sent_on, min(job.until, now() + UNDO_SECONDS))
        and port.settles(sent_on, job.keys[0], job.asked_at)
    ):
        return
    token = cleaning_up.set(True)
    try:
        run_blocking(port.deliver(job.script, job.keys, job.args, job.until))
    finally:
        cleaning_up.reset(token)


def _sent_behind(undo_connection: Connection, script: Script, keys: Keys, args: Args) -> bool:
    """Send on a request's connection; with the script's source, as NOSCRIPT cannot be handled.

    Not behind another clean-up, which reads all that comes: this one repeats it after an interrupt.
    """
    if undo_connection.undoing:
        return False
    undo_connection.sound, undo_connection.undoing = False, True  # for this undo only
    try:
        undo_connection.send(with_source(packed(script, keys, args)))
    except (NoReply, OSError):
        return False
    return True


def _answered(undo_connection: Connection, until: float) -> bool:
    """Read all answers that a connection owes, and close it; False when they did not come."""
    reply: Reply = None
    try:
        while undo_connection.owed:
            reply = undo_connection.answer(until)
    except NoReply:
        return False
    finally:
        undo_connection.close()
    return not (isinstance(reply, ReplyError) and not_now(reply))
