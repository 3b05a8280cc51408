"""Follow the master of a service: ask its Sentinels, connect to it, prove its answers.

Rules of this file:

- A round asks all Sentinels at once, each in a flow of its own that ends by itself, however many
  callers wait for it and for how long. So a slow resolver keeps no caller beyond its deadline
  (I13), and no cancellation leaves a round half asked.
- Callers that need a round at once share it; a caller that needs a later one waits for its end.
- A round is over when all expected Sentinels have answered, or when most have and the others had
  their grace period. A later answer still counts.
- A caller whose time is up does not wait for the others. Without most answers it has no proof.
- A push waits until it is proved that it counts, and all later pushes wait after it, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from fencelock._core.round_trips import DIAL_SECONDS, PROVED_HANDOFF_TRIPS, RoundTrips
from fencelock._core.types import NoReply
from fencelock._topology.io import Flow, Io
from fencelock._topology.sentinel import (
    FIRST_FACTOR,
    FRESH_SECONDS,
    GRACE_SECONDS,
    PUSH_SECONDS,
    ROUND_TRIPS,
    SENTINEL_SECONDS,
    MasterState,
    Outcome,
    SentinelReply,
    SentinelService,
    check_role,
    demoted,
    freshness,
    parse_reply,
    proof_since,
    proof_timeout,
    questions,
    unreachable,
)
from fencelock.errors import FencelockError, ServerError, ServerUnreachable

# Earlier than any request: its answer needs a round that begins now.
LONG_AGO = float("-inf")


class MasterIo(Io, Protocol):
    """Connections to any server."""

    async def dial(self, source: Any, until: float, pushed: Any, guard: Any = None) -> Any:
        """Open a connection to one server and greet it; ``pushed`` is called with its pushes.

        ``guard``: the ``MasterGuard`` that its answers and pushes must pass. Raises ``NoReply`` or
        a ``ServerError`` when there is no connection by ``until``.
        """


def to_sentinels(service: SentinelService) -> RoundTrips:
    """Return the round trips to each Sentinel, of which the slowest counts."""
    trips = RoundTrips()
    for _ in service.sentinels:
        trips.part()
    return trips


def round_seconds(trips: RoundTrips) -> float:
    """Return how long Sentinels get to answer."""
    if not trips.seen:
        return SENTINEL_SECONDS * FIRST_FACTOR
    return trips.within(SENTINEL_SECONDS, ROUND_TRIPS)


class Round:
    """One question to all Sentinels, and their answers, which the mutex guards.

    Flows are started, and waiters notified, outside the mutex: either may collect garbage, and a
    finalizer may need a connection to the master.
    """

    def __init__(
        self, service: SentinelService, state: MasterState, io: MasterIo, trips: RoundTrips
    ) -> None:
        self._trips = trips  # to the Sentinels
        self._service = service
        self._state = state
        self._io = io
        self._heard, self._majority, self._done = io.latch(), io.latch(), io.latch()
        self._unanswered = len(service.sentinels)
        self.began = io.now()
        self._latest = self.began + round_seconds(trips)
        self._ends = self._latest
        self.outcomes: list[Outcome] = [None] * self._unanswered

    def ask(self) -> None:
        """Ask every Sentinel, each in a flow in the background."""
        for at in range(len(self.outcomes)):
            if not self._io.spawn(partial(self._ask, at), "fencelock-sentinel"):
                self._open()  # a limit, or the end of the interpreter

    @property
    def is_over(self) -> bool:
        """Return True if no caller needs to wait any more."""
        return self._done.is_open or self._io.now() >= self._ends

    def proves(self, asked_at: float, answered_at: float) -> bool:
        """Return True if most have answered this round, and it is fresh enough for an answer."""
        fresh = self.began >= proof_since(asked_at, answered_at, freshness(self.outcomes))
        return fresh and self._state.has_majority(self.outcomes)

    async def wait(self, until: float) -> None:
        """Return when enough answered, when each had its time, or at the instant."""
        for latch in (self._heard, self._majority, self._done):
            await latch.wait_until(min(until, self._ends))
        with self._io.mutex():
            self.note_end()

    def note_end(self) -> None:
        """Note in the state that this round is over, if it is; under the mutex."""
        if self.is_over:
            self._state.end_round(self.began, self.outcomes)

    async def _ask(self, at: int) -> None:
        outcome = await self._said(at, self._latest)
        with self._io.mutex():
            complete, majority = self._take(at, outcome)
        if outcome is not None:
            self._heard.open()
        if complete:
            self._open()
        elif majority:
            self._majority.open()

    async def _said(self, at: int, until: float) -> Outcome:
        """Ask one Sentinel; None when it did not answer in time."""
        io, sentinel, asked = self._io, self._service.sentinels[at], questions(self._service)
        began = io.now()
        try:
            connection = await io.dial(sentinel, until, lambda *_: None)  # it pushes nothing
            try:
                began = io.now()
                replies = await io.commands(connection, asked, until)
                self._trips.parts[at].saw(io.now() - began)
                return parse_reply(*replies)
            finally:
                connection.close()
        except NoReply:
            return None
        except FencelockError as error:
            self._trips.parts[at].saw(io.now() - began)
            return error

    def _take(self, at: int, outcome: Outcome) -> tuple[bool, bool]:
        """Take one Sentinel's answer; return whether all have answered now, and whether most."""
        state, outcomes = self._state, self.outcomes
        outcomes[at] = outcome
        self._unanswered -= 1
        state.heard_from(at, outcome)
        if outcome is not None:  # now it is known how far they are
            self._ends = min(self._ends, self.began + round_seconds(self._trips))
        state.learn((each for each in outcomes if isinstance(each, SentinelReply)), self.began)
        complete = state.is_complete(outcomes) or not self._unanswered
        majority = state.has_majority(outcomes)
        if complete or self.is_over:
            state.end_round(self.began, outcomes)
        elif majority and not self._majority.is_open:
            self._ends = min(self._ends, self._io.now() + GRACE_SECONDS)
        return complete, majority

    def _open(self) -> None:
        self._heard.open()
        self._majority.open()
        self._done.open()


async def survey(io: MasterIo, service: SentinelService, until: float) -> Sequence[Outcome]:
    """Return what each Sentinel replies now; None for one without an answer by the instant."""
    current = Round(service, MasterState(service), io, to_sentinels(service))
    current.ask()
    await current.wait(until)
    return tuple(current.outcomes)


class MasterMonitor:
    """Follows the master of one service, for the threads of a client or the tasks of a loop."""

    def __init__(
        self, service: SentinelService, io: MasterIo, trips: RoundTrips | None = None
    ) -> None:
        self.service = service
        self.io = io
        self.trips: RoundTrips = trips or RoundTrips(DIAL_SECONDS)  # to the master
        self.trips.handoff = PROVED_HANDOFF_TRIPS
        self.to_sentinels: RoundTrips = to_sentinels(service)
        self.state = MasterState(service)
        self._round: Round | None = None

    async def connect(self, until: float, pushed: Any) -> Any:
        """Open a connection to the master.

        Raises ``NoReply`` when there is none now; a ``ServerError`` when it was never known.
        """
        found = await self.refresh(*self.state.locating(self.io.now(), until))
        generation = self.state.generation  # first: one that is too old only costs another try
        named = self.state.master(found.outcomes if found else ())
        self.trips.suppose(self.to_sentinels.seconds)
        seconds = self.trips.to_open(until - self.io.now())
        silent_at = self.io.now() + seconds
        guard = MasterGuard(self, generation)
        try:
            connection = await self.io.dial(self.service.at(named), silent_at, pushed, guard)
        except ServerUnreachable as error:
            raise unreachable(self.service, error) from error
        except NoReply:
            if self.io.now() >= silent_at and self.state.fresh_for == FRESH_SECONDS:
                self.trips.missed(seconds)  # the Sentinels find nothing wrong with it
            raise
        try:
            check_role(self.service, await self.io.command(connection, (b"HELLO",), silent_at))
        except BaseException:
            connection.close()
            raise
        guard.greeting = False
        return connection

    async def refresh(self, since: float, until: float) -> Round | None:
        """Wait for a round that began at ``since`` or later; when time is up, return the last."""
        while True:
            fresh = Round(self.service, self.state, self.io, self.to_sentinels)
            with self.io.mutex():
                current = self._round
                if current is not None:
                    current.note_end()  # all that waited for it may have left before
                if self.state.asked_at >= since:
                    return current
                if current is None or current.is_over:
                    current = self._round = fresh
            if current is fresh:
                fresh.ask()
            await current.wait(until)
            if current.began >= since or self.io.now() >= until:
                return current


class MasterGuard:
    """Decides, for one connection to a master, whether its answers and pushes count.

    The connection closes when a method here raises: its next answers would not count either.
    """

    def __init__(self, monitor: MasterMonitor, generation: int) -> None:
        self._monitor = monitor
        self.state = monitor.state
        self._now = monitor.io.now
        self.generation = generation
        self._held: list[tuple[Any, Callable[[Any], None], float]] = []
        self.greeting = True  # a server's greeting grants nothing

    @property
    def round_seconds(self) -> float:
        """Return how long Sentinels get to answer."""
        return round_seconds(self._monitor.to_sentinels)

    @property
    def _push_seconds(self) -> float:
        return self._monitor.to_sentinels.within(PUSH_SECONDS, 2 * ROUND_TRIPS)

    @property
    def is_replaced(self) -> bool:
        """Return True if a later master is known: nothing more may be sent here."""
        return self.generation != self.state.generation

    def counts(self, asked_at: float) -> bool:
        """Return True if an answer that has just come counts without another question."""
        state = self.state
        if state.asked_at < proof_since(asked_at, self._now(), state.fresh_for):
            return self.greeting
        # in this order: a round is over only when the state has learned from it
        return self.generation == state.generation or self.greeting

    async def prove(self, asked_at: float, until: float) -> None:
        """Return when the answer to a request of that instant counts, as far as can be known.

        Raises ``NoReply`` when there is another master now.
        """
        answered_at = self._now()
        far = self._monitor.to_sentinels.within(0.0, ROUND_TRIPS)
        await self._prove(asked_at, answered_at, proof_timeout(answered_at, until, far))

    async def _prove(self, asked_at: float, answered_at: float, until: float) -> None:
        if self.greeting:
            return
        state, label = self.state, self._monitor.service.label
        since, current = proof_since(asked_at, answered_at, state.fresh_for), None
        while state.asked_at < since and (current is None or self._now() < until):
            current = await self._monitor.refresh(since, until)
            # by what this round has found
            since = proof_since(asked_at, answered_at, state.fresh_for)
        if self.is_replaced:
            text = f"{label}: there is another master now"
            raise NoReply(text, sent=True)
        proved = current is not None and current.proves(asked_at, answered_at)
        if not (proved or state.trusts(since)):
            raise NoReply(f"{label}: no Sentinel proved the answer in time", sent=True)

    async def refused(self, error: ServerError, asked_at: float, until: float) -> None:
        """Return when a refusal counts; an old master refuses what the new one accepts.

        Raises ``NoReply`` when the server is a replica now, or there is another master.
        """
        broken = demoted(self._monitor.service, error)
        if broken is not None:
            try:
                raise broken from error
            finally:
                del broken
        await self.prove(asked_at, until)

    async def still_master(self, until: float) -> None:
        """Return when a round that begins now names this master: an answer is late.

        Raises ``NoReply`` when there is another one.
        """
        await self.prove(LONG_AGO, until)

    def take(self, message: Any, deliver: Callable[[Any], None], until: float) -> Flow | None:
        """Deliver a push that counts; if that must be proved first, return the flow that does.

        Later pushes wait for the end of that flow, too; it ends around ``until``.
        """
        heard_at = self._now()
        if not self._held and self.counts(heard_at):
            deliver(message)
            return None
        self._held.append((message, deliver, heard_at))
        return partial(self._deliver_held, until) if len(self._held) == 1 else None

    async def _deliver_held(self, until: float) -> None:
        try:
            while self._held:
                message, deliver, heard_at = self._held[0]
                await self._prove(heard_at, heard_at, min(heard_at + self._push_seconds, until))
                del self._held[0]
                deliver(message)
        except BaseException:
            self._held.clear()  # the connection ends, and what it heard would keep it alive
            raise
