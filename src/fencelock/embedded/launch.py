"""Start the server, detached from this process except for the lock that it inherits.

Rules:

- The server receives the locked descriptor and no other of ours.
- It is not our child: a small shell starts it and ends at once. So the starter keeps no zombie,
  and the lock is the only sign that the server has ended.
- It answers on the Unix socket only, and only to our user.
- It has no niceness, limits or ignored and blocked signals of ours. What it cannot be freed of is
  in its log, and we warn of it: see inheritance.py.
"""

# Paths are plain strings here: sockets and flock need their bytes, and links are not followed.

from __future__ import annotations

import contextlib
import os
import subprocess
import time

from fencelock.embedded.runtime_dir import RuntimeDir
from fencelock.errors import ServerUnreachable

from . import inheritance
from .binaries import Binary

_LOG_BYTES_MAX = 1 << 20
_TAIL_LINES = 12

# What a program may need to run at all. Nothing else is passed on: a server that lives for weeks
# should not carry our caller's secrets in its environment. Scripts compare strings in the locale's
# order, which must not depend on the starter, either.
_PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def arguments(paths: RuntimeDir) -> list[str]:
    """Return the server's options, with the reasons for those that are not obvious."""
    options = {
        "port": "0",
        "unixsocket": paths.socket,
        "unixsocketperm": "600",
        "dir": paths.directory,
        "daemonize": "no",
        "logfile": "",
        "save": "",
        "appendonly": "yes",
        # The log is written before each reply, so a killed server forgets nothing. Not "everysec":
        # it delays the write itself by up to two seconds while a sync runs. What is not on disk
        # when the machine fails belonged to holders that failed with it.
        "appendfsync": "no",
        # Plain commands can be read by any version; a binary preamble only by newer ones.
        "aof-use-rdb-preamble": "no",
        # With full memory the server must refuse writes, never evict a lock.
        "maxmemory-policy": "noeviction",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def spawn(
    paths: RuntimeDir, binary: Binary, fd: int, deadline: float, *, again: bool = False
) -> int:
    """Start the server with the locked descriptor ``fd``; return the log offset where it begins.

    The first try frees it of what it would inherit. If that one failed, it is tried without.

    Raises:
        ServerUnreachable: there is no shell to start it, or no room for its log.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    shed = not again and inheritance.can_shed()
    program = [*(inheritance.SHEDDING if shed else ()), binary.path, *arguments(paths)]
    shell = ["/bin/sh", "-c", '"$@" &', "fencelock", *program]
    try:
        with open(paths.log, "ab", opener=_private) as log:
            if log.tell() > _LOG_BYTES_MAX:
                log.truncate(0)
            begin = os.fstat(log.fileno()).st_size
            if not shed and (burdens := inheritance.burdens()):
                with contextlib.suppress(OSError):  # the disk is full: then the server will say so
                    os.write(log.fileno(), f"{inheritance.KEEPS}{'; '.join(burdens)}\n".encode())
            subprocess.run(
                shell,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(fd,),
                start_new_session=True,
                cwd=paths.directory,
                env={**passed_on, "LC_ALL": "C"},
                umask=0o077,
                timeout=max(0.1, deadline - time.monotonic()),
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerUnreachable(f"cannot start {binary}: {error}") from error
    return begin


def kept(paths: RuntimeDir, begin: int) -> str:
    """Return what the server that has started says it keeps of us, or nothing."""
    lines = _printed(paths, begin)
    return next((each for each in lines if each.startswith(inheritance.KEEPS)), "")


def tail(paths: RuntimeDir, begin: int) -> str:
    """Return the last lines that the server printed, from that offset of the log on."""
    try:
        lines = _printed(paths, begin)
    except OSError as error:
        return f"(no log: {error})"
    if not lines and _is_full(paths.directory):
        return f"  (it printed nothing: the disk of {paths.directory} is full)"
    return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:]) or "  (it printed nothing)"


def _printed(paths: RuntimeDir, begin: int) -> list[str]:
    with open(paths.log, "rb") as log:
        log.seek(begin)
        return log.read(_LOG_BYTES_MAX).decode(errors="replace").splitlines()


def _is_full(directory: str) -> bool:
    """Return True if no byte or no file can be added to the disk; also if that is unknown: no."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(directory)
        return not disk.f_bavail or bool(disk.f_files and not disk.f_favail)
    return False


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
