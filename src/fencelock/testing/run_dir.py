"""The directory of one test run, and the server that lives in it as long as the run.

Rules of this file:

- The process that began the run (with xdist, its controller) holds a FIFO open for writing. A small
  shell reads it; at its end it kills the server and removes the directory. So nothing stays behind,
  however the run ends.
- The server is started by the first process that needs it, under a lock; all others attach.
- It keeps nothing on disk, and answers on a Unix socket only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fencelock.embedded import wire
from fencelock.embedded.binaries import choose
from fencelock.errors import ServerUnreachable

READY_SECONDS = 10.0
END_SECONDS = 2.0
_PAUSE = 0.005
_PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_GUARD = '"$@" >server.log 2>&1 & cat >/dev/null; kill -9 $!; cd /; rm -rf "$FENCELOCK_RUN"'
# Each process of a run has a database of its own, and the run one for all.
DATABASES = 1024


class RunDirectory:
    """The directory of a run, held by the process that began it."""

    def __init__(self) -> None:
        if not hasattr(os, "mkfifo"):
            text = "fencelock.testing can start no server on this system: test with inactive()"
            raise ServerUnreachable(text)
        self.directory: Path = Path(tempfile.mkdtemp(prefix="fencelock-"))
        fifo = self.directory / "run"
        os.mkfifo(fifo, 0o600)
        self._end: int = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)

    def end(self) -> None:
        """End the server if there is one, and remove the directory."""
        os.close(self._end)
        until = time.monotonic() + END_SECONDS
        while (self.directory / "s").exists() and time.monotonic() < until:
            time.sleep(_PAUSE)
        shutil.rmtree(self.directory, ignore_errors=True)


def attach(directory: Path) -> Path:
    """Return the socket of the run's server, started if it does not run.

    Raises:
        ServerUnreachable: no server program is installed, or it does not start.
    """
    path = directory / "s"
    until = time.monotonic() + READY_SECONDS
    with _alone(directory):
        if not _answers(path):
            _start(directory, path, until)
    return path


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Exclude the other processes of the run from a block."""
    import fcntl  # noqa: PLC0415 - there is none on Windows

    with (directory / "start").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _answers(path: Path) -> bool:
    return bool(wire.ask(str(path), b"PING", deadline=time.monotonic() + 1).answer == b"PONG")


def _start(directory: Path, path: Path, until: float) -> None:
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "600",
        "databases": str(DATABASES),
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # Opened while the run lasts, so that the guard sees its end even if that comes at once.
    end = os.open(directory / "run", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(end, True)
    try:
        guard = subprocess.Popen(  # noqa: S603 - a server program that we found, and our own words
            ["/bin/sh", "-c", _GUARD, "fencelock", choose(until).path, *words],
            stdin=end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=directory,
            env={**passed_on, "LC_ALL": "C", "FENCELOCK_RUN": str(directory)},
            start_new_session=True,  # a Ctrl-C ends the run, and that ends the server
        )
    finally:
        os.close(end)
    while not _answers(path):
        if time.monotonic() > until or guard.poll() is not None:
            log = directory / "server.log"
            printed = log.read_text(errors="replace") if log.exists() else "(no log)"
            raise ServerUnreachable(f"the server of the tests did not start:\n{printed}")
        time.sleep(_PAUSE)
    guard.returncode = 0  # it outlives this process, and no process waits for it
