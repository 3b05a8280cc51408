"""The identity of this process: each copy of it has a number of its own, and its own leases.

Rules of this file (I14):

- A copy is known by a page of memory that the kernel empties in every copy, also in one that was
  forked in C, where no handler of Python's runs, and in one with the same process id in another
  namespace. Where the kernel does not do that, a copy is known by its process id.
- What belongs to one process has that process's number, and is compared with ``mark[0]``, which is
  0 in a copy that has not been noticed yet. Before something is sent, the mutex taken or an id
  drawn, a copy is noticed: ``mark[0] or notice()``.
- Whatever thread is first in a copy does what each module has left to ``in_copies``, and goes on.
- A snapshot that is restored twice has the same page and process id: nothing can tell.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable

from fencelock._runtime.hints import elsewhere
from fencelock._runtime.typed import Any, Never, Protocol, SupportsIndex, TypeVar

_MADV_WIPEONFORK = 18  # of Linux; ``mmap`` does not name it
Work = TypeVar("Work", bound=Callable[[], object])


class _ByPid:
    """A mark where the kernel empties no page: it compares the process id."""

    def __init__(self) -> None:
        self._pid = 0
        self._number = 0

    def __getitem__(self, _at: int) -> int:
        return self._number if self._pid == os.getpid() else 0

    def __setitem__(self, _at: int, number: int) -> None:
        self._pid, self._number = os.getpid(), number


def _new_mark() -> Any:
    """Return a number in memory that is 0 in every copy of this process; see above."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_MADV_WIPEONFORK)
    except (AttributeError, OSError, ValueError):  # not Linux, an old kernel, or a sandbox
        return _ByPid()
    try:
        page.madvise(-1)
    except OSError:
        return memoryview(page).cast("Q")
    return _ByPid()  # an emulator that accepts everything, and does nothing


# The number of this copy of the process, which is read in 25 ns; of a lease with another number
# some parent is the holder.
mark: _ByPid = _new_mark()
mark[0] = _number = 1
pid: int = os.getpid()  # kept, as asking is a call of the system each time
_in_copies: list[Callable[[], object]] = []
# By the process id: in a copy, a lock of the parent may be locked for ever.
_turns: dict[int, Any] = {}


def in_copies(work: Work) -> Work:
    """Have something done in each copy of this process, once, before anything else there."""
    _in_copies.append(work)
    return work


def notice() -> int:
    """Do in a copy of a process what is to be done there first; return the copy's number.

    Other threads wait meanwhile. If it fails, the next call begins again.
    """
    global _number, pid
    turn = _turns.setdefault(os.getpid(), threading.RLock())
    if turn._is_owned():  # noqa: SLF001 - as in mutex.py; by a finalizer, or by what is done here
        return _number
    with turn:
        if not mark[0]:
            _number, pid = _number + 1, os.getpid()
            for work in _in_copies:
                work()
            mark[0] = _number
    return _number


def number() -> int:
    """Return the number of this copy of the process, which is noticed now at the latest."""
    return mark[0] or notice()


def _forked() -> None:
    """Notice a copy at once, where Python tells."""
    mark[0] = 0
    notice()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class ThreadUnit:
    """A thread's identity, which is compared, and the thread, which has a name for people."""

    __slots__ = ("number", "thread")

    def __init__(self) -> None:
        self.thread: threading.Thread = threading.current_thread()
        self.number: int | None = self.thread.ident


class Here(Protocol):
    """Has an identity object for each thread, made on first use."""

    unit: ThreadUnit


def _new_here() -> Here:
    class Local(threading.local):
        def __init__(self) -> None:
            self.unit: ThreadUnit = ThreadUnit()

    return Local()


# ``here.unit`` is of this thread; unlike its ident, no later thread gets the same.
here: Here = _new_here()
_local: object = threading.local
_when_patched: list[Callable[[], object]] = []


def when_patched(work: Work) -> Work:
    """Have something done when threads have become greenlets since this module was imported."""
    _when_patched.append(work)
    return work


def patched() -> None:
    """Tell greenlets apart where gevent or eventlet replaced ``threading.local`` since the import.

    Until then all of them are one thread, which owns what any of them holds. Called where clients,
    handles and connections are made.
    """
    global here, _local
    if threading.local is not _local:
        _local, here = threading.local, _new_here()
        for work in _when_patched:
            work()


class ProcessBound:
    """Base of objects bound to one process: they cannot be copied or pickled.

    A copy would share the holds, and stop their renewal when it is garbage-collected.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        """List the attributes, without those that only hint at the right name."""
        classes = type(self).__mro__
        hints = {name for each in classes for name in vars(each) if elsewhere(each, name)}
        return sorted({*super().__dir__()} - hints)

    def __reduce_ex__(self, _protocol: SupportsIndex) -> Never:
        """Refuse to be copied or pickled, as the locks of ``threading`` do."""
        raise TypeError(
            f"cannot copy or pickle {type(self).__name__!r} objects: their locks belong to this"
            " process. In another process, make a client and ask it for the same name; to pass"
            " on a lease, pass its fence"
        )


def user() -> str:
    """Return the name of the user who runs this, for people to read."""
    for variable in ("SUDO_USER", "LOGNAME", "USER", "USERNAME"):
        if name := os.environ.get(variable):
            return name
    if not hasattr(os, "getuid"):  # Windows
        return "unknown"
    import pwd  # noqa: PLC0415 - as above

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def user_and_host() -> str:
    """Return who does something as an operator, for people to read."""
    import socket  # noqa: PLC0415 - for operators only

    return f"{user()}@{socket.gethostname()}"


def environment_url() -> str | None:
    """Return the server that the variable ``FENCELOCK_URL`` names; None when it is not set.

    Raises:
        ValueError: it is set but empty, as by a secret without a value: each host would have an
            embedded server of its own.
    """
    found = os.environ.get("FENCELOCK_URL")
    if found is not None and not found.strip():
        raise ValueError(
            "FENCELOCK_URL is set but empty: set it to the URL of a server, such as"
            " redis://host:6379/0, or unset it for the embedded server of this machine"
        )
    return found
