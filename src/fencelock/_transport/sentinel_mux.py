"""Tasks and Sentinels: what ``sentinel_dial.py`` does for threads, in one loop.

Rules of this file:

- A round of questions is asked by tasks of its own: who waits for it, or is cancelled, changes
  nothing. Who needs a round at the same time shares it; who needs a later one waits for its end.
- A push waits behind the question whether it counts, and all later pushes behind it, in order.
- A timer that looks for late answers runs only while answers are owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from fencelock._core.types import Broken, Reply
from fencelock._transport import mux_dial
from fencelock._transport.mux import Mux, Pushed
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
from fencelock._transport.wire import ReplyError, server_error
from fencelock.clock import now
from fencelock.errors import FencelockError, ServerError, ServerUnreachable


class AioWatch:
    """Follows the master of one service for the tasks of one loop."""

    def __init__(self, source: Watched) -> None:
        self.source = source
        self.known = Known(source)
        self._round: AioRound | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def dial(self, pushed: Pushed, until: float, *, stall: float) -> Mux:
        """Open a connection to the master; ends like ``sentinel_dial.Watch.connect``."""
        found = await self.refresh(*self.known.locating(now(), until))
        term = self.known.term
        word = self.known.master(found.words if found else ())
        until = min(until, now() + CONNECT_SECONDS)
        try:
            mux = await mux_dial.dial(
                self.source.at(word),
                pushed,
                until,
                stall=stall,
                make=lambda loop, pushed, stall: WatchedMux(loop, pushed, stall, self, term),
            )
        except ServerUnreachable as error:
            raise unconnected(self.source, error) from error
        try:
            greeted(self.source, await mux.command((b"HELLO",), until))
        except BaseException:
            mux.close()
            raise
        if isinstance(mux, WatchedMux):
            mux.greeting = False
        return mux

    async def refresh(self, since: float, until: float) -> AioRound | None:
        """Wait for a round that began since then; the last one when time was up before."""
        while True:
            current = self._round
            if self._closed or self.known.asked_at >= since:
                return current
            if current is None or current.done.done():
                current = self._round = AioRound(self)
            await asyncio.wait({current.done}, timeout=max(0.0, until - now()))
            if current.began >= since or now() >= until:
                return current

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something beside the callers, at most until ``close``."""
        task = asyncio.create_task(work, name="fencelock-sentinel")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """End what is under way; nothing is asked any more."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()


class AioRound:
    """One question to all Sentinels, asked when it is made; ``done`` ends when enough answered."""

    def __init__(self, watch: AioWatch) -> None:
        source = watch.source
        self._watch = watch
        self.began = now()
        self.words: list[Word | Exception | None] = [None] * len(source.sentinels)
        self.done = watch.spawn(self._ask_all())

    async def _ask_all(self) -> None:
        """Ask, and wait until enough answered; who answers later is heard, too."""
        watch = self._watch
        sentinels = enumerate(watch.source.sentinels)
        ends = self.began + ANSWER_SECONDS
        asked = {watch.spawn(self._ask(at, each, ends)) for at, each in sentinels}
        graced = False
        while asked and not watch.known.enough(self.words) and now() < ends:
            _, asked = await asyncio.wait(
                asked, timeout=max(0.0, ends - now()), return_when=asyncio.FIRST_COMPLETED
            )
            if watch.known.most(self.words) and not graced:
                graced, ends = True, min(ends, now() + GRACE_SECONDS)
        watch.known.end_round(self.began, self.words)

    async def _ask(self, at: int, sentinel: One, until: float) -> None:
        self.words[at] = word = await _word_of(self._watch.source, sentinel, until)
        self._watch.known.heard(at, word)
        words = [each for each in self.words if isinstance(each, Word)]
        self._watch.known.learn(words, self.began)


async def _word_of(source: Watched, sentinel: One, until: float) -> Word | Exception | None:
    """Ask one Sentinel; None when it did not answer in time."""
    try:
        mux = await mux_dial.dial(sentinel, _ignored, until, stall=ANSWER_SECONDS)
        try:
            return understood(*[await mux.command(each, until) for each in source.questions()])
        finally:
            mux.close()
    except Broken:
        return None
    except FencelockError as error:
        return error


def _ignored(message: list[bytes]) -> None:
    """Hear nothing: a Sentinel was not asked to tell."""


class WatchedMux(Mux):
    """A connection to the master of a service: an answer counts only while it is the master."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pushed: Pushed,
        stall: float,
        watch: AioWatch,
        term: int,
    ) -> None:
        super().__init__(loop, self._hear, stall=stall)
        self._to = pushed
        self._watch_of = watch
        self._term = term
        self.greeting = True  # what it says now grants nothing
        self._held: list[list[bytes]] = []  # pushes that wait for a proof
        self._pulse: asyncio.TimerHandle | None = None

    async def run(self, request: bytes, until: float) -> Reply:
        """Run a packed script call; Broken also when there is another master now."""
        return await self._proved(super().run(request, until), until)

    async def command(self, args: Sequence[bytes | int], until: float) -> Reply:
        """Run a plain command; ends like ``run``."""
        return await self._proved(super().command(args, until), until)

    async def _proved(self, asking: Awaitable[Reply], until: float) -> Reply:
        """Await an answer of this master, and see that it counts; a refusal, too."""
        asked_at = now()
        try:
            reply = await asking
            if isinstance(reply, ReplyError):
                raise server_error(reply)
        except ServerError as error:
            broken = not_now(self._watch_of.source, error)
            if broken is not None:
                self.close()
                raise broken from error
            await self._prove(asked_at, until)
            raise
        await self._prove(asked_at, until)
        return reply

    async def subscribe(self, channel: bytes, until: float, word: bytes = b"SUBSCRIBE") -> None:
        """Listen to a channel, which is no grant: what comes on it must count."""
        await super().command((word, channel), until)

    def request(self, packed: bytes, until: float) -> asyncio.Future[Any]:
        """Send a request, and see that a late answer is noticed."""
        slot = super().request(packed, until)
        if self._pulse is None and self.sound:
            self._pulse = self.loop.call_later(FRESH_SECONDS, self._beat)
        return slot

    def post(self, packed: bytes, until: float) -> asyncio.Future[Any]:
        """Send at once; the future ends with an answer that counts, or Broken."""
        return self._watch_of.spawn(self._posted(super().post(packed, until), until))

    async def _posted(self, slot: asyncio.Future[Any], until: float) -> Reply:
        try:
            return await self._proved(slot, until)
        except ServerError as error:
            return error.__cause__  # as the server said it

    async def _prove(self, asked_at: float, until: float) -> None:
        """Return when this is the master as far as can be known; see ``sentinel.py``."""
        if self.greeting:
            return
        answered_at = now()
        known = self._watch_of.known
        since = known.since(asked_at, answered_at)
        if known.asked_at < since:
            await self._watch_of.refresh(since, patience(answered_at, until))
        try:
            known.check(self._term)
        except Broken:
            self.close()
            raise

    def _hear(self, message: list[bytes]) -> None:
        """Hand a push on, if this is still the master."""
        current = now()
        known = self._watch_of.known
        proved = known.asked_at >= known.since(current, current) and self._term == known.term
        if proved and not self._held:
            self._to(message)
            return
        self._held.append(message)
        if len(self._held) == 1:
            _ = self._watch_of.spawn(self._hand_on(current))

    async def _hand_on(self, heard_at: float) -> None:
        try:
            await self._prove(heard_at, heard_at + ANSWER_SECONDS)
        except Broken:
            return
        held, self._held = self._held, []
        for message in held:
            self._to(message)

    def _beat(self) -> None:
        """Ask whether this is the master while an answer is late."""
        self._pulse = None
        if not self._slots or not self.sound:
            return
        if now() - self._slots[0][2] > FRESH_SECONDS / 2:
            _ = self._watch_of.spawn(self._late())
        self._pulse = self.loop.call_later(FRESH_SECONDS, self._beat)

    async def _late(self) -> None:
        try:
            await self._prove(0.0, now() + ANSWER_SECONDS)
        except Broken:
            return  # it was closed: who waited for an answer knows

    def _lost(self, error: Exception) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
            self._pulse = None
        super()._lost(error)
