"""One command to the server over its Unix socket.

A refused connection means that no process listens. Everything else that goes wrong (no reply, a
closed connection, a full backlog) means that a process does listen, and never that it has died.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from typing import Any, NamedTuple

from fencelock._io.wire import INCOMPLETE, pack, reader
from fencelock._runtime.descriptors import own
from fencelock.errors import ServerDenied, ServerUnreachable

# A caller whose deadline has passed still waits this long: a healthy server needs about 20 µs.
PATIENCE_MIN = 0.02
_PATIENCE_MAX = 3600.0

_SOL_LOCAL, _LOCAL_PEERPID = 0, 2  # macOS, <sys/un.h>

_NOBODY = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


class Reply(NamedTuple):
    """The outcome of one command.

    ``answer`` is the reply as the parser returns it, a ``ReplyError`` among others; None without
    one. ``pid`` and ``uid`` are those of the listening process, as the kernel reports them.
    """

    listening: bool
    answer: Any = None
    closed: bool = False
    pid: int | None = None
    uid: int | None = None


def ask(path: str, *words: bytes, deadline: float) -> Reply:
    """Send the server one command; return at its reply, its end, or the deadline (monotonic).

    Raises:
        ServerDenied: we may not use that socket.
        ServerUnreachable: the system cannot give us a socket.
    """
    with own(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as line:
        line.settimeout(_socket_timeout(deadline))
        try:
            line.connect(path)
        except OSError as error:
            if error.errno in _NOBODY:
                return Reply(listening=False)
            if error.errno in _FORBIDDEN:
                raise ServerDenied(f"cannot connect to {path}: {error.strerror}") from error
            if isinstance(error, (TimeoutError, BlockingIOError, ConnectionError)):
                return Reply(listening=True)  # the backlog is full, so a process listens
            raise ServerUnreachable(f"cannot connect to {path}: {error}") from error
        pid, uid = _peer(line)
        try:
            line.sendall(pack(words))
            parser = reader()
            while (answer := parser.gets()) is INCOMPLETE:
                line.settimeout(_socket_timeout(deadline))
                data = line.recv(65536)
                if not data:
                    answer = None
                    break
                parser.feed(data)
        except TimeoutError:
            return Reply(listening=True, pid=pid, uid=uid)
        except OSError:
            return Reply(listening=True, closed=True, pid=pid, uid=uid)
        return Reply(listening=True, answer=answer, closed=answer is None, pid=pid, uid=uid)


def _socket_timeout(deadline: float) -> float:
    return min(max(deadline - time.monotonic(), PATIENCE_MIN), _PATIENCE_MAX)


def _peer(line: socket.socket) -> tuple[int | None, int | None]:
    """Return pid and uid of the listening process, where the system reports them."""
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is not None:
        pid, uid, _gid = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, credentials, 12))
        return pid or None, uid  # a process of another pid namespace has the number 0
    try:
        return line.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID) or None, None
    except OSError:
        return None, None
