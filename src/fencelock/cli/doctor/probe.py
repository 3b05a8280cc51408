"""Plain commands of ``fencelock doctor`` to the server; None where it refuses to answer."""

from __future__ import annotations

from typing import Any, Final

from fencelock.cli.session import Session
from fencelock.errors import ServerError, ServerUnreachable

Facts = dict[str, str]

# A server that does not answer for so long is in trouble, and that is what doctor checks.
_ANSWER_SECONDS: Final = 2.0


class Probe:
    """Sends commands to the server, each for a bounded time."""

    def __init__(self, session: Session) -> None:
        self._operator = session.operator
        self._operator.limit_answers(_ANSWER_SECONDS)

    def command(self, *words: bytes) -> Any:
        """Return the reply, or raise."""
        return self._operator.command(*words)

    def optional(self, *words: bytes) -> Any:
        """Return the reply; None when it is an error."""
        try:
            return self.command(*words)
        except ServerUnreachable:
            raise
        except ServerError:
            return None

    def refusal(self, *words: bytes) -> str:
        """Return the code of an error reply; empty when it is no error."""
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
    """Return a fact that is a number; 0 when it is missing."""
    try:
        return int(known.get(name) or 0)
    except ValueError:
        return 0
