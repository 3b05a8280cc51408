"""Wait for a state on the server: a set event, an open latch, a full barrier.

Rules of this file:

- One script checks the state and adds the waiter to the list: no change is missed (I6).
- One message notifies all waiters of a channel. It may be lost, so every wait has a bound; then one
  waiter asks for all of this client that wait for the same state.
- A waiter waits for the end of one generation, the one that it found. After that its wait is over,
  also if the state has changed back since.
- A waiter that gives up asks one last time; the same script takes it off the list (I9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Self

from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.keys import SignalKeys
from fencelock._core.lock.waiting import Line
from fencelock._core.seat import Seat, Stray
from fencelock._core.types import Call, NoReply, Reply
from fencelock.errors import OutcomeUnknown, ServerError, ServerUnreachable

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# A timed-out wait may take this much longer to ask one last time: I13 allows 100 ms.
LEAVING_SECONDS = 0.08
# How many waiters of one client one command asks about; the others follow when they are first. If
# a heartbeat counts only for the waiters that it names, several commands are sent.
WAITERS_PER_CHECK = 1000
# How many ended generations are remembered until the waiter knows its own.
HEARD_MAX = 16


class StateSpec(NamedTuple):
    """A state that many wait for, as one handle names it: of an event, a latch or a barrier."""

    keys: SignalKeys
    kind: bytes
    idle_ttl: float
    of: int = 0  # the count with which a latch begins, or the parties of a barrier
    acts: bool = False  # the last of these runs an action


class StateWait(Seat):
    """One wait for a state. ``verdict`` is how it ended."""

    lists_channels = True  # its list has channels, and a heartbeat counts for all waiters of one:
    # else it has the waiters, and a heartbeat counts for those that it names

    verdict: str | None = None
    trip: float = 0.0  # how long its last answer took
    # Those of its seat, which type checkers want to see again where they are set.
    id: bytes
    key: bytes
    owed: tuple[Stray, ...]
    news: bool
    gen: bytes = b""  # the generation whose end it waits for

    def __init__(self, port: Engine, spec: StateSpec) -> None:
        self.port = port
        self.spec: StateSpec = spec
        self.id = port.new_id()
        self.key = spec.keys.state
        self.heard: dict[bytes, bytes] = {}

    # -- what each kind of state asks, and what the answers mean ------------------------------

    def first(self, asked_us: int) -> Call:
        """Ask for the first time, or again without an answer so far."""
        raise NotImplementedError

    def check(self, others: Sequence[Self]) -> Call:
        """Ask for it and other waiters, which all know their generation."""
        raise NotImplementedError

    def leave(self, *, late: bool, shared: bool) -> Call:
        """Ask one last time; ``late``: time is up; ``shared``: others need its channel."""
        raise NotImplementedError

    def take(self, reply: Reply) -> None:
        """Take its part of a reply: its verdict, or its generation."""
        raise NotImplementedError

    def ended(self, outcome: bytes) -> None:
        """Take the message that its generation ended."""
        raise NotImplementedError

    async def then(self) -> None:
        """Do what its verdict asks for, before its connection is given back."""

    # -- what comes ---------------------------------------------------------------------------

    def owe(self, strays: tuple[Stray, ...]) -> None:
        """Note connections that may still bring a copy of a request: it is undone there, too."""
        self.owed += tuple(stray for stray in strays if stray not in self.owed)

    def note(self, broken: NoReply) -> None:
        """Remember that an attempt got no answer; what it may still bring is undone later."""
        super().note(broken)
        if self.lists_channels and broken.undo_connection is not None:
            self.owe((Stray(broken.undo_connection, self.channel),))

    def settle(self, gen: bytes) -> None:
        """Note the generation to wait for; its end may have been announced before this reply."""
        self.gen = gen
        if gen in self.heard:
            self.ended(self.heard[gen])

    def on_message(self, gen: bytes, outcome: bytes) -> None:
        """Take a message. One of another generation is a reason to ask the server."""
        if gen == self.gen:
            self.ended(outcome)
        elif not self.gen and len(self.heard) < HEARD_MAX:
            self.heard[gen] = outcome
        if gen != self.gen or self.verdict is not None:
            self.news = True

    # -- the wait -----------------------------------------------------------------------------

    async def outcome(self, timeout: float | None) -> str | None:
        """Wait for the state and return the verdict; None when it did not come about in time.

        A timeout of 0 asks once, None waits for ever. Raises ServerUnreachable when no server
        answers, and a ServerError when the server refuses.
        """
        port = self.port
        give_up_at = inf if timeout is None else port.now() + timeout
        self.listens = timeout is None or timeout > 0
        try:
            with port.mutex:
                watch = port.lines.watches.setdefault(self.key, Line())
                if not watch.waiters:  # one answered earlier must not ask again at once
                    watch.heartbeat_at = port.now() + HEARTBEAT_SECONDS
                watch.waiters[self] = None
            await self._ask_first(give_up_at)
            while self.verdict is None:
                now = port.now()
                if now >= give_up_at:
                    if timeout:
                        frozen = now >= give_up_at + LEAVING_SECONDS / 2  # stopped: begin now
                        await self._leave(LEAVING_SECONDS + (now if frozen else give_up_at))
                    break
                if not self.news and now < watch.bound(self):
                    await port.wait(self, min(watch.bound(self), give_up_at))
                elif self.gen:
                    await self._look(watch, give_up_at)
                else:
                    await self._ask_first(give_up_at)
            self._part()
            await self.then()
            owes = self.sent or self.owed or (watch.owes and not watch.waiters)
            # Else our channel may be on the list, without a waiter.
            self.began = bool(self.lists_channels and owes)
        finally:
            try:
                self._undo()
            finally:
                self._part()
                port.close(self)
        return self.verdict

    def _part(self) -> None:
        """Take it from its line; a second call finishes what an interrupt left half done."""
        with self.port.mutex:
            watches = self.port.lines.watches
            watch = watches.get(self.key)
            if watch is not None:
                watch.waiters.pop(self, None)
                if not watch.waiters:
                    watches.pop(self.key, None)

    async def _ask_first(self, give_up_at: float) -> None:
        """Ask, and join the list if it listens; when the answer is lost, ask again."""
        port, began_at = self.port, self.port.now()

        def first() -> Call:
            return self.first(1 + int((port.now() - began_at) * 1e6) if self.sent else 0)

        (reply,) = await self._answer(port.answer_by(began_at, give_up_at), first)
        self._learn(reply)

    async def _look(self, watch: Line[StateWait], give_up_at: float) -> None:
        """Ask for every waiter of this state that knows its generation; others ask themselves."""
        self.news, port = False, self.port
        with port.mutex:
            alike = [each for each in watch.waiters if isinstance(each, type(self))]  # all are
            watch.heartbeat_at = port.now() + HEARTBEAT_SECONDS
        others = [each for each in alike if each.gen and not (each is self or each.verdict)]
        size = WAITERS_PER_CHECK - 1
        for start in range(0, max(1, len(others)), size):
            some = others[start : start + size]
            ends = give_up_at + LEAVING_SECONDS / 2
            until = min(port.now() + port.server_timeout, ends)
            try:
                replies = await self._answer(until, partial(self.check, some), ends)
            except ServerError:
                watch.heartbeat_at = 0.0  # the others are refused by their own questions, and soon
                raise
            for each, reply in zip([self, *some], replies, strict=True):
                each._learn(reply)  # noqa: SLF001 - another of ours
                if each is not self and (each.verdict is not None or each.news):
                    each.news = True
                    port.wake(each)
            if self.lists_channels or self.verdict is not None:
                return  # the waiter that is now first asks for the rest

    def _learn(self, reply: Reply) -> None:
        """Take a reply, unless a message came first."""
        if self.verdict is None:
            self.take(reply)

    async def _answer(self, until: float, question: Callable[[], Call], ends: float = 0.0) -> Reply:
        """Ask until there is an answer, and note when to ask again at the latest."""
        port = self.port
        asked_at, reply = await ask_listening(port, self, until, question, ends)
        self.trip, self.stood = port.now() - asked_at, True
        with port.mutex:
            watch = port.lines.watches[self.key]
            if next(iter(watch.waiters)) is self:
                watch.heartbeat_at = max(watch.heartbeat_at, asked_at + HEARTBEAT_SECONDS)
        return reply

    # -- its end ------------------------------------------------------------------------------

    def _last_request(self, *, late: bool) -> Call:
        """Return the last request; tasks of one client share a channel, which others may need."""
        self._part()
        with self.port.mutex:
            watch = self.port.lines.watches.get(self.key)
            waiters = watch.waiters if watch is not None else ()
            shared = any(each.channel == self.channel and not each.verdict for each in waiters)
            if watch is not None:
                watch.owes = watch.owes or shared
            if shared and self.lists_channels:  # the last of them to leave undoes these, too
                next(iter(waiters)).owe(self.owed)
                self.owed = ()
        return self.leave(late=late, shared=shared)

    async def _leave(self, until: float) -> None:
        """Ask one last time and leave the list; a near server's silence is not a "no" (I12)."""
        port, question, asked = self.port, self._last_request(late=True), Seat()

        async def once() -> Reply:
            await port.open(self, until, listen=False)
            return await port.call(*question, until, self)

        try:
            (reply,) = await port.persist(once, until, asked)
        except (OutcomeUnknown, ServerUnreachable) as silence:
            if self.trip > LEAVING_SECONDS / 2:  # far away: the answer may be on its way
                port.run_in_background(*question, asked.undo_connection)
                return
            self.undo_connection = asked.undo_connection
            text = "the timeout ended, and the server does not answer"
            raise ServerUnreachable(f"{self.spec.keys.name!r}: {text}: {silence}") from silence
        self._learn(reply)

    def _undo(self) -> None:
        """Leave the list after the last request, and after earlier ones that may still arrive."""
        if self.began and self.channel:
            path = self.path  # one request may follow on a connection: two would both read it
            self.owed = tuple(each for each in self.owed if each.undo_connection is not path)
            self.port.run_in_background(*self._last_request(late=False), path)
            for stray in self.owed:
                question = self.leave(late=False, shared=False)
                self.port.run_in_background(*question, stray.undo_connection)


def signalled(port: Engine, gen: bytes, outcome: bytes, key: bytes) -> None:
    """Pass the message that a generation has ended to all waiters of this client."""
    with port.mutex:
        watch = port.lines.watches.get(key)
        waiting = list(watch.waiters) if watch is not None else []
    for each in waiting:
        each.on_message(gen, outcome)
        port.wake(each)


async def ask_listening(
    port: Engine, seat: Seat, until: float, question: Callable[[], Call], ends: float = 0.0
) -> tuple[float, Reply]:
    """Connect a seat and ask until there is an answer; raise at the later of both instants.

    Returns the instant before the question was sent, too.
    """
    seat.start()
    while True:
        seat.news = False  # messages from here on are not covered by the answer
        try:
            await port.open(seat, until, listen=seat.listens)
            seat.begin()
            asked_at = port.now()
            return asked_at, await port.call(*question(), until, seat)
        except (NoReply, ServerError) as trouble:
            await port.again(trouble, max(until, ends), seat)
            if port.now() >= until:  # the server is unreachable, and there is time left
                until = min(ends, port.now() + port.server_timeout)
