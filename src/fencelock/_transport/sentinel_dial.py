"""Threads and Sentinels: ask all at once, connect to the master, look at each answer's age.

Rules of this file:

- A round of questions is asked by threads of its own, one a Sentinel, which end by themselves: who
  waits for it, and for how long, changes nothing. So no address that is slow to be resolved keeps
  a caller beyond its deadline (I13), and no interrupt leaves a round half asked.
- Threads that need a round at once share it; who needs a later one waits for its end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from fencelock._core.types import Broken, Reply
from fencelock._transport.dial import Make, Pushed
from fencelock._transport.direct import Connection
from fencelock._transport.opener import open_one
from fencelock._transport.sentinel import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    FRESH_SECONDS,
    GRACE_SECONDS,
    Known,
    Watched,
    Word,
    greeted,
    not_now,
    patience,
    unconnected,
    understood,
)
from fencelock._transport.source import One
from fencelock._transport.wire import INCOMPLETE, ReplyError, server_error
from fencelock.clock import now
from fencelock.errors import FencelockError, ServerUnreachable
from fencelock.mutex import Latch, mutex, started


class Watch:
    """Follows the master of one service for the threads of one client."""

    def __init__(self, source: Watched) -> None:
        self.source = source
        self.known = Known(source)
        self._lock = mutex()
        self._round: Round | None = None

    def connect(self, until: float, pushed: Pushed) -> Connection:
        """Open a connection to the master.

        Broken when there is none now; a ServerError when nobody ever said where it is.
        """
        found = self.refresh(*self.known.locating(now(), until))
        term = self.known.term  # before the word: one that is too old only costs another try
        word = self.known.master(found.words if found else ())
        until = min(until, now() + CONNECT_SECONDS)
        try:
            connection = open_one(self.source.at(word), until, pushed, self._make(term))
        except ServerUnreachable as error:
            raise unconnected(self.source, error) from error
        try:
            greeted(self.source, connection.command((b"HELLO",), until))
        except BaseException:
            connection.close()
            raise
        if isinstance(connection, WatchedConnection):
            connection.greeting = False
        return connection

    def _make(self, term: int) -> Make:
        return lambda sock, pushed: WatchedConnection(sock, pushed, self, term)

    def refresh(self, since: float, until: float) -> Round | None:
        """Wait for a round that began since then; the last one when time was up before."""
        while True:
            fresh = Round(self.source, self.known, self._lock)
            with self._lock:
                current = self._round
                if self.known.asked_at >= since:
                    return current
                if current is None or current.over:
                    current = self._round = fresh
            if current is fresh:
                fresh.ask()
            current.wait(until)
            if current.began >= since or now() >= until:
                return current


def survey(source: Watched, until: float) -> Sequence[Word | Exception | None]:
    """Return what each Sentinel says now; None for one without an answer by the instant."""
    current = Round(source, Known(source), mutex())
    current.ask()
    current.wait(until)
    return tuple(current.words)


class Round:
    """One question to all Sentinels, and what they answer; its lock guards that.

    Threads are started, and waiters notified, outside the lock: what does either may collect
    garbage, and a finalizer may need a connection to the master.
    """

    def __init__(self, source: Watched, known: Known, lock: threading.RLock) -> None:
        self._source = source
        self._known = known
        self._lock = lock
        self._most, self._done = Latch(), Latch()
        self.began = now()
        self._ends = self.began + ANSWER_SECONDS
        self.words: list[Word | Exception | None] = [None] * len(source.sentinels)

    def ask(self) -> None:
        """Ask every Sentinel, each in a thread."""
        for at in range(len(self.words)):
            asks = threading.Thread(
                target=self._ask, args=(self._source, at), name="fencelock-sentinel", daemon=True
            )
            if started(asks) is not None:  # the interpreter ends: no new threads
                self._end()

    @property
    def over(self) -> bool:
        """Return True if nobody needs to wait any more."""
        return self._done.is_open or now() >= self._ends

    def wait(self, until: float) -> None:
        """Return when enough answered, when each had its time, or at the instant."""
        for latch in (self._most, self._done):
            latch.wait(max(0.0, min(until, self._ends) - now()))
        if self.over:
            with self._lock:
                self._known.end_round(self.began, self.words)

    def _ask(self, source: Watched, at: int) -> None:
        word = _word_of(source, source.sentinels[at], self.began + ANSWER_SECONDS)
        with self._lock:
            self.words[at] = word
            self._known.heard(at, word)
            self._known.learn((each for each in self.words if isinstance(each, Word)), self.began)
            enough = self._known.enough(self.words)
            most = not enough and self._known.most(self.words) and not self._most.is_open
            if enough:
                self._known.end_round(self.began, self.words)
            elif most:
                self._ends = min(self._ends, now() + GRACE_SECONDS)
        if enough:
            self._end()
        elif most:
            self._most.open()

    def _end(self) -> None:
        self._most.open()
        self._done.open()


def _word_of(source: Watched, sentinel: One, until: float) -> Word | Exception | None:
    """Ask one Sentinel; None when it did not answer in time."""
    try:
        connection = open_one(sentinel, until, _ignored)
    except Broken:
        return None
    except FencelockError as error:
        return error
    try:
        return understood(*[connection.command(each, until) for each in source.questions()])
    except Broken:
        return None
    except FencelockError as error:
        return error
    finally:
        connection.close()


def _ignored(connection: Connection, message: list[bytes]) -> None:
    """Hear nothing: a Sentinel was not asked to tell."""


class WatchedConnection(Connection):
    """A connection to the master of a service: an answer counts only while it is the master."""

    __slots__ = ("_listens_until", "_to", "_watch", "greeting", "term")

    def __init__(self, sock: Any, pushed: Pushed, watch: Watch, term: int) -> None:
        super().__init__(sock, _heard)  # no bound method: a cycle would keep the socket open
        self._to = pushed
        self._watch = watch
        self._listens_until = 0.0
        self.greeting = True  # what it says now grants nothing
        self.term = term

    def answer(self, until: float, *, confirms: bool = False) -> Reply:
        """Read the next answer; Broken also when there is another master now."""
        self._listens_until = until
        try:
            reply = super().answer(until, confirms=confirms)
        except ReplyError as error:
            broken = not_now(self._watch.source, server_error(error))
            if broken is None:
                self.prove(self.asked_at, until)  # an old master refuses what the new one takes
                raise
            self.sound = False
            raise broken from error
        if not confirms:  # to hear a channel is no grant
            self.prove(self.asked_at, until)
        return reply

    def listen(self, until: float) -> bool:
        """Read one push; Broken when it came from a master that is none any more."""
        self._listens_until = until
        return super().listen(until)

    def settle(self) -> bool:
        """Take what came while the connection was idle; False when it is of no use any more."""
        if self.term != self._watch.known.term:
            self.sound = False
        return self.sound and super().settle()

    def send(self, packed: bytes, requests: int = 1) -> None:
        """Send a request, or several; the answer's age counts from here."""
        self.asked_at = now()
        super().send(packed, requests)

    def prove(self, asked_at: float, until: float) -> None:
        """Return when this is the master as far as can be known; see ``sentinel.py``."""
        if self.greeting:
            return
        answered_at = now()
        known = self._watch.known
        since = known.since(asked_at, answered_at)
        if known.asked_at < since:
            self._watch.refresh(since, patience(answered_at, until))
        try:
            known.check(self.term)
        except Broken:
            self.sound = False
            raise

    def hear(self, message: list[bytes]) -> None:
        """Hand a push on, if this is still the master."""
        current = now()
        self.prove(current, max(self._listens_until, current))
        self._to(self, message)

    def _next(self, until: float, *, broken: bool = True) -> Any:
        """Return the next message; while an answer is late, ask whether this is the master."""
        while broken and until - now() > FRESH_SECONDS:
            message = super()._next(now() + FRESH_SECONDS, broken=False)
            if message is not INCOMPLETE:
                return message
            self.prove(0.0, until)
        return super()._next(until, broken=broken)


def _heard(connection: Connection, message: list[bytes]) -> None:
    if isinstance(connection, WatchedConnection):
        connection.hear(message)
