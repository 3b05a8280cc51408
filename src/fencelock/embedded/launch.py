"""Starting the server: detached from us in every way but the lock it inherits.

Rules:

- The server receives the locked descriptor and no other of ours.
- It is nobody's child: a small shell starts it and ends at once, so that whoever started the server
  is left with no zombie and its end is seen by one means only, the lock.
- It answers on the Unix socket alone, and only to us.
"""

# Paths are strings here, and their bytes count: sockets, flock, links that are not followed.

from __future__ import annotations

import os
import subprocess
import time

from fencelock.embedded.runtime_dir import RuntimeDir
from fencelock.errors import ServerUnreachable

from .binaries import Binary

_LOG_BYTES_MAX = 1 << 20
_TAIL_LINES = 12

# What a program may need to run at all. The rest stays here: a server that lives for weeks should
# not carry our caller's secrets in its environment.
_PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def arguments(place: RuntimeDir) -> list[str]:
    """Return the server's options, each for a reason."""
    options = {
        "port": "0",
        "unixsocket": place.socket,
        "unixsocketperm": "600",
        "dir": place.directory,
        "daemonize": "no",
        "logfile": "",
        "save": "",
        "appendonly": "yes",
        # Each reply follows the write of what it tells, so a killed server forgets nothing. Not
        # "everysec", which puts the writing itself off, up to two seconds, while a sync runs.
        # What is not on disk when the machine fails concerned holders that failed with it.
        "appendfsync": "no",
        # Plain commands can be read by any version; a binary preamble only by newer ones.
        "aof-use-rdb-preamble": "no",
        # Full memory must refuse, never forget a lock.
        "maxmemory-policy": "noeviction",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def spawn(place: RuntimeDir, binary: Binary, fd: int, deadline: float) -> int:
    """Start the server with the locked descriptor ``fd``; return where its part of the log begins.

    Raises:
        ServerUnreachable: there is no shell to start it, or no room for its log.
    """
    shell = ["/bin/sh", "-c", '"$@" &', "fencelock", binary.path, *arguments(place)]
    try:
        with open(place.log, "ab", opener=_private) as log:
            if log.tell() > _LOG_BYTES_MAX:
                log.truncate(0)
            begin = os.fstat(log.fileno()).st_size
            subprocess.run(
                shell,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(fd,),
                start_new_session=True,
                cwd=place.directory,
                env=_environment(),
                umask=0o077,
                timeout=max(0.1, deadline - time.monotonic()),
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerUnreachable(f"cannot start {binary}: {error}") from error
    return begin


def tail(place: RuntimeDir, begin: int) -> str:
    """Return the last lines that the server printed, from that place of the log on."""
    try:
        with open(place.log, "rb") as log:
            log.seek(begin)
            lines = log.read(_LOG_BYTES_MAX).decode(errors="replace").splitlines()
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:]) or "  (it printed nothing)"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _environment() -> dict[str, str]:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # Scripts compare strings by the locale's order; it must not be the starter's.
    return {**passed_on, "LC_ALL": "C"}
