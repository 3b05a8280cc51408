"""ensure(): attach to the running server, or start exactly one.

Rules:

- Only the process that holds the claim (see liveness_lock.py) starts a server, and only if no
  process answered on the socket while it held the claim. The second condition guards against an
  ``alive`` file that was removed while its server ran.
- Nor if a server lives in another directory of the user, where some processes look first.
- Silence never proves death: a stopped, loading or busy server is waited for, until the deadline.
- A process that waits also watches the lock. When the server dies meanwhile, one of the waiting
  processes starts the next, within its own deadline.
"""

# Paths are plain strings here: sockets and flock need their bytes, and links are not followed.

from __future__ import annotations

import os
import time

from fencelock._io.wire import ReplyError
from fencelock.embedded import liveness_lock, wire
from fencelock.embedded.policy import refuse_start
from fencelock.embedded.runtime_dir import RuntimeDir, find, lives_elsewhere
from fencelock.errors import ServerDenied, ServerUnreachable

_PAUSE_MIN = 0.0005
_PAUSE_MAX = 0.02

# A server that ended right after we started it may have been killed from outside. After so many
# starts the cause is the server itself.
_STARTS_MAX = 5


def ensure(*, timeout: float = 10.0) -> str:
    """Return the URL of a live embedded server, starting one if none is running.

    Attaching to a running server takes some tens of microseconds, starting one some tens of
    milliseconds. However many processes call this at once, one server runs afterwards. It keeps
    running when they end.

    Args:
        timeout: seconds to wait for the server to answer. The default covers reading back a large
            log on a slow disk; a start usually takes a hundredth of it.

    Raises:
        ServerUnreachable: no server may be started here (container, FENCELOCK_EMBEDDED=0, Windows),
            none is installed, it ended while starting, or it is alive but did not answer in time.
        ServerDenied: other users can use the directory, or another user's server answers.
        ValueError: a negative timeout, a relative FENCELOCK_DIR, or a bad FENCELOCK_EMBEDDED.
    """
    if not timeout >= 0:
        raise ValueError(f"timeout must not be negative, got {timeout!r}")
    deadline = time.monotonic() + timeout
    refuse_start()
    paths = find(create=True)
    starts: list[int] = []
    pause, said = _PAUSE_MIN, None
    while True:
        reply = wire.ask(paths.socket, b"PING", deadline=deadline)
        said = (reply.answer or said) if reply.listening else None
        if _answers(reply, paths):
            if starts:
                _report(paths, reply.pid, starts[-1])
            return paths.url
        if not reply.listening:
            _start(paths, starts, deadline)
            paths = find(create=True)  # one may live elsewhere since then
        left = deadline - time.monotonic()
        if left <= 0:
            raise ServerUnreachable(_silence(paths, reply._replace(answer=said), starts))
        time.sleep(min(pause, left))
        pause = min(pause * 2, _PAUSE_MAX)


def _report(paths: RuntimeDir, pid: int | None, begin: int) -> None:
    """Log that we started a server, and what it keeps of us."""
    from fencelock._runtime.log import log

    from .launch import kept

    text = "started an embedded server (pid %s) in %s: no server is configured"
    log.info(text, pid, paths.directory)
    if keeps := kept(paths, begin):
        log.warning("%s (embedded server, pid %s)", keeps.removeprefix("fencelock: "), pid)


def _answers(reply: wire.Reply, paths: RuntimeDir) -> bool:
    if reply.uid is not None and reply.uid != os.geteuid():
        raise ServerDenied(
            f"{paths.socket} is answered by a process of user {reply.uid}, not by this user's"
        )
    if isinstance(reply.answer, ReplyError) and str(reply.answer).startswith(("NOAUTH", "NOPERM")):
        raise ServerDenied(
            f"the embedded server in {paths.directory} asks for a password", code="NOAUTH"
        )
    return bool(reply.answer == b"PONG")


def _start(paths: RuntimeDir, starts: list[int], deadline: float) -> None:
    """Start a server if none is alive; add the log offset where it begins to ``starts``."""
    claim = liveness_lock.take(paths.alive)
    if claim is None:
        return
    with claim:
        if len(starts) >= _STARTS_MAX:
            raise ServerUnreachable(_failure(paths, starts[-1]))
        if wire.ask(paths.socket, b"PING", deadline=deadline).listening or lives_elsewhere(paths):
            return
        # Imported here: a process that only attaches needs neither subprocess nor the search.
        from . import binaries, launch

        multipart = os.path.isdir(os.path.join(paths.directory, "appendonlydir"))
        binary = binaries.choose(deadline, multipart=multipart)
        begin = launch.spawn(paths, binary, claim.fd, deadline, again=bool(starts))
        starts.append(begin)


def _silence(paths: RuntimeDir, reply: wire.Reply, starts: list[int]) -> str:
    who = f"the embedded server in {paths.directory}"
    if reply.listening:
        return (
            f"{who} is alive (pid {reply.pid or 'unknown'}) but not answering: "
            f"{reply.answer or 'no reply; it is stopped or busy'}. "
            "No second server is started, because it would grant the same locks again."
        )
    if liveness_lock.held(paths.alive):
        return (
            f"{who} is alive (pid unknown) but not answering: no server listens on {paths.socket}. "
            f"It is starting or ending, or it has another /tmp; see {paths.log}"
        )
    return (
        _failure(paths, starts[-1]) if starts else f"{who} did not start in time; see {paths.log}"
    )


def _failure(paths: RuntimeDir, begin: int) -> str:
    from .launch import tail

    printed = tail(paths, begin)
    return f"the embedded server in {paths.directory} ended while starting; it printed:\n{printed}"
