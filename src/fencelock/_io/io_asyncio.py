"""Multiplexed connections and tasks, as the rules of the topologies use them.

Rules of this file:

- Asking all at once needs no task: requests are written on each server's connection, and answers
  are taken as they come. Only a missing connection needs a task that waits until it is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from fencelock._core.seat import Question
from fencelock._core.types import Args, NoReply, Reply
from fencelock._io.connection_asyncio import AsyncConnection, set_done
from fencelock._io.wire import ReplyError, accepted, pack, unknown_script
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import mutex
from fencelock._topology.io import Flow
from fencelock.errors import FencelockError
from fencelock.scripts import with_source

ASKING = pack((b"ASKING",))


class AsyncioLatch:
    """Implements ``_topology.io.Latch`` for the tasks of one loop."""

    def __init__(self) -> None:
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Return True once it was opened."""
        return self._opened.done()

    def open(self) -> None:
        """Wake all waiting tasks; later ones do not wait."""
        set_done(self._opened)

    async def wait_until(self, until: float) -> bool:
        """Wait until it opens, or until the instant; return True if it is open."""
        while not self._opened.done() and (left := until - now()) > 0:
            await asyncio.wait({self._opened}, timeout=min(left, REST_SECONDS))
        return self._opened.done()


class AsyncioIo:
    """Implements ``_topology.io.Io`` for the tasks of one loop."""

    now = staticmethod(now)
    mutex = staticmethod(mutex)  # against work that the garbage collector does in between
    latch = AsyncioLatch
    caller = staticmethod(asyncio.current_task)
    command = staticmethod(AsyncConnection.command)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = False

    async def run(
        self, connection: AsyncConnection, packed: bytes, until: float, *, asking: bool = False
    ) -> Reply:
        """Run a packed request: a script with its source after ASKING, which counts once."""
        if asking:
            _ask_next(connection, until)
            packed = with_source(packed)
        reply = await connection.run(packed, until)
        if type(reply) is ReplyError:
            return await connection.refused(reply, packed, until)
        return reply

    async def subscribe(
        self,
        connection: AsyncConnection,
        channel: bytes,
        until: float,
        word: bytes,
        *,
        asking: bool,
    ) -> None:
        """Listen to a channel."""
        if asking:
            _ask_next(connection, until)
        await connection.subscribe(channel, until, word)

    async def commands(
        self, connection: AsyncConnection, several: Sequence[Args], until: float
    ) -> Sequence[Reply]:
        """Run plain commands, all sent before an answer is awaited."""
        answers = [connection.request(pack(each), until) for each in several]
        return accepted(await asyncio.gather(*answers))

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a task, at most until ``end``.

        One that is cancelled before it has begun is begun anew: the program cancels all tasks.
        """
        begun = False

        async def run() -> None:
            nonlocal begun
            begun = True
            await _logged(flow, name)

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled() and not begun:
                self.spawn(flow, name)

        if not self._ended:
            self.task(run(), name).add_done_callback(ended)
        return not self._ended

    def task(self, flow: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Return the task that runs a flow; ``end`` cancels it."""
        task = asyncio.create_task(flow, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """Cancel the background tasks, and wait for them to end; none is begun any more."""
        self._ended = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _ask_next(mux: AsyncConnection, until: float) -> None:
    """Send ASKING; whether it arrives is seen from what goes right behind it."""
    mux.request(ASKING, until).add_done_callback(lambda answer: answer.exception())


async def _logged(flow: Flow, name: str) -> None:
    try:
        await flow()
    except Exception:
        log.exception("%s failed", name)


class AsyncioSeveral:
    """Asks several servers at once."""

    look_seconds: float  # how often to look whether answers have shortened the time for the others

    link_to: Callable[[Any], Any]  # returns that to a server, by where a question goes

    async def exchange(
        self, asks: Sequence[Question], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

        That is ``latest`` until the answers decide. From then on it is no nearer than
        ``look_seconds``. Every question has ended then; a cancellation leaves some that have not.
        """
        exchange = _Exchange(latest, limit, self.look_seconds)
        try:
            exchange.start(asks, self.link_to)
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
            ask.fail(ask.connection.error_of(reply))
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

    def start(self, asks: Sequence[Question], link_to: Callable[[Any], Any]) -> None:
        """Write the requests, at once where the server is connected."""
        self._left = len(asks)
        for ask in asks:
            link = link_to(ask.node)
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

    async def _dial(self, ask: Question, link: Any) -> None:
        try:
            ask.connection = await link.connected(self.latest)
        except (NoReply, FencelockError) as error:
            ask.fail(error)
            self.ended()
        except asyncio.CancelledError:
            if not self.over:  # by a program that cancels all tasks
                ask.fail(NoReply("connecting was cancelled", sent=False))
                self.ended()
            raise
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
        if self._bell is not None:
            set_done(self._bell)

    def end(self) -> None:
        """Stop waiting for answers and connections."""
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dials:
            task.cancel()
