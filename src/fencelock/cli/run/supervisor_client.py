"""The holder's side: start the supervisor, send it the lease's deadlines, receive the outcome.

See ``supervisor.py`` for the other side, and for why there is a supervisor at all.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket

from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import Final
from fencelock.cli.run import supervisor

# The command gets KILL this long before the deadline at least, so that it is gone by then: on a
# machine whose cores are all taken, a process waits some 70 ms for its turn.
_MARGIN_SECONDS: Final = 0.1
_MARGIN_OF_GRACE: Final = 0.05
# A short lease gives only these parts of itself: the rest is for renewing it.
_GRACE_OF_LEASE: Final = 3
_MARGIN_OF_LEASE: Final = 6
NEVER: Final = float("inf")
# The supervisor may be this late on a busy machine. The rest of the margin is the holder's, to kill
# the command in the place of a supervisor that is stopped.
_LATE_SECONDS: Final = 0.03


class CommandEnd(NamedTuple):
    """How the command ended.

    ``stopped``: it was stopped because the lease ended; ``ran``: it could be executed at all.
    """

    status: int
    stopped: bool
    ran: bool


class SupervisorClient:
    """A supervisor process that was started."""

    def __init__(self, spec: supervisor.CommandSpec) -> None:
        near, far = socket.socketpair()
        # A handler of ours that ran in the child would make it continue as if it were the parent.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.spec = spec
        self.pid: int = os.fork()
        if self.pid == 0:
            near.close()
            supervisor.supervise(far, spec, blocked)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        far.close()
        self._line = near
        self._unread = b""
        self.command_pid: int | None = None
        self.frozen: bool = False  # it did not stop the command in time
        self._kill_at: float = NEVER

    def start(self, environment: dict[str, str]) -> None:
        """Have the command started, with these variables added to our own."""
        pairs = (f"{name}={value}" for name, value in environment.items())
        self._send(
            "start " + " ".join(pair.encode(errors="surrogateescape").hex() for pair in pairs)
        )

    def until(self, term_at: float, kill_at: float) -> None:
        """Move the instants at which the command is asked to stop and is killed."""
        self._kill_at = kill_at
        self._send(f"until {term_at} {kill_at}")

    def lost(self) -> None:
        """Have the command stopped now."""
        self._send("lost")

    def signal(self, number: int) -> None:
        """Forward a signal to the command."""
        self._send(f"signal {number}")

    def wait(self, wake: int) -> CommandEnd | None:
        """Return how the command ended, or None when the supervisor was killed or is ``frozen``.

        ``wake`` is the file descriptor that a signal makes readable: its handler then runs here.
        """
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            left = max(0.0, min(REST_SECONDS, self._overdue_at() - now()))
            for fd, _ in poll.poll(1000 * left):
                if fd == wake:
                    os.read(wake, 4096)
                    continue
                try:
                    data = self._line.recv(4096)
                except OSError:
                    data = b""
                if not data:
                    return None
                *lines, self._unread = (self._unread + data).split(b"\n")
                for word, *numbers in map(bytes.split, lines):
                    if word == b"started":
                        self.command_pid = int(numbers[0])
                    elif word == b"ended":
                        self._send("done")
                        status, stopped, ran = map(int, numbers)
                        return CommandEnd(status, bool(stopped), bool(ran))
            if now() >= self._overdue_at():
                self.frozen = True
                return None

    def _overdue_at(self) -> float:
        """Return when a supervisor that runs has killed the command and reported it."""
        return self._kill_at + _LATE_SECONDS if self.command_pid is not None else NEVER

    def close(self) -> None:
        """End the supervisor, which kills a command that still runs, and wait for its end.

        A frozen supervisor is killed: it would not end by itself.
        """
        self._line.close()
        if self.frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _send(self, text: str) -> None:
        # ``wait`` notices a supervisor that was killed.
        with contextlib.suppress(OSError):
            self._line.sendall(text.encode() + b"\n")


class StopSchedule(NamedTuple):
    """When a command must be asked to stop, and when it must be killed, for a lease's deadline.

    ``end`` is the last deadline that renewals can reach (``--max-hold``).
    """

    grace: float
    gentle: bool
    end: float = NEVER

    def instants(self, deadline: float, current: float) -> tuple[float, float]:
        """Return (TERM, KILL) for a lease that was just given until ``deadline``."""
        left = max(0.0, deadline - current)
        margin = max(_MARGIN_SECONDS, self.grace * _MARGIN_OF_GRACE)
        kill_at = min(deadline, self.end) - min(margin, left / _MARGIN_OF_LEASE)
        if not self.gentle:
            return NEVER, kill_at
        term_at = deadline - min(self.grace, left / _GRACE_OF_LEASE)
        return min(term_at, self.end - self.grace), kill_at
