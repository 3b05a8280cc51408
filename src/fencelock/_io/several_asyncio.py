"""Ask several servers at once, in one task: nodes of a Cluster or a quorum.

Rules of this file:

- Asking all at once needs no task: requests are written on each server's connection, and answers
  are taken as they come. Only a missing connection needs a task that waits until it is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fencelock._core.seat import Question
from fencelock._core.types import NoReply
from fencelock._io.link_asyncio import Link
from fencelock._io.wire import ReplyError, server_error, unknown_script, with_source
from fencelock._runtime.clock import now
from fencelock.errors import FencelockError


class AsyncioSeveral:
    """Asks several servers at once."""

    at: Any  # the link to each server, by where a question goes
    look_seconds: float  # how often to look whether answers have shortened the time for the others

    async def exchange(
        self, asks: Sequence[Question], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

        That is ``latest`` until the answers decide. From then on it is no nearer than
        ``look_seconds``. Every question has ended then; a cancellation leaves some that have not.
        """
        exchange = _Exchange(latest, limit, self.look_seconds)
        try:
            exchange.start(asks, self.at)
            await exchange.hear()
        finally:
            exchange.end()
        for ask in asks:
            if not ask.ended:
                ask.give_up()

    def put_back(self, asks: Iterable[Question]) -> None:
        """Forget the connections of the questions: all tasks share those."""
        for ask in asks:
            ask.connection = None


class _AnswerSlot:
    """Takes the answer to one request where it is read: no task and no future waits for it alone.

    It is to a connection what a future of ``AsyncConnection.request`` is.
    """

    __slots__ = ("_ask", "_exchange")

    def __init__(self, exchange: _Exchange, ask: Question) -> None:
        self._exchange = exchange
        self._ask = ask

    def done(self) -> bool:
        """Return True if no request waits for the answer any more."""
        return self._exchange.over or self._ask.ended

    def set_result(self, reply: Any) -> None:
        """Take the answer."""
        ask = self._ask
        if type(reply) is not ReplyError or ask.raw:
            ask.answer(reply, now())
        elif unknown_script(reply):  # the server does not know it by its digest
            ask.connection.request(with_source(ask.requests[0]), self._exchange.latest, self)
        else:
            ask.fail(server_error(reply))
        if ask.ended:
            self._exchange.ended()

    def set_exception(self, error: Any) -> None:
        """Take the error instead of an answer."""
        self._ask.fail(error)
        self._exchange.ended()


class _Exchange:
    """Questions that are under way: those that wait for an answer, and those for a connection."""

    def __init__(self, latest: float, limit: Callable[[], float], look_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.latest = latest
        self._limit = limit
        self._look_seconds = look_seconds
        self._left = 0  # those that have not ended
        self._bell: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dials: list[asyncio.Task[None]] = []
        self.over = False

    def start(self, asks: Sequence[Question], links: Any) -> None:
        """Write the requests, at once where the server is connected."""
        self._left = len(asks)
        for ask in asks:
            link = links[ask.node]
            ask.connection = ask.connection or link.idle()
            if ask.connection is None:
                self._dials.append(self._loop.create_task(self._dial(ask, link)))
        self._write(asks)

    def _write(self, asks: Iterable[Question]) -> None:
        """Write the requests of each question that has a connection."""
        for ask in asks:
            mux = ask.connection
            if mux is None:
                continue
            ask.began, ask.asked_at = True, now()
            for request in ask.requests:
                if not ask.ended:  # it is when the connection was lost
                    mux.request(request, self.latest, _AnswerSlot(self, ask))

    async def _dial(self, ask: Question, link: Link) -> None:
        try:
            ask.connection = await link.connected(self.latest)
        except (NoReply, FencelockError) as error:
            ask.fail(error)
            self.ended()
        else:
            self._write((ask,))

    def ended(self) -> None:
        """Note that a question has ended: its answer came, or an error."""
        self._left -= 1
        if self._left:
            self._limit()  # if this answer decides, others are awaited from now on only so long
        else:
            self._ring()

    async def hear(self) -> None:
        """Return when all have ended, or at the instant that ``limit`` returns."""
        if self._left:
            self._bell = self._loop.create_future()
            self._look()
            await self._bell

    def _look(self) -> None:
        """Ring at the instant. It may have come nearer since the last look, so look often."""
        left = self._limit() - now()
        if left > 0:
            self._timer = self._loop.call_later(min(left, self._look_seconds), self._look)
        else:
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def end(self) -> None:
        """Stop waiting for answers and connections."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dials:
            task.cancel()
