"""The kernel's proof that a server is alive: an flock that the server process itself holds.

Rules:

- A server is alive exactly as long as the file ``alive`` is locked. Nothing else counts: not a pid
  in a file, not a socket that refuses connections, not a missing reply.
- The starter takes the lock first. The server inherits the descriptor, and the starter closes its
  own copy. So a server never runs without the lock.
- The lock is never released with LOCK_UN, which would release it for every copy of the descriptor.
  We only close ours.
- The file is never removed: a lock on a removed file excludes no other process.
- The file says which kernel its last starter ran on, as a network's file system may show locks of
  other machines.
- The descriptor is never 0, 1 or 2. A starter without a standard stream (cron, a daemon) would get
  such a number from the system, and the server's own streams would replace it.
"""

# Paths are plain strings here: sockets and flock need their bytes, and links are not followed.

from __future__ import annotations

import contextlib
import functools
import os
from typing import Self

from fencelock._runtime.process import in_copies
from fencelock.errors import ServerUnreachable

_STANDARD_MAX = 2  # stderr
_BOOT_ID = "/proc/sys/kernel/random/boot_id"  # Linux
_in_hand: set[int] = set()


class StartClaim:
    """The lock, taken: no server is alive, and only we may start one until this is closed."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd: int = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self.fd)


def take(path: str) -> StartClaim | None:
    """Claim the right to start a server; None when one is alive or another process is starting one.

    Raises:
        ServerUnreachable: the file cannot be opened, or its file system does not support locks.
    """
    import fcntl

    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = _above_standard(os.open(path, flags, 0o600))
    except OSError as error:
        raise ServerUnreachable(
            f"cannot open {path}: {error.strerror}; an embedded server can be started only by a"
            " process that may write there, or with FENCELOCK_DIR"
        ) from error
    _in_hand.add(fd)
    ours = False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = os.path.samestat(os.fstat(fd), os.stat(path))  # else it was replaced meanwhile
        if ours:
            with contextlib.suppress(OSError):  # the disk is full: then the server will say so
                os.pwrite(fd, kernel(), 0)
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        raise ServerUnreachable(
            f"cannot lock {path}: {error.strerror}; set FENCELOCK_DIR to a local disk"
        ) from error
    finally:
        if not ours:
            _close(fd)
    return StartClaim(fd) if ours else None


def held(path: str) -> bool:
    """Return True if a server is alive, or is just being started."""
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    _in_hand.add(fd)  # a child that kept it would look like a server
    try:
        # A shared lock, so that two processes that check do not take each other for a server.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        _close(fd)
    return False


def is_local(path: str) -> bool:
    """Return True if the file's last starter ran on this kernel, since it booted."""
    try:
        with open(path, "rb") as file:
            return bool(kernel()) and file.read(64) == kernel()
    except OSError:
        return False


@functools.cache
def kernel() -> bytes:
    """Return an id of the running kernel, the same in its containers; nothing if it has none."""
    try:
        with open(_BOOT_ID, "rb") as file:
            return file.read(64).strip()
    except OSError:
        return b""


def _above_standard(fd: int) -> int:
    """Return a descriptor of the same open file that is not one of the standard streams."""
    import fcntl

    if fd > _STANDARD_MAX:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STANDARD_MAX + 1)
    finally:
        os.close(fd)


def _close(fd: int) -> None:
    _in_hand.discard(fd)
    os.close(fd)


@in_copies
def _close_all() -> None:
    """Close them in a child that another thread forks meanwhile: else it would keep the lock."""
    while _in_hand:
        os.close(_in_hand.pop())
