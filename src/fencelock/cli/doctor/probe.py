"""Plain commands of ``fencelock doctor`` to the server; None where it refuses to answer."""

from __future__ import annotations

from typing import Any, Final

from fencelock._core.ask import parts, persist
from fencelock._core.attempt_log import Asked
from fencelock._ports.blocking import run_blocking
from fencelock.cli.session import Session
from fencelock.errors import ServerError, ServerUnreachable

Facts = dict[str, str]

# Whoever refuses for so long is in trouble, which is what is asked here.
_PATIENCE: Final = 2.0


class Probe:
    """Asks the server; each question for a bounded time."""

    def __init__(self, session: Session) -> None:
        self._port = session.port
        self._port.patience = min(_PATIENCE, self._port.patience)

    def now(self) -> float:
        """Return the instant on this process's monotonic clock."""
        return self._port.now()

    @property
    def masters(self) -> int:
        """Return how many masters a Cluster has; 0 for one server."""
        return sum(part != b"" for part in run_blocking(parts(self._port)))

    def command(self, *words: bytes) -> Any:
        """Return the answer, or raise."""
        until = self._port.now() + self._port.patience
        return run_blocking(
            persist(self._port, lambda: self._port.command(words, b"", until), until, Asked())
        )

    def optional(self, *words: bytes) -> Any:
        """Return the answer; None when it is an error."""
        try:
            return self.command(*words)
        except ServerUnreachable:
            raise
        except ServerError:
            return None

    def refusal(self, *words: bytes) -> str:
        """Return the code of the error that is the answer; empty when it is none."""
        try:
            self.command(*words)
        except ServerUnreachable:
            raise
        except ServerError as error:
            return error.code
        return ""

    def info(self) -> Facts:
        """Return INFO's facts; empty when the user may not ask."""
        return info_fields(self.optional(b"INFO"))

    def setting(self, name: str) -> str:
        """Return a setting; empty when the user may not ask."""
        found = self.optional(b"CONFIG", b"GET", name.encode()) or {}
        values = found.values() if isinstance(found, dict) else found[1:]
        return next((value.decode(errors="replace") for value in values), "")


def info_fields(text: bytes | None) -> Facts:
    """Return the lines ``name:value`` of a reply."""
    lines = (text or b"").decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def number(known: Facts, name: str) -> int:
    """Return a fact that is a number; 0 when it is not told."""
    try:
        return int(known.get(name) or 0)
    except ValueError:
        return 0
