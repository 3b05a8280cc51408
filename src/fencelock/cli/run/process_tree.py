"""Which processes belong to a command that runs under ``fencelock run``, and signals to them.

- Without a terminal the command leads a session of its own: its process group is signalled, then
  every other process of that session (``timeout`` and shells with job control make more groups).
- On a terminal it stays in the shell's process group, together with other programs
  (``fencelock run … | less``). There its processes are those of the session that have its holder
  id in their environment.

Where there is no /proc (macOS), only the group is known, or on a terminal the command itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from fencelock._runtime.records import NamedTuple

# A supervisor ends with the process that it serves; killed first, it would leave its command alone.
SUPERVISOR_NAME = b"fencelock-guard"
# A process that forks while it is being killed is caught by the next round.
_ROUNDS = 5


class ProcessTree(NamedTuple):
    """A command and what it started. ``mark`` is empty when the session is the command's own."""

    leader: int
    session: int
    mark: bytes = b""

    def signal(self, number: int) -> None:
        """Send a signal as a terminal would: to the leader's group, or to the leader alone."""
        send = os.kill if self.mark else os.killpg
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(self.leader, number)

    def signal_all(self, number: int) -> None:
        """Send a signal to every process of the tree."""
        self.signal(number)
        reached = {self.leader}
        if not self.mark:
            reached.update(pid for pid, group, _ in _living() if group == self.leader)
        for pid in set(self.members()) - reached:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End every process of the tree; nothing of it runs afterwards."""
        for _ in range(_ROUNDS):
            self.signal_all(signal.SIGKILL)
            if not any(self.members()):
                return

    def members(self) -> Iterator[int]:
        """Yield the processes of the tree that live."""
        for pid, _, session in _living():
            if session == self.session and (not self.mark or _has(pid, self.mark)):
                yield pid


def _living() -> Iterator[tuple[int, int, int]]:
    """Yield pid, process group and session of every process that is no zombie and no supervisor."""
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - pathlib would be a third of the start-up
    except OSError:
        return
    for entry in entries:
        if not entry.isdecimal():
            continue
        with contextlib.suppress(OSError):
            stat = _read(f"/proc/{entry}/stat")
            name, _, rest = stat.partition(b"(")[2].rpartition(b")")
            state, _, group, session = rest.split()[:4]
            if state not in {b"Z", b"X"} and name != SUPERVISOR_NAME:
                yield int(entry), int(group), int(session)


def _has(pid: int, mark: bytes) -> bool:
    try:
        return mark in _read(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return False


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - as below
        return file.read()
