"""Show the state of the embedded server, and stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

from fencelock._runtime.server_info import facts
from fencelock.embedded import liveness_lock, wire
from fencelock.embedded.runtime_dir import RuntimeDir, find
from fencelock.errors import ServerUnreachable

from .binaries import find_binary

# A healthy server answers in microseconds; one that is silent for so long is not healthy.
_TIMEOUT = 1.0
_PAUSE = 0.005


@dataclass(frozen=True)
class Status:
    """The embedded server at one moment.

    ``running``: the kernel says that it is alive; ``answering``: it also replies. ``version`` and
    ``binary`` are what the running server reports, or those of the program that would be started;
    empty when neither is known. ``pid`` is None when no process listens, or when the system does
    not report it.
    """

    running: bool
    answering: bool
    pid: int | None
    url: str
    directory: str
    log: str
    version: str
    binary: str


def status() -> Status:
    """Return the state of the embedded server; starts nothing, and takes at most about a second.

    Raises:
        ServerDenied: other users can use the directory.
        ValueError: ``FENCELOCK_DIR`` is not absolute.
    """
    paths = find(create=False)
    running = liveness_lock.held(paths.alive)
    reply = wire.ask(paths.socket, b"INFO", b"server", deadline=time.monotonic() + _TIMEOUT)
    told = facts(reply.answer)
    kinds = ("valkey_version", "redict_version", "redis_version")  # all have the last
    version = next((told[kind] for kind in kinds if kind in told), "")
    binary = told.get("executable", "")
    if not running and not told:
        with contextlib.suppress(ServerUnreachable):
            would_start = find_binary()
            version, binary = would_start.version, would_start.path
    return Status(
        running=running or bool(told),
        answering=bool(told),
        pid=reply.pid,
        url=paths.url,
        directory=paths.directory,
        log=paths.log,
        version=version,
        binary=binary,
    )


def stop(*, timeout: float = 10.0) -> bool:
    """Stop the embedded server; its data stays, and the next ``ensure`` starts it again.

    Asks it to shut down. A server that does not answer within a second, or refuses, gets SIGTERM
    (and SIGCONT, in case it is stopped), never SIGKILL.

    Args:
        timeout: seconds to wait for it to end. The default leaves room for a last sync of the log.

    Returns:
        True once it has ended; False when none was running.

    Raises:
        ServerUnreachable: it is still alive at the end of the timeout.
        ServerDenied: other users can use the directory.
        ValueError: a negative timeout, or ``FENCELOCK_DIR`` is not absolute.
    """
    if not timeout >= 0:
        raise ValueError(f"timeout must not be negative, got {timeout!r}")
    deadline = time.monotonic() + timeout
    paths = find(create=False)
    if not liveness_lock.held(paths.alive):
        return False
    pid = _tell_to_end(paths, deadline)
    while not _ended(paths, pid):
        if time.monotonic() >= deadline:
            raise ServerUnreachable(
                f"the embedded server in {paths.directory} (pid {pid or 'unknown'}) is still"
                f" running: see {paths.log}"
            )
        time.sleep(_PAUSE)
        if pid is None:  # it was not listening yet
            pid = _tell_to_end(paths, deadline)
    return True


def _tell_to_end(paths: RuntimeDir, deadline: float) -> int | None:
    """Ask the server to shut down, or signal it; return its pid, None when no process listens.

    NOSAVE skips the snapshot, which we never keep; the log is completed either way. With it, even
    a server that is busy with a script obeys.
    """
    within = min(deadline, time.monotonic() + _TIMEOUT)
    reply = wire.ask(paths.socket, b"SHUTDOWN", b"NOSAVE", deadline=within)
    if reply.pid is not None and not reply.closed:
        # The kernel reported this pid a moment ago; no file was read that may be out of date.
        with contextlib.suppress(ProcessLookupError):
            os.kill(reply.pid, signal.SIGTERM)
            os.kill(reply.pid, signal.SIGCONT)
    return reply.pid


def _ended(paths: RuntimeDir, pid: int | None) -> bool:
    """Return True if the server that we asked to end is gone, even if the next one has started."""
    if not liveness_lock.held(paths.alive):
        return True
    if pid is None:
        return False
    reply = wire.ask(paths.socket, b"PING", deadline=time.monotonic())
    return reply.pid not in (None, pid)
