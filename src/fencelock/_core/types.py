"""The types of requests and replies, and the error of a request without a reply."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fencelock._core.round_trips import RoundTrips
from fencelock._runtime.typed import Any
from fencelock.errors import ClientClosed, ServerError
from fencelock.scripts import Script

Keys = Sequence[bytes]
Args = Sequence[bytes | int]
# A script with its keys and arguments.
Call = tuple[Script, Keys, Args]
# One in wire form, with a key that it touches.
PackedCall = tuple[bytes, bytes]
# What a server answers: integers, bytes, None, and lists of these. Scripts document their own.
Reply = Any
# The identity of a thread (``process.ThreadUnit``), or a task.
UnitId = Hashable


class Carrier:
    """What carries requests to a server, one after the other: a connection of some wire."""

    __slots__ = ("trips",)

    trips: RoundTrips  # of its address


class NoReply(Exception):
    """No answer came. ``sent`` is True if the request may have reached the server.

    ``undo_connection`` is the connection that carried it: an undo sent there cannot overtake it.
    The client's or the system's own exception is the ``__cause__``.
    """

    def __init__(self, message: str, *, sent: bool, undo_connection: Carrier | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.undo_connection = undo_connection


# Codes by which a server says that it is no master, or has just ceased to be one.
DEMOTED = frozenset({"READONLY", "MASTERDOWN", "UNBLOCKED"})


class Demoted(NoReply):
    """A replica answered: no request may go to it, and its address may lead to the master now.

    ``refusal`` is what it said, until a flow takes that. ``mastered``: a master answered this
    client at the address before.
    """

    def __init__(self, refusal: ServerError, *, mastered: bool, sent: bool = False) -> None:
        super().__init__(str(refusal), sent=sent)
        self.refusal: ServerError | None = refusal
        self.mastered = mastered


def closed() -> ClientClosed:
    """Return the error for a client that was closed."""
    return ClientClosed("this client was closed: make another one")
