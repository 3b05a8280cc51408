"""What is known of a request while it is retried."""

from __future__ import annotations

from fencelock._core.types import NoReply
from fencelock.errors import ServerError


class AttemptLog:
    """What is known of a request so far: whether it may have run, and on which connection."""

    # Class attributes until something happens: most requests are answered at once.
    began: bool = False  # a request went out: there is something to undo
    sent: bool = False
    undo_connection: object = None
    tries: int = 0
    refusal: ServerError | None = None  # "not now", the last time

    def start(self) -> None:
        """Begin with another request: its attempts are counted from zero."""
        if self.tries:
            self.tries, self.refusal = 0, None

    def begin(self) -> None:
        """Note that a request goes out: its undo must not use an older request's connection."""
        self.began = True
        self.undo_connection = None

    def note(self, broken: NoReply) -> None:
        """Remember that an attempt got no answer."""
        self.sent = self.sent or broken.sent
        self.undo_connection = broken.undo_connection
