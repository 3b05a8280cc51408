"""What a state that can be waited for must tell: how to ask for it, and what the answers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from fencelock._core.port import Args, Keys, Reply

if TYPE_CHECKING:
    from fencelock._core.want import Stray
    from fencelock._core.watch import Watcher
    from fencelock.scripts import Script


class Question(NamedTuple):
    """A request to the server."""

    script: Script
    keys: Keys
    args: Args


class Signal(Protocol):
    """A state that can be waited for: how to ask for it, and what the answers mean."""

    @property
    def key(self) -> bytes:
        """Return the state's own key."""

    @property
    def name(self) -> str:
        """Return the name, for messages."""

    def first(self, watcher: Watcher, asked_us: int) -> Question:
        """Ask for the first time, or again without an answer so far."""

    def look(self, watchers: list[Watcher]) -> Question:
        """Ask for several who know their generation."""

    @property
    def lingers(self) -> bool:
        """Return True if a wait that came true may still be on the list."""

    @property
    def leaves(self) -> bool:
        """Return True if a wait that ends without a verdict leaves the list here."""

    @property
    def proves_each(self) -> bool:
        """Return True if a look proves those that it names, and nobody else of this client."""

    def leave(self, watcher: Watcher, *, late: bool, shared: bool) -> Question:
        """Ask one last time; ``late``: time is up; ``shared``: others need the waiter's channel."""

    def learn(self, watcher: Watcher, reply: Reply) -> None:
        """Take a waiter's part of an answer: its verdict, or its generation."""

    def hear(self, watcher: Watcher, outcome: bytes) -> None:
        """Take the message that the waiter's generation ended."""


class Request(NamedTuple):
    """What ports ask of any waiter: its id."""

    waiter: bytes
    strays: tuple[Stray, ...] = ()  # as of a request for a lock: see want.py
