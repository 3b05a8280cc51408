"""The protocol of a state that clients wait for, and this client's waiters for it."""

from __future__ import annotations

from typing import Any, Protocol

from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.keys import SignalKeys
from fencelock._core.seat import Seat, Stray
from fencelock._core.types import Call, NoReply, Reply

# A client's first waiter asks for all of them; later ones wait this much longer before they ask.
LATER_WAITER_SECONDS = 0.5
# How many ended generations are remembered until the waiter knows its own.
HEARD_MAX = 16


class WaitableState(Protocol):
    """A state that clients wait for: how to ask for it, and what the answers mean."""

    @property
    def keys(self) -> SignalKeys:
        """Return its keys."""

    @property
    def lists_channels(self) -> bool:
        """Return True if its list has channels, and a heartbeat counts for all waiters of one.

        Else it has the waiters, and a heartbeat counts for those that it names.
        """

    def first(self, watcher: StateWaiter, asked_us: int) -> Call:
        """Ask for the first time, or again without an answer so far."""

    def check(self, watchers: list[StateWaiter]) -> Call:
        """Ask for several waiters that know their generation."""

    def leave(self, watcher: StateWaiter, *, late: bool, shared: bool) -> Call:
        """Ask one last time; ``late``: time is up; ``shared``: others need the waiter's channel."""

    def learn(self, watcher: StateWaiter, reply: Reply) -> None:
        """Take a waiter's part of a reply: its verdict, or its generation."""

    def hear(self, watcher: StateWaiter, outcome: bytes) -> None:
        """Take the message that the waiter's generation ended."""


class StateWaiter(Seat):
    """One wait for a state. ``verdict`` is how it ended; its type depends on the state."""

    verdict: Any = None
    trip: float = 0.0  # how long its last answer took
    # Those of its seat, which type checkers want to see again where they are set.
    id: bytes
    key: bytes
    owed: tuple[Stray, ...]
    news: bool
    gen: bytes = b""  # the generation whose end it waits for
    place: Any = None  # what else the state was given for it, such as an index

    def __init__(self, signal: WaitableState, who: bytes) -> None:
        self.id = who
        self.signal: WaitableState = signal
        self.key = signal.keys.state
        self.heard: dict[bytes, bytes] = {}

    def owe(self, strays: tuple[Stray, ...]) -> None:
        """Note connections that may still bring a copy of a request: it is undone there, too."""
        self.owed += tuple(stray for stray in strays if stray not in self.owed)

    def note(self, broken: NoReply) -> None:
        """Remember that an attempt got no answer; what it may still bring is undone later."""
        super().note(broken)
        if self.signal.lists_channels and broken.undo_connection is not None:
            self.owe((Stray(broken.undo_connection, self.channel),))

    def settle(self, gen: bytes) -> None:
        """Note the generation to wait for; its end may have been announced before this reply."""
        self.gen = gen
        if gen in self.heard:
            self.signal.hear(self, self.heard[gen])

    def on_message(self, gen: bytes, outcome: bytes) -> None:
        """Take a message. One of another generation is a reason to ask the server."""
        if gen == self.gen:
            self.signal.hear(self, outcome)
        elif not self.gen and len(self.heard) < HEARD_MAX:
            self.heard[gen] = outcome
        if gen != self.gen or self.verdict is not None:
            self.news = True


class StateWait:
    """The waiters of this client for one state, in order of arrival."""

    def __init__(self, now: float) -> None:
        self.waiters: dict[StateWaiter, None] = {}
        self.owes = False  # a departed waiter left our channel on the list, for the others
        # The first waiter has no answer yet; one answered earlier must not ask again at once.
        self.check_at = now + HEARTBEAT_SECONDS

    def bound(self, watcher: StateWaiter) -> float:
        """Return how long this waiter may sleep before it asks the server."""
        first = next(iter(self.waiters), watcher)
        return self.check_at if watcher is first else self.check_at + LATER_WAITER_SECONDS
