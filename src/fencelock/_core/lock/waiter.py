"""The state of one acquisition that is under way: its request, and what was pushed to it."""

from __future__ import annotations

from math import inf
from typing import Any

from fencelock._core.attempt_log import AttemptLog
from fencelock._core.deadlines import handoff_deadline
from fencelock._core.lock.hold import Grant
from fencelock._core.lock.request import AcquireRequest
from fencelock._core.types import Reply


class Waiter(AttemptLog):
    """One acquisition: its request, and what was pushed to it while it waits.

    Most never wait, so the defaults are class attributes.
    """

    channel = b""
    asked_at: float = 0.0  # local instant before the last request that was answered
    answered_us: int = 0  # the server's time in that answer
    trip: float = 0.0  # how long that answer took
    ahead: int | None = None  # how many others were in line before it, in that answer
    local: bool = False  # it waits for others of this client; see tenure.py
    stood: bool = False  # it was in line
    asking: bool = False  # its request is under way
    placed: bool = False  # it is in line, as far as is known: it need not ask
    releases: AcquireRequest | None = None  # whose tenure ends with its request; see turns.py
    waits_since: float = 0.0  # since when one of this client waits for what this one asks for
    latest: float = inf  # no first answer is waited for longer
    verdict: Any = None  # the answer about ``releases``
    driver: Any = None  # whose it was made, if it was left to another: that one undoes it
    outlasts = True  # in line, it retries while the server is unreachable
    recalls = False  # a lease was recalled that may be idle
    refused: bool = False  # that lease is in use: a try ends
    idle: bool = False  # that lease is not in use
    said: bytes = b""  # who waits inside a client, as that client says
    news: bool = False  # something below was set since the last wait
    grant: Grant | None = None
    pushed: tuple[int, int, int] | None = None  # fence, granted us, lease ms
    connection: Any = None  # the port's: connection, future
    origin: Any = None  # the port's: the connection of its requests, in a Cluster or with replicas

    def __init__(self, request: AcquireRequest) -> None:
        self.request = request

    @property
    def path(self) -> object:
        """Return the connection of its last request: an undo is sent there, after it."""
        return self.undo_connection or self.origin or self.connection

    @property
    def key(self) -> bytes:
        """Return a key in the slot of what is waited for."""
        return self.request.keys.lock

    def hear(self, fence: int, granted_us: int, lease_ms: int) -> None:
        """Take a pushed grant. It may arrive before the reply to the request."""
        self.pushed = (fence, granted_us, lease_ms)
        self.news = True

    def learn(self, state: bytes) -> None:
        """Note whether the lease that was recalled, or asked about, is ``busy`` or ``idle``."""
        self.refused, self.idle = state == b"busy", state == b"idle"
        self.news = True

    def hear_of_others(self, said: bytes) -> None:
        """Note who waits inside the client that was asked."""
        self.said, self.news = said, True

    def answered(self, asked_at: float, answered_us: int, now: float) -> None:
        """Note the answer that put us in line; an earlier push no longer counts."""
        self.asked_at, self.answered_us = asked_at, answered_us
        self.trip = now - asked_at
        if self.pushed is not None and self.pushed[1] < answered_us:
            self.pushed = None

    def granted(self, now: float) -> Grant | None:
        """Return the grant that was pushed, if any."""
        if self.grant is None and self.pushed is not None:
            fence, granted_us, lease_ms = self.pushed
            lease = lease_ms / 1000
            deadline = handoff_deadline(self.asked_at, self.answered_us, granted_us, lease, now)
            self.grant = Grant(fence, deadline, lease)
        return self.grant

    def judged(self, reply: Reply) -> Reply:
        """Note the first answer about the tenure that ends; return that about this request."""
        verdict, answer = reply
        if self.verdict is None:
            self.verdict = verdict
        return answer

    def forget(self) -> None:
        """Start afresh: nothing pushed so far counts for the next request."""
        self.grant, self.pushed, self.news, self.placed = None, None, False, False

    def lose_place(self) -> None:
        """Note that the server may not know us any more: ask again."""
        self.news = True
