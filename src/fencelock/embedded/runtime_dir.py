"""The embedded server's directory.

All processes of one user must find the same directory, however they were started: by a shell, cron,
systemd or sudo. Otherwise each would have its own server, and every lock two holders. Rules:

- Nothing here depends on HOME, XDG variables, TMPDIR or the current directory. Only FENCELOCK_DIR
  moves the place, and it must be absolute.
- The directory is keyed by the machine, because homes may be shared between machines.
- A directory is used only if it belongs to us and no other user can write in it.
- A server that lives is found, wherever that is. One in the spare directory is used even when the
  home is back. One in the home is used also by those that cannot write there, and under another
  name of the machine: where it has no id, its name may change.
- Of those that are not alive, the one that was used last since the machine booted is started again.
- None is started in the spare directory while the home has one that others may use.
"""

# Paths are plain strings here: sockets and flock need their bytes, and links are not followed.

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from fencelock.embedded import liveness_lock, wire
from fencelock.embedded.policy import refuse_system
from fencelock.errors import ServerDenied, ServerUnreachable

OVERRIDE = "FENCELOCK_DIR"

# A Unix socket's path has at most 104 bytes on macOS and 108 on Linux, the final NUL included.
SOCKET_BYTES_MAX = 100

_STATE = ".local", "state", "fencelock"
_SPARE = "/var/tmp"  # noqa: S108 - checked for its owner
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
    directory = os.path.realpath(named) if named else _default(uid, home(uid), _SPARE)
    _secure(directory, uid, create=create)
    return RuntimeDir(directory, _socket(directory, uid, create=create))


def lives_elsewhere(paths: RuntimeDir) -> bool:
    """Return True if a server lives in another directory of this user, or is being started there.

    The process that starts one asks this once it has the claim: of two that start in different
    directories at once, the one that claims last sees the other's claim.
    """
    if os.environ.get(OVERRIDE):
        return False
    uid = os.geteuid()
    return any(each != paths.directory for each in _alive(uid, home(uid), _SPARE))


def _default(uid: int, home: str, spare: str) -> str:
    for directory in _alive(uid, home, spare):
        return directory
    spare = os.path.join(spare, f"fencelock-{uid}")
    if not home:
        return spare
    directory = _last_used(home) or os.path.join(home, *_STATE, machine())
    return directory if os.path.isdir(directory) or _can_write(directory, home) else spare


def _alive(uid: int, home: str, spare: str) -> Iterator[str]:
    """Yield the directories of this user in which a server lives, or is being started."""
    spare = os.path.join(spare, f"fencelock-{uid}")
    if _lives_in(spare, uid):
        yield spare
    if not home:
        return
    own = os.path.join(home, *_STATE, machine())
    if _lives_in(own, uid):
        yield own
    for directory in _siblings(home):
        if directory != own and _lives_in(directory, uid) and _is_here(directory, uid):
            yield directory


def _siblings(home: str) -> list[str]:
    """Return the directories of all machines that share the home, and of former names of this."""
    parent = os.path.join(home, *_STATE)
    try:
        return [os.path.join(parent, name) for name in sorted(os.listdir(parent))]
    except OSError:
        return []


def _is_here(directory: str, uid: int) -> bool:
    """Return True if what lives there does so on this machine: the home may be shared."""
    if liveness_lock.is_local(os.path.join(directory, "alive")):
        return True
    try:
        path = _socket(directory, uid, create=False)
        return wire.ask(path, b"PING", deadline=0.0).listening
    except (ServerDenied, ServerUnreachable):
        return False


def _last_used(home: str) -> str:
    """Return the directory of the server that started last since this machine booted, or nothing.

    It has the locks that are held, and under another name of the machine it would not be found.
    """
    used: list[tuple[float, str]] = []
    for directory in _siblings(home):
        if liveness_lock.is_local(os.path.join(directory, "alive")):
            with contextlib.suppress(OSError):
                used.append((os.stat(os.path.join(directory, "server.log")).st_mtime, directory))
    return max(used)[1] if used else ""


def _lives_in(directory: str, uid: int) -> bool:
    try:
        ours = os.lstat(directory).st_uid == uid
        return ours and liveness_lock.held(os.path.join(directory, "alive"))
    except OSError:
        return False


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
    return _hash(_hardware() or os.fsencode(os.uname().nodename))


def _hardware() -> bytes:
    """Return the id of a Mac; nothing elsewhere. Its name changes with the network it is in."""
    if os.uname().sysname != "Darwin":
        return b""
    import ctypes

    known, wait = ctypes.create_string_buffer(16), (ctypes.c_long * 2)(1, 0)
    try:
        refused = ctypes.CDLL(None).gethostuuid(known, wait)
    except (OSError, AttributeError):
        return b""
    return b"" if refused else known.raw


def _hash(text: bytes) -> str:
    import hashlib

    return hashlib.sha256(b"fencelock:" + text).hexdigest()[:12]


def _quoted(path: str) -> str:
    if _PLAIN.issuperset(path):
        return path
    from urllib.parse import quote

    return quote(os.fsencode(path), safe="/+@")
