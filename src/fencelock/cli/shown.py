"""What people see of a lock: a row of a table, its holder in words, and a line while they wait.

The line says who holds the lock, since when, and their own place in line. On a terminal it is
rewritten each second; otherwise there is one at the start and one each minute. Nothing is sent to
the server before a wait has lasted a moment.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

from fencelock._runtime.typed import TYPE_CHECKING, Final, Self
from fencelock.cli.output import columns, human, to_stderr, visible
from fencelock.errors import AcquireTimeout, FencelockError

if TYPE_CHECKING:
    from fencelock.blocking.client import Client
    from fencelock.cli.arguments import Arguments
    from fencelock.cli.session import Session
    from fencelock.status import HolderStatus, LockStatus, WaiterStatus

_FIRST_AFTER: Final = 0.3
_ON_TERMINAL: Final = 1.0
_ELSEWHERE: Final = 60.0
_WAITERS: Final = 1000
_LOOK_SECONDS: Final = 0.25
_ERASE: Final = "\r\x1b[K"
# The columns that a narrow terminal does without, the first ones first.
LESS: Final = ("FENCE", "LABEL", "LEASE", "HELD FOR", "LONGEST WAIT")


class WaitStatus:
    """While it is entered, a thread reports the wait on stderr.

    It does not if the command is quiet, or is not to wait until the first line.
    """

    def __init__(self, client: Client, name: str, args: Arguments) -> None:
        self._client = client
        self._name = name
        self._terminal = sys.stderr.isatty()
        brief = args.no_wait or (args.wait is not None and args.wait <= _FIRST_AFTER)
        self._quiet = bool(args.quiet or brief)
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._written = False

    def __enter__(self) -> Self:
        """Start."""
        if not self._quiet:
            threading.Thread(target=self._run, name="fencelock-line", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def stop(self) -> None:
        """Stop, and erase the terminal's line; does not wait for a silent server."""
        with self._writing:
            self._over.set()
            if self._written and self._terminal:
                to_stderr(_ERASE)
            self._written = False

    def _run(self) -> None:
        pause = _FIRST_AFTER
        while not self._over.wait(pause):
            try:
                info = self._client.status(self._name, waiters=_WAITERS)
            except FencelockError as error:
                self._write(f"waiting for {self._name}: {error}")
            else:
                if info.held or self._terminal:
                    self._write(describe(info))
            pause = _ON_TERMINAL if self._terminal else _ELSEWHERE

    def _write(self, text: str) -> None:
        text = visible(text)
        with self._writing:
            if self._over.is_set():
                return
            if self._terminal:
                to_stderr(_ERASE + text[: columns(2) - 1])
            else:
                to_stderr(f"fencelock: {text}\n")
            self._written = True


def not_granted(session: Session, name: str, within: str) -> AcquireTimeout:
    """Return the error of a wait that ended: with the holder, if the server answers quickly.

    From then on no call waits long for an answer: the command is about to end.
    """
    text = f"{name!r} was not granted{within}"
    session.operator.limit_answers(_LOOK_SECONDS)
    try:
        info = session.client.status(name, waiters=0)
    except FencelockError:
        pass  # the timeout is what the caller must know
    else:
        text += f": {held_by(info)}" if info.held else ""
    return AcquireTimeout(text, name=name, server=session.operator.server)


def describe(info: LockStatus) -> str:
    """Return the line for one state of the lock."""
    parts = [f"waiting for {info.name}: {held_by(info)}"]
    if info.held and info.remaining is not None:
        parts.append(f"lease {human(info.remaining)}")
    us = (socket.gethostname()[:64], os.getpid())
    for place, who in enumerate(info.waiters, 1):
        if (who.host, who.pid) == us:
            return ", ".join([*parts, f"you are #{place} of {info.waiting}"])
    return ", ".join(parts)


def held_by(info: LockStatus) -> str:
    """Return in words which process holds a lock, and for how long."""
    if info.kept and info.holder is not None:
        return f"kept by {person(info.holder)}, which does not use it"
    if not info.held:
        return "free"
    if info.field:
        return f"held in Redisson's layout, by {info.field}"
    if info.holder is None:
        return "held by a program that is not fencelock"
    if info.limit:
        others = f" and {info.holding - 1} more" if info.holding > 1 else ""
        what = f"{info.taken} of {info.limit} permits held"
        if info.kind == "rwlock":
            what = "written" if info.writing else "read"
        return f"{what} by {person(info.holder)}{others} for {human(info.holder.held_for)}"
    return f"held by {person(info.holder)} for {human(info.holder.held_for)}"


def person(who: HolderStatus | WaiterStatus) -> str:
    """Return ``host:pid (label)``."""
    return f"{who.host}:{who.pid} ({who.called})" if who.called else f"{who.host}:{who.pid}"


def row(lock: LockStatus) -> dict[str, str]:
    """Return the cells of a lock, by column."""
    who = lock.holder
    holder = "(not fencelock)" if lock.held else "-"
    if who is not None:
        holder = f"{who.host}:{who.pid}" + (f" +{lock.holding - 1}" if lock.holding > 1 else "")
    return {
        "NAME": lock.name,
        "STATE": lock.doing,
        "HOLDER": holder,
        "LABEL": (who and who.called) or "-",
        "HELD FOR": human(who.held_for) if who else "-",
        "LEASE": lease(lock.remaining) if lock.held else "-",
        "FENCE": str(lock.fence) if lock.fence else "-",
        "WAITING": lock.waiting_words,
    }


def lease(remaining: float | None) -> str:
    """Return what is left of a lease; one that another program gave no end has none."""
    return "-" if remaining is None else human(remaining)
