"""The identity of this process: a fork starts a new generation, which has its own leases."""

from __future__ import annotations

import os
import threading
from typing import Never, SupportsIndex

from fencelock._runtime.hints import elsewhere

# The number of forks that led to this process; a lease of another generation is the parent's.
generation: int = 0
pid: int = os.getpid()  # kept, as asking is a call of the system each time


def _forked() -> None:
    global generation, pid
    generation, pid = generation + 1, os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class ThreadUnit:
    """A thread's identity, which is compared, and the thread, which has a name for people."""

    __slots__ = ("number", "thread")

    def __init__(self) -> None:
        self.thread: threading.Thread = threading.current_thread()
        self.number: int | None = self.thread.ident


class _Here(threading.local):
    """An identity object for each thread, made on first use."""

    def __init__(self) -> None:
        self.unit: ThreadUnit = ThreadUnit()


here = _Here()  # ``here.unit`` is of this thread; unlike its ident, no later thread gets the same


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
