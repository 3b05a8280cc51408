"""The asyncio port for clients whose grants replicas must acknowledge; see replicas_blocking.py.

Rules of this file:

- A WAIT would hold up all tasks of the loop's connection, so it has a connection of its own.
- Both connections must lead to the same process, identified by the server's ``run_id``: a master
  that was promoted in between has replicas too, but perhaps not the grant.
- One WAIT is under way at a time; requests that come meanwhile share the next one.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any, NamedTuple

from fencelock._core.keys import LockKeys
from fencelock._core.seat import Seat
from fencelock._core.types import NoReply, closed
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.link_asyncio import Link
from fencelock._io.replicas_blocking import ACK_SECONDS, LATE_SECONDS, mark, refused, wait
from fencelock._io.wire import ReplyError
from fencelock._runtime.clock import now
from fencelock.errors import FencelockError
from fencelock.options import Acknowledgement


class AckRequest(NamedTuple):
    """A request for the number of replicas that have the writes of a connection."""

    keys: LockKeys
    origin: AsyncConnection
    until: float
    answer: asyncio.Future[int]


class Rounds:
    """The rounds at one server: one WAIT for all requests before it, then the next."""

    def __init__(self, link: Link, wanted: int) -> None:
        self.link = link
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._acks: list[AckRequest] = []  # those that share the next round
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def count(self, keys: LockKeys, origin: AsyncConnection, until: float) -> int:
        """Share the next round for what came on the connection ``origin``."""
        if until <= now():
            return 0
        ack = AckRequest(keys, origin, until, self._loop.create_future())
        self._acks.append(ack)
        if not self.asking:
            self._start()
        timer = self._loop.call_later(until + ACK_SECONDS - now(), _reply, ack, 0)
        try:
            return await ack.answer
        finally:
            timer.cancel()

    def _start(self) -> None:
        self._task = self._loop.create_task(self._run(), name="fencelock-acknowledge")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Start again what a program has cancelled with all its tasks."""
        if task.cancelled() and self._acks and not self._closed:
            self._start()

    async def _run(self) -> None:
        while acks := [ack for ack in self._acks if not ack.answer.done()]:
            self._acks = []
            try:
                count = await self._round(acks, min(ack.until for ack in acks))
            except (NoReply, FencelockError) as error:
                for ack in acks:
                    _fail(ack, error)
            except asyncio.CancelledError:
                self._acks += acks
                raise
            else:
                self._judge(acks, count)

    async def _round(self, acks: list[AckRequest], until: float) -> int:
        """Send one WAIT, until the earliest deadline of the requests that share it."""
        mux = await self.link.connected(until)
        for origin in {ack.origin for ack in acks}:
            if await self._run_id(mux, until) != await self._run_id(origin, until):
                mux.close()
                origin.close()  # either may be the old one: both then find the present server
                raise NoReply("another server has taken its place", sent=True)
        answer_by = until + LATE_SECONDS
        slots = (
            mux.request(mark(acks[0].keys), answer_by),
            mux.request(wait(self._wanted, until), answer_by),
        )
        replies = await asyncio.gather(*slots)
        for reply in replies:
            if type(reply) is ReplyError:
                for origin in {ack.origin for ack in acks}:
                    origin.error_of(reply)  # they are of the same server
                raise refused(mux.error_of(reply))
        return int(replies[1])

    def _judge(self, acks: list[AckRequest], count: int) -> None:
        """Answer requests with enough replicas or no time left; the others share the next round."""
        enough, soon = count >= self._wanted, now() + ACK_SECONDS
        for ack in acks:
            if enough or ack.until <= soon:
                _reply(ack, count)
            else:
                self._acks.append(ack)

    async def _run_id(self, mux: AsyncConnection, until: float) -> bytes:
        if not mux.run_id:
            answer: bytes = await mux.command((b"INFO", b"server"), until)
            mux.run_id = answer.partition(b"run_id:")[2].partition(b"\r\n")[0]
        return mux.run_id

    @property
    def asking(self) -> bool:
        """Return True while a round is under way."""
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        """End the round that is under way, and close the connection."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for ack in self._acks:
            _fail(ack, closed())
        await self.link.close()


class AsyncReplicas:
    """Implements ``_core.wire.Replicas``: asks at the server that a waiter was answered by.

    Each node of a Cluster has replicas of its own, so each has rounds of its own: a node with a
    silent replica holds up no other node.
    """

    def __init__(self, source: Any, server_timeout: float, asked: Acknowledgement) -> None:
        self.wanted, self.timeout = asked
        self._source = source
        # A WAIT is silent for its whole timeout: that does not mean a dead connection.
        self._seconds = server_timeout + self.timeout
        self._rounds: dict[Any, Rounds] = {}  # by node; one server is None

    async def acknowledge(self, waiter: Seat, until: float) -> int:
        """Share the next round of the node; see ``Replicas``."""
        mux = waiter.origin
        if not isinstance(mux, AsyncConnection):
            raise NoReply("the connection of the request was lost", sent=False)
        rounds = self._rounds.get(mux.node)
        if rounds is None:
            source = self._source if mux.node is None else self._source.at(mux.node)
            link = Link(self, source, server_timeout=self._seconds)
            link.silence = inf
            link.reached = mux.node is not None  # it answered just now: silence may be temporary
            rounds = self._rounds[mux.node] = Rounds(link, self.wanted)
        return await rounds.count(waiter.keys, mux, until)

    def unplugged(self) -> None:
        """Do nothing: the next round connects again."""

    def pushed(self, message: list[bytes]) -> None:
        """Do nothing: no push is expected."""

    @property
    def asking(self) -> bool:
        """Return True while a round is under way."""
        return any(rounds.asking for rounds in self._rounds.values())

    async def close(self) -> None:
        """End what is under way, and close the connections."""
        await asyncio.gather(*[rounds.close() for rounds in self._rounds.values()])


def _reply(ack: AckRequest, count: int) -> None:
    if not ack.answer.done():
        ack.answer.set_result(count)


def _fail(ack: AckRequest, error: Exception) -> None:
    if not ack.answer.done():
        ack.answer.set_exception(error)
        ack.answer.exception()  # its task may be cancelled before it reads this: not a bug
