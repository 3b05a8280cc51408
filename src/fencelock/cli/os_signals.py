"""OS signals: they end a wait, and once the command runs they are its own.

A signal that was ignored when we began (``nohup``, ``cmd &`` in a script) stays ignored, by us and
by the command.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

from fencelock._runtime.typed import Final, Self
from fencelock.cli.exits import Interrupted


def _numbers(*names: str) -> tuple[int, ...]:
    """Return those that the system has: Windows lacks most, and alone has SIGBREAK."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


_WAITING: Final = _numbers(
    *("SIGINT", "SIGTERM", "SIGBREAK", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
)
_JOB: Final = _numbers("SIGTSTP", "SIGCONT")
# A terminal sends these to the command itself, which is in its foreground group.
_OF_TERMINAL: Final = _numbers("SIGINT", "SIGQUIT")
_IGNORED: Final = _numbers("SIGPIPE", "SIGXFSZ")  # by Python itself


class SignalHandlers:
    """While it is entered, a signal raises Interrupted in the main thread, until ``forward``."""

    def __init__(self) -> None:
        self.ignored: frozenset[int] = frozenset(
            number
            for number in signal.valid_signals()
            if signal.getsignal(number) is signal.SIG_IGN and number not in _IGNORED
        )
        self.received: set[int] = set()
        self._before: dict[int, object] = {}
        self._raises = True
        self._pending: list[int] = []
        self._forward: Callable[[int], None] = self._pending.append
        self._terminal = False
        self._pipe = (-1, -1)

    def __enter__(self) -> Self:
        """Install the handlers."""
        self._install(_WAITING)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the earlier handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it came from signal() itself

    def hold_back(self) -> None:
        """Stop raising: keep the signals that arrive until they can be forwarded."""
        self._raises = False

    def forward(self, send: Callable[[int], None], *, terminal: bool) -> int:
        """Hand signals to the command; return a file descriptor that each makes readable."""
        self._raises = False
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        if not terminal:
            self._install(_JOB)
        self._forward = send
        self._terminal = terminal
        while self._pending:
            send(self._pending.pop(0))
        return self._pipe[0]

    def _install(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            if number not in self.ignored:
                self._before[number] = signal.signal(number, self._caught)

    def _caught(self, number: int, _frame: FrameType | None) -> None:
        self.received.add(number)
        if self._raises:
            self._raises = False
            raise Interrupted(number)
        if self._terminal and number in _OF_TERMINAL:
            return
        # Its group has no terminal, so TSTP would do nothing.
        self._forward(signal.SIGSTOP if number == signal.SIGTSTP else number)
