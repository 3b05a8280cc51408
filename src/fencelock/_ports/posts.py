"""Clean-ups of the blocking port: sent at once, answered in the background.

An undo must not overtake the request that it undoes: a frozen server reads what it was sent in
order, connection by connection. So it goes out on the same connection, right behind the request,
from the thread that gives up; only its answer is waited for elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from fencelock._core.port import Args, Broken, Keys
from fencelock._transport.direct import Connection
from fencelock._transport.wire import ReplyError, pack_source
from fencelock.clock import now
from fencelock.scripts import Script

if TYPE_CHECKING:
    from fencelock._ports.blocking import BlockingPort

# How long a clean-up is tried: a default lease has ended by itself by then.
POST_SECONDS = 30.0


class Job(NamedTuple):
    """One request to deliver."""

    script: Script
    keys: Keys
    args: Args
    trail: Connection | None
    until: float


class Posts:
    """Jobs and the thread that sees to them; it ends with the last job.

    Only the running thread keeps the port alive.
    """

    def __init__(self, port: BlockingPort) -> None:
        self._ref = ref(port)
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._running = False

    def add(self, script: Script, keys: Keys, args: Args, trail: Connection | None) -> None:
        """Send behind the trail, and have the answer seen to."""
        if trail is not None and not _sent_behind(trail, script, keys, args):
            trail = None
        with self._changed:
            self._jobs.append(Job(script, keys, args, trail, now() + POST_SECONDS))
            if self._running:
                return
            self._running = True
        port = self._ref()
        threading.Thread(
            target=self._run, args=(port,), name="fencelock-posts", daemon=True
        ).start()

    def finish(self, until: float) -> None:
        """Wait until all jobs are done, or until the instant."""
        with self._changed:
            while self._running and now() < until:
                self._changed.wait(until - now())

    def _run(self, port: BlockingPort) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    self._running = False
                    self._changed.notify_all()
                    return
                job = self._jobs.popleft()
            _do(port, job)


def _do(port: BlockingPort, job: Job) -> None:
    from fencelock._ports.blocking import run_blocking  # noqa: PLC0415 - they need each other

    if job.trail is not None and _answered(job.trail, job.until):
        return
    run_blocking(port.deliver(job.script, job.keys, job.args, job.until))


def _sent_behind(trail: Connection, script: Script, keys: Keys, args: Args) -> bool:
    """Send on the connection that a request went on; with the source, as NOSCRIPT cannot be met."""
    try:
        trail.send(pack_source(script, keys, args))
    except (Broken, OSError):
        return False
    return True


def _answered(trail: Connection, until: float) -> bool:
    """Read all answers that a connection owes, and close it; False when they did not come."""
    try:
        while trail.owed:
            try:
                trail.answer(until)
            except ReplyError as error:
                if trail.owed == 0:
                    return not str(error).startswith(("LOADING", "BUSY"))
    except Broken:
        return False
    finally:
        trail.close()
    return True
