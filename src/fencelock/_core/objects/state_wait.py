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

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.keys import SignalKeys
from fencelock._core.lock.waiting import Line
from fencelock._core.retry import again, answer_by, persist
from fencelock._core.seat import Seat, Stray
from fencelock._core.types import Call, NoReply, Reply
from fencelock.errors import OutcomeUnknown, ServerError, ServerUnreachable

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# A timed-out wait may take this much longer to ask one last time: I13 allows 100 ms.
LEAVING_SECONDS = 0.08
FOR_EVER = float("inf")
# How many waiters of one client one command asks about; the others follow when they are first. If
# a heartbeat counts only for the waiters that it names, several commands are sent.
WAITERS_PER_CHECK = 1000
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


def signalled(port: Engine, gen: bytes, outcome: bytes, key: bytes) -> None:
    """Pass the message that a generation has ended to all waiters of this client."""
    with port.mutex:
        watch = port.lines.watches.get(key)
        waiting = list(watch.waiters) if watch is not None else []
    for watcher in waiting:
        watcher.on_message(gen, outcome)
        port.wake(watcher)


Then = Callable[["StateWaiter"], Awaitable[None]]


async def wait_for(
    port: Engine, signal: WaitableState, timeout: float | None, then: Then | None = None
) -> Any:
    """Wait for a state and return the verdict; None when it did not come about in time.

    A timeout of 0 asks once, None waits for ever. ``then`` is awaited with the waiter once it has a
    verdict, before its connection is given back. Raises ServerUnreachable when no server answers,
    and a ServerError when the server refuses.
    """
    give_up_at = FOR_EVER if timeout is None else port.now() + timeout
    watcher = StateWaiter(signal, port.new_id())
    watcher.listens = timeout is None or timeout > 0
    try:
        with port.mutex:
            watch = port.lines.watches.setdefault(watcher.key, Line())
            if not watch.waiters:  # one answered earlier must not ask again at once
                watch.heartbeat_at = port.now() + HEARTBEAT_SECONDS
            watch.waiters[watcher] = None
        await _ask_first(port, watcher, give_up_at)
        while watcher.verdict is None:
            now = port.now()
            if now >= give_up_at:
                if timeout:
                    frozen = now >= give_up_at + LEAVING_SECONDS / 2  # stopped meanwhile: begin now
                    await _leave(port, watcher, LEAVING_SECONDS + (now if frozen else give_up_at))
                break
            if not watcher.news and now < watch.bound(watcher):
                await port.wait(watcher, min(watch.bound(watcher), give_up_at))
            elif watcher.gen:
                await _look(port, watcher, watch, give_up_at)
            else:
                await _ask_first(port, watcher, give_up_at)
        _part(port, watcher)
        if then is not None:
            await then(watcher)
        owes = watcher.sent or watcher.owed or (watch.owes and not watch.waiters)
        # Else our channel may be on the list, without a waiter.
        watcher.began = bool(signal.lists_channels and owes)
    finally:
        try:
            _undo(port, watcher)
        finally:
            _part(port, watcher)
            port.close(watcher)
    return watcher.verdict


def _part(port: Engine, watcher: StateWaiter) -> None:
    """Remove a watcher; a second call finishes what an interrupt left half done."""
    with port.mutex:
        watch = port.lines.watches.get(watcher.key)
        if watch is not None:
            watch.waiters.pop(watcher, None)
            if not watch.waiters:
                port.lines.watches.pop(watcher.key, None)


async def _ask_first(port: Engine, watcher: StateWaiter, give_up_at: float) -> None:
    """Ask, and join the list if it listens; when the answer is lost, ask again."""
    began_at = port.now()

    def first() -> Call:
        asked_us = 1 + int((port.now() - began_at) * 1e6) if watcher.sent else 0
        return watcher.signal.first(watcher, asked_us)

    until = answer_by(port, began_at, give_up_at)
    (reply,) = await _answer(port, watcher, until, first)
    _learn(watcher, reply)


async def _look(port: Engine, watcher: StateWaiter, watch: Line, give_up_at: float) -> None:
    """Ask for every waiter of this state that knows its generation; others ask by themselves."""
    watcher.news = False
    with port.mutex:
        others = [each for each in watch.waiters if each.gen and each is not watcher]
        watch.heartbeat_at = port.now() + HEARTBEAT_SECONDS
    others = [each for each in others if each.verdict is None]
    size = WAITERS_PER_CHECK - 1
    for start in range(0, max(1, len(others)), size):
        asked = [watcher, *others[start : start + size]]
        ends = give_up_at + LEAVING_SECONDS / 2
        until = min(port.now() + port.server_timeout, ends)
        check = partial(watcher.signal.check, asked)
        try:
            replies = await _answer(port, watcher, until, check, ends)
        except ServerError:
            watch.heartbeat_at = 0.0  # the others are refused by their own questions, and soon
            raise
        for each, reply in zip(asked, replies, strict=True):
            _learn(each, reply)
            if each is not watcher and (each.verdict is not None or each.news):
                each.news = True
                port.wake(each)
        if watcher.signal.lists_channels or watcher.verdict is not None:
            return  # the waiter that is now first asks for the rest


def _learn(watcher: StateWaiter, reply: Reply) -> None:
    """Take a reply, unless a message came first."""
    if watcher.verdict is None:
        watcher.signal.learn(watcher, reply)


async def _answer(
    port: Engine,
    watcher: StateWaiter,
    until: float,
    question: Callable[[], Call],
    ends: float = 0.0,
) -> Reply:
    """Ask for a waiter until there is an answer, and note when to ask again at the latest."""
    asked_at, reply = await ask_listening(port, watcher, until, question, ends)
    watcher.trip, watcher.stood = port.now() - asked_at, True
    with port.mutex:
        watch = port.lines.watches[watcher.key]
        if next(iter(watch.waiters)) is watcher:
            watch.heartbeat_at = max(watch.heartbeat_at, asked_at + HEARTBEAT_SECONDS)
    return reply


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
            await again(port, trouble, max(until, ends), seat)
            if port.now() >= until:  # the server is unreachable, and there is time left
                until = min(ends, port.now() + port.server_timeout)


def _last_request(port: Engine, watcher: StateWaiter, *, late: bool) -> Call:
    """Return the last request; tasks of one client share a channel, which others may need."""
    _part(port, watcher)
    with port.mutex:
        watch = port.lines.watches.get(watcher.key)
        waiters = watch.waiters if watch is not None else ()
        shared = any(each.channel == watcher.channel and not each.verdict for each in waiters)
        if watch is not None:
            watch.owes = watch.owes or shared
        if shared and watcher.signal.lists_channels:  # the last of them to leave undoes these, too
            next(iter(waiters)).owe(watcher.owed)
            watcher.owed = ()
    return watcher.signal.leave(watcher, late=late, shared=shared)


async def _leave(port: Engine, watcher: StateWaiter, until: float) -> None:
    """Ask one last time and leave the list; the silence of a near server is not a "no" (I12)."""
    question = _last_request(port, watcher, late=True)
    asked = Seat()

    async def once() -> Reply:
        await port.open(watcher, until, listen=False)
        return await port.call(*question, until, watcher)

    try:
        (reply,) = await persist(port, once, until, asked)
    except (OutcomeUnknown, ServerUnreachable) as silence:
        if watcher.trip > LEAVING_SECONDS / 2:  # far away: the answer may be on its way
            port.run_in_background(*question, asked.undo_connection)
            return
        watcher.undo_connection = asked.undo_connection
        text = "the timeout ended, and the server does not answer"
        raise ServerUnreachable(f"{watcher.signal.keys.name!r}: {text}: {silence}") from silence
    _learn(watcher, reply)


def _undo(port: Engine, watcher: StateWaiter) -> None:
    """Leave the list after the last request, and after earlier ones that may still arrive."""
    if watcher.began and watcher.channel:
        path = watcher.path  # one request may follow on a connection: two would both read it
        watcher.owed = tuple(each for each in watcher.owed if each.undo_connection is not path)
        port.run_in_background(*_last_request(port, watcher, late=False), path)
        for stray in watcher.owed:
            question = watcher.signal.leave(watcher, late=False, shared=False)
            port.run_in_background(*question, stray.undo_connection)
