"""The embedded server's directory.

All processes of one user must find the same directory, however they were started: by a shell, cron,
systemd or sudo. Otherwise each would have its own server, and every lock two holders. Rules:

- Nothing here depends on HOME, XDG variables, TMPDIR or the current directory. Only FENCELOCK_DIR
  moves the place, and it must be absolute.
- The directory is keyed by the machine, because homes may be shared between machines.
- A directory is used only if it belongs to us and no other user can write in it.
- While a server is alive in the spare directory, that one is used, even when the home is back.
"""

# Paths are plain strings here: sockets and flock need their bytes, and links are not followed.

from __future__ import annotations

import functools
import os
import stat
from typing import NamedTuple

from fencelock.embedded import liveness_lock
from fencelock.embedded.policy import refuse_system
from fencelock.errors import ServerDenied

OVERRIDE = "FENCELOCK_DIR"

# A Unix socket's path has at most 104 bytes on macOS and 108 on Linux, the final NUL included.
SOCKET_BYTES_MAX = 100

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-~+@")


class RuntimeDir(NamedTuple):
    """A server's directory and its socket."""

    directory: str
    socket: str

    @property
    def alive(self) -> str:
        """The file whose lock proves that a server is alive."""
        return os.path.join(self.directory, "alive")

    @property
    def log(self) -> str:
        """What the server prints."""
        return os.path.join(self.directory, "server.log")

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"unix://{_quoted(self.socket)}?db=0"


def url() -> str:
    """Return the address of the embedded server, whether it runs or not; nothing is started.

    Raises:
        ServerDenied: the directory exists, and other users can use it.
        ValueError: ``FENCELOCK_DIR`` is not absolute.
    """
    return find(create=False).url


def find(*, create: bool) -> RuntimeDir:
    """Find the directory; with ``create``, make it when it does not exist.

    Raises:
        ServerUnreachable: on Windows.
        ServerDenied: a directory is not ours, or other users can write in it, or it cannot be made.
        ValueError: ``FENCELOCK_DIR`` is not absolute.
    """
    refuse_system()
    uid = os.geteuid()
    named = os.environ.get(OVERRIDE)
    if named and not os.path.isabs(named):
        raise ValueError(f"{OVERRIDE} must be an absolute path, not {named!r}")
    directory = os.path.realpath(named) if named else _default(uid, home(uid))
    _secure(directory, uid, create=create)
    return RuntimeDir(directory, _socket(directory, uid, create=create))


def _default(uid: int, home: str, spare: str = "/var/tmp") -> str:  # noqa: S108 - checked for its owner
    spare = os.path.join(spare, f"fencelock-{uid}")
    if not home or _lives_in(spare, uid):
        return spare
    directory = os.path.join(home, ".local", "state", "fencelock", machine())
    return directory if _can_write(directory, home) else spare


def _lives_in(directory: str, uid: int) -> bool:
    try:
        ours = os.lstat(directory).st_uid == uid
    except OSError:
        return False
    return ours and liveness_lock.held(os.path.join(directory, "alive"))


def _can_write(directory: str, home: str) -> bool:
    """Return True if the directory can be used or made, without making it."""
    while not os.path.isdir(directory):
        if directory == home or len(directory) <= len(home):
            return False
        directory = os.path.dirname(directory)
    return os.access(directory, os.W_OK | os.X_OK)


def _socket(directory: str, uid: int, *, create: bool, short: str = "/tmp") -> str:  # noqa: S108 - as above
    path = os.path.join(directory, "server.sock")
    if len(os.fsencode(path)) <= SOCKET_BYTES_MAX:
        return path
    directory = os.path.join(short, f"fencelock-{uid}-{_hash(os.fsencode(directory))}")
    _secure(directory, uid, create=create)
    return os.path.join(directory, "server.sock")


def _secure(directory: str, uid: int, *, create: bool) -> None:
    """Refuse a directory in which another user could put a server."""
    info = _seen(directory)
    if info is None and create:
        try:
            # Another process may have made it just now: it is checked like any other directory.
            os.makedirs(directory, 0o700, exist_ok=True)
            info = os.lstat(directory)
        except OSError as error:
            text = f"cannot make {directory}: {error.strerror}; set {OVERRIDE}"
            raise ServerDenied(text) from error
    if info is None:
        return
    if not stat.S_ISDIR(info.st_mode):
        raise ServerDenied(f"{directory} is not a directory: move it away, or set {OVERRIDE}")
    if info.st_uid != uid:
        raise ServerDenied(
            f"{directory} belongs to user {info.st_uid}, not to user {uid}: "
            f"set {OVERRIDE} to a directory of your own"
        )
    if info.st_mode & stat.S_ISVTX:  # made for all users, like /tmp: do not advise chmod
        raise ServerDenied(
            f"{directory} is shared by all users: set {OVERRIDE} to a directory of your own in it"
        )
    if info.st_mode & 0o022:
        raise ServerDenied(
            f"other users can write in {directory}: run `chmod 700 {directory}`, or set {OVERRIDE}"
        )


def _seen(directory: str) -> os.stat_result | None:
    try:
        return os.lstat(directory)  # not stat: a link in a shared directory is not ours to follow
    except (FileNotFoundError, NotADirectoryError):
        return None


@functools.cache
def home(uid: int) -> str:
    """Return the user's home as the system knows it, or nothing."""
    import pwd

    try:
        path = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return ""
    return path if os.path.isabs(path) else ""


@functools.cache
def machine() -> str:
    """Return a short name for this machine that no other has."""
    for path in _MACHINE_IDS:
        try:
            with open(path, "rb") as file:
                known = file.read().strip()
        except OSError:
            continue
        if known:
            return _hash(known)
    return _hash(os.fsencode(os.uname().nodename))


def _hash(text: bytes) -> str:
    import hashlib

    return hashlib.sha256(b"fencelock:" + text).hexdigest()[:12]


def _quoted(path: str) -> str:
    if _PLAIN.issuperset(path):
        return path
    from urllib.parse import quote

    return quote(os.fsencode(path), safe="/+@")
