"""One question to the server over its Unix socket, in raw RESP.

A connection that is refused means that nobody listens. Everything else that goes wrong (no answer,
a closed connection, a full backlog) means that somebody does, and says nothing about his death.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from typing import NamedTuple

from fencelock.descriptors import own
from fencelock.errors import ServerDenied, ServerUnreachable

# Even a caller out of time gives a healthy server this long: it needs some twenty microseconds.
PATIENCE_MIN = 0.02
_PATIENCE_MAX = 3600.0

_SOL_LOCAL, _LOCAL_PEERPID = 0, 2  # macOS, <sys/un.h>

_NOBODY = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


class Reply(NamedTuple):
    """What came of a question.

    ``text`` is the first line with its type mark, or a bulk string's body; empty without an answer.
    ``pid`` and ``uid`` are those of the listening process, told by the kernel.
    """

    listening: bool
    text: bytes = b""
    closed: bool = False
    pid: int | None = None
    uid: int | None = None


def ask(path: str, *words: bytes, deadline: float) -> Reply:
    """Ask the server one question; return at its answer, its end, or the deadline (monotonic).

    Raises:
        ServerDenied: we may not use that socket.
        ServerUnreachable: the system cannot give us a socket.
    """
    with own(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as line:
        line.settimeout(_patience(deadline))
        try:
            line.connect(path)
        except OSError as error:
            return _unconnected(error, path)
        pid, uid = _peer(line)
        try:
            line.sendall(_packed(words))
            text = _read(line, deadline)
        except TimeoutError:
            return Reply(listening=True, pid=pid, uid=uid)
        except OSError:
            return Reply(listening=True, closed=True, pid=pid, uid=uid)
        return Reply(listening=True, text=text, closed=not text, pid=pid, uid=uid)


def _patience(deadline: float) -> float:
    return min(max(deadline - time.monotonic(), PATIENCE_MIN), _PATIENCE_MAX)


def _unconnected(error: OSError, path: str) -> Reply:
    if error.errno in _NOBODY:
        return Reply(listening=False)
    if error.errno in _FORBIDDEN:
        raise ServerDenied(f"cannot connect to {path}: {error.strerror}") from error
    if isinstance(error, (TimeoutError, BlockingIOError, ConnectionError)):
        return Reply(listening=True)  # the backlog is full: whoever let it fill is there
    raise ServerUnreachable(f"cannot connect to {path}: {error}") from error


def _packed(words: tuple[bytes, ...]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def _read(line: socket.socket, deadline: float) -> bytes:
    """Read one status, error or bulk reply; empty at the end of the connection."""
    data = b""
    while True:
        head, found, rest = data.partition(b"\r\n")
        if found and head[:1] != b"$":
            return head
        if found and len(rest) >= int(head[1:]):
            return rest[: int(head[1:])]
        line.settimeout(_patience(deadline))
        more = line.recv(65536)
        if not more:
            return b""
        data += more


def _peer(line: socket.socket) -> tuple[int | None, int | None]:
    """Return pid and uid of the listening process, where the system tells."""
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is None:
        return _peer_of_bsd(line), None
    pid, uid, _gid = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, credentials, 12))
    return pid or None, uid  # a process of another pid namespace has the number 0


def _peer_of_bsd(line: socket.socket) -> int | None:
    try:
        return line.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID) or None
    except OSError:
        return None
