"""A server as ``fencelock doctor`` reads it: plain commands, each for a bounded time.

A user may lack the permission for CONFIG, INFO or another command. What it cannot read is empty
here, and the question that needs it says so.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any, Final, NamedTuple

from fencelock._core.keys import membership_key
from fencelock._runtime.clock import now
from fencelock._runtime.server_info import facts
from fencelock.cli.session import Session
from fencelock.errors import ServerError, ServerUnreachable

Facts = dict[str, str]

# The roles of a server; what it may forget depends on them.
ALONE: Final = "alone"
NODE: Final = "a node of a quorum"
EMBEDDED: Final = "embedded"

# A server that does not answer for so long is in trouble, and that is what doctor checks.
_ANSWER_SECONDS: Final = 2.0
_SAMPLES: Final = 5
_PAUSE_SECONDS: Final = 0.01


class Sample(NamedTuple):
    """When TIME was sent and answered, by our monotonic clock and by our wall clock."""

    asked: float
    answered: float
    wall: float  # half way
    server: float  # its wall clock

    @property
    def trip(self) -> float:
        """Return how long the answer took."""
        return self.answered - self.asked


class Server:
    """What can be read of a server. Each command raises ServerUnreachable if it does not answer."""

    def __init__(self, session: Session, role: str, label: str = "") -> None:
        session.operator.limit_answers(_ANSWER_SECONDS)
        self.session = session
        self.role = role
        self.label = label
        self.samples: list[Sample] = []
        self.asked_at: float = 0.0  # for INFO

    def command(self, *words: bytes) -> Any:
        """Return the reply, or raise."""
        return self.session.operator.command(*words)

    def tried(self, *words: bytes) -> Any:
        """Return the reply; an error reply as what would be raised."""
        try:
            return self.command(*words)
        except ServerUnreachable:
            raise
        except ServerError as error:
            return error

    def optional(self, *words: bytes) -> Any:
        """Return the reply; None when it is an error."""
        reply = self.tried(*words)
        return None if isinstance(reply, ServerError) else reply

    @cached_property
    def info(self) -> Facts:
        """Return INFO's facts; empty when the user may not ask."""
        self.asked_at = now()
        return facts(self.optional(b"INFO"))

    @cached_property
    def cluster(self) -> Facts:
        """Return CLUSTER INFO's facts; empty elsewhere, and when the user may not ask."""
        clustered = self.info.get("cluster_enabled") == "1"
        return facts(self.optional(b"CLUSTER", b"INFO")) if clustered else {}

    def setting(self, name: str) -> str:
        """Return a setting; empty when the user may not ask."""
        values = [*mapped(self.optional(b"CONFIG", b"GET", name.encode()) or {}).values()]
        return values[0].decode(errors="replace") if values else ""

    @cached_property
    def membership(self) -> dict[bytes, bytes] | None:
        """Return what a node of a quorum knows of the others; None when the user may not ask."""
        found = self.optional(b"HGETALL", membership_key(self.session.prefix))
        return None if found is None else mapped(found)

    @property
    def scheme(self) -> str:
        """Return how the URL of this server begins."""
        return self.session.url().partition("://")[0]

    def sample(self, times: int = _SAMPLES) -> None:
        """Ask the server what time it is, several times, so that the samples span some time."""
        for turn in range(times):
            if turn:
                time.sleep(_PAUSE_SECONDS)
            asked, wall = now(), time.time()
            seconds, micros = self.command(b"TIME")
            answered = now()
            instant = int(seconds) + int(micros) / 1e6
            self.samples.append(Sample(asked, answered, wall + (answered - asked) / 2, instant))


def literal(text: str) -> str:
    """Return the pattern of SCAN or ACL that matches this text only."""
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)


def mapped(reply: Any) -> dict[bytes, bytes]:
    """Return names and values of a reply, which RESP2 sends one after the other."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def number(known: Facts, name: str) -> int:
    """Return a fact that is a number; 0 when it is missing."""
    try:
        return int(known.get(name) or 0)
    except ValueError:
        return 0
