"""What a wire needs of an attempt, a wait or a question."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fencelock._core.keys import LockKeys
from fencelock._core.types import Carrier, NoReply, Reply
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import Any
from fencelock.errors import FencelockError, ServerError


class Stray(NamedTuple):
    """A request that was repeated with its id, and may still arrive on its first connection.

    ``undo_connection`` is that connection; None when it broke, so that no undo can follow on it.
    """

    undo_connection: Carrier | None
    channel: bytes


class Seat:
    """A place at a wire: its connection, what is pushed to it, and what is known of its request.

    Class attributes until something happens: most requests are answered at once.
    """

    began: bool = False  # a request went out: there is something to undo
    sent: bool = False  # one that was not answered may have run
    undo_connection: Carrier | None = None  # that carried it: what is sent there comes after it
    tries: int = 0
    refusal: ServerError | None = None  # "not now", the last time

    connection: Any = None  # the wire's: a connection, a future, or a bell
    origin: Any = None  # the wire's: the connection of its requests, in a Cluster or with replicas
    channel: bytes = b""
    topic: bytes = b""  # another program's channel: a message there has it ask again
    eager: bool = True  # it needs a channel; else only for a place in line
    listens: bool = True  # it is to hear of changes of a state
    stood: bool = False  # it was in line
    local: bool = False  # it waits for others of this client, without a connection
    news: bool = False  # something was noted for it since the last wait
    idle: bool = False  # the lease that it asked about is not in use
    said: bytes = b""  # who waits inside a client, as that client says
    # What may still come of its requests: when it is over, that is undone; see ``undo_owed``.
    owed: tuple[Stray, ...] = ()

    id: bytes = b""  # by which pushes name it; a seat for a question alone has none, and no keys
    keys: LockKeys  # of what it is about
    key: bytes  # in the slot of that

    @classmethod
    def of(cls, keys: LockKeys, own_id: bytes) -> Seat:
        """Return a seat that waits for something."""
        seat = cls()
        seat.keys, seat.key, seat.id = keys, keys.lock, own_id
        return seat

    @property
    def path(self) -> Carrier | None:
        """Return the connection of its last request: an undo is sent there, after it."""
        on = self.undo_connection or self.origin or self.connection
        return on if isinstance(on, Carrier) else None

    # -- its request --------------------------------------------------------------------------

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

    # -- what is pushed to it -----------------------------------------------------------------

    def hear(self, fence: int, granted_us: int, lease_ms: int) -> None:
        """Take a pushed grant; a seat that asked for none learns that something changed."""
        del fence, granted_us, lease_ms
        self.news = True

    def learn(self, state: bytes) -> None:
        """Note whether the lease that was recalled, or asked about, is ``busy`` or ``idle``."""
        self.idle = state == b"idle"
        self.news = True

    def hear_of_others(self, said: bytes) -> None:
        """Note who waits inside the client that was asked."""
        self.said, self.news = said, True

    def lose_place(self) -> None:
        """Note that the server may not know us any more: ask again."""
        self.news = True


class Question(Seat):
    """What one of several servers is asked, and its outcome: an answer, or an error."""

    reply: Reply = None
    error: NoReply | FencelockError | None = None
    asked_at: float = 0.0
    answered_at: float = 0.0
    ended: bool = False  # the answer or an error came
    raw: bool = False  # a refusal is an answer, too
    pool: Any = None  # that its connection came from, and goes back to

    def __init__(self, node: Hashable, requests: Sequence[bytes]) -> None:
        self.node: Hashable = node
        self.requests: Sequence[bytes] = requests

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer."""
        self.reply, self.answered_at, self.ended = reply, now, True

    def fail(self, error: NoReply | FencelockError) -> None:
        """Take the error instead of an answer."""
        self.error, self.ended = error, True
        if isinstance(error, NoReply):
            self.note(error)

    def give_up(self) -> None:
        """Treat the silence as the error."""
        what = "answer" if self.began else "connection"
        self.fail(NoReply(f"no {what} in time", sent=self.began, undo_connection=self.connection))
