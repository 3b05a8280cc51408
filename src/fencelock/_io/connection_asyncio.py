"""One asyncio connection for all tasks of a loop: requests in order, answers matched in order.

It is opened directly to a plain address, otherwise through a user's client.

Rules of this file:

- An answer belongs to the oldest request without one. A cancelled caller leaves its slot behind:
  the answer is dropped there, and the connection stays good.
- Requests of one turn of the loop are written together. The first request of a quiet connection is
  written at once: a single task does not wait for a turn.
- Answers are read into one small buffer: for a plain Protocol, asyncio allocates and frees 256 KiB
  at each read, which takes longer than the rest of the read.
- A busy loop is not a silent server: the time until a request is written does not count, and none
  is given up while the socket has bytes that the loop has not read.
- A connection that is silent for ``silence`` seconds is retired: no new request is sent on it, only
  undos of earlier ones. It is closed when everything was answered, or when its oldest request has
  waited for ``stall`` seconds. One that was opened for the present request is not retired before a
  request is given up: the server may be slow, and the next connection would be no quicker.
- One that leads to a replica is retired as well, but cuts nothing: each request gets its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Protocol, TypeVar

from fencelock._core.round_trips import NOTED_SECONDS, RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import DEMOTED, Carrier, NoReply, Reply, closed
from fencelock._io.bounded_call import Work, WorkClaim, under_way
from fencelock._io.connect import (
    RESOLVER,
    Found,
    connecting,
    greet,
    open_socket,
    refusal,
    refused,
    worked,
)
from fencelock._io.poll import POLLIN, poller
from fencelock._io.prompt_asyncio import Answer
from fencelock._io.sources.kinds import Bridged, Cloned, Direct, One, instead_of, silence
from fencelock._io.sources.url import GREETING
from fencelock._io.wire import (
    CONFIRMS,
    INCOMPLETE,
    Push,
    ReplyError,
    pack,
    reader,
    server_error,
    unknown_script,
)
from fencelock._runtime.clock import now
from fencelock._runtime.descriptors import own
from fencelock._runtime.log import log
from fencelock._runtime.process import mark, notice
from fencelock.errors import ServerError
from fencelock.scripts import with_source

Pushed = Callable[[list[bytes]], None]
Make = Callable[..., "AsyncConnection"]
T = TypeVar("T")

READ_BYTES = 16384
PING = pack((b"PING",))
# A turn of the loop that lasted longer is given back to the requests that were queued in it.
LATE_SECONDS = 0.05
# How soon to look again whether time is up, after the loop has read what came.
UNREAD_SECONDS = 0.001


class Slot(Protocol):
    """Takes the reply to one request, or its NoReply: a future, or what goes on at once."""

    def done(self) -> bool:
        """Return True if nothing is to be set any more."""

    def set_result(self, result: Any, /) -> Any:
        """Take the reply, also one that is an error; True: as an ``Answer`` it is to be woken."""

    def set_exception(self, exception: Any, /) -> None:
        """Take the NoReply."""


class AsyncConnection(Carrier, asyncio.BufferedProtocol):
    """A multiplexed connection; every method runs in its loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pushed: Pushed, *, stall: float) -> None:
        self.loop = loop
        self.sound = False
        self.retired = False
        self.fresh = False  # it was opened for the present request
        self.silence = inf  # while it is greeted; then its link says
        self.least_silence = inf
        self.trips: RoundTrips = RoundTrips()  # of its address, once a link has it
        self.closed: asyncio.Future[None] = loop.create_future()  # it ended, or was retired
        self._pushed = pushed
        self.stall = stall
        self._reader = reader()
        self._buffer = bytearray(READ_BYTES)
        # asyncio's TLS slices this buffer: that copies a bytearray, but not a memoryview.
        self._view = memoryview(self._buffer)
        self._transport: asyncio.Transport | None = None
        self._slots: deque[tuple[Slot, float, float]] = deque()
        self._unsent: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None
        self._watch_at = 0.0
        self.heard_at = 0.0
        self._leaving: dict[Slot, bytes] = {}  # channels that are being left, by the request
        # Channels of other programs, with the waiters that hear each, and the command for that.
        self.topics: dict[bytes, dict[Seat, bytes]] = {}
        # In a Cluster: where it leads, the channels it listens to, by slot, and how they begin.
        self.node: Any = None
        self.channels: dict[int, bytes] = {}
        self.name = b""
        self.run_id = b""  # of the server's process, where replicas acknowledge
        self.mastered = True  # a master answered this client there
        self.keepsake: object = None  # what must live as long as the connection

    # -- what callers use -----------------------------------------------------------------------

    async def refused(self, reply: ReplyError, request: bytes, until: float) -> Reply:
        """Run a script call again, with its source, if it was unknown; else raise the refusal."""
        if unknown_script(reply):
            reply = await self.run(with_source(request), until)
            if type(reply) is not ReplyError:
                return reply
        raise refusal(self.error_of(reply), mastered=self.mastered)

    def error_of(self, reply: ReplyError) -> ServerError:
        """Return the error for a refusal; nothing more is asked of a replica."""
        error = server_error(reply)
        if error.code in DEMOTED:
            self.retire(cuts=False)  # the others under way get answers of their own
            worked.clear()  # another address of the name may lead to the master
        return error

    async def command(self, args: Sequence[bytes | int], until: float) -> Reply:
        """Run a plain command and return its reply."""
        reply = await self.run(pack(args), until)
        if type(reply) is ReplyError:
            raise refusal(self.error_of(reply), mastered=self.mastered)
        return reply

    def request(self, packed: bytes, until: float, slot: Slot | None = None) -> Any:
        """Send a request in this turn of the loop; the future ends with its reply or NoReply.

        ``slot`` takes them in place of a future.
        """
        answer: Any = self.loop.create_future() if slot is None else slot
        transport = self._transport
        if not self.sound or transport is None or (not mark[0] and notice()):
            answer.set_exception(NoReply("the connection was lost", sent=False))
            return answer
        if self._slots:
            self._unsent.append(packed)
            if len(self._unsent) == 1:
                self.loop.call_soon(self._flush_queued)
        elif not transport.is_closing():
            transport.write(packed)
        asked_at = now()
        self._slots.append((answer, until, asked_at))
        late, watch_at = asked_at + self.silence, self._watch_at
        if self._watch is None or until < watch_at or (late < watch_at and not self.fresh):
            self._watch_until(until if self.fresh or until < late else late)
        return answer

    def run(self, packed: bytes, until: float) -> Awaitable[Any]:
        """Return what ends with a reply that counts, or a ReplyError; here each counts."""
        return self.request(packed, until, Answer(self.loop))  # type: ignore[no-any-return]  # that slot

    def behind(self, packed: bytes, until: float) -> asyncio.Future[Any] | None:
        """Send a clean-up after all earlier requests, even when retired; None when closed."""
        transport = self._transport
        if transport is None or not self.open:
            return None
        slot: asyncio.Future[Any]
        if not self.retired:
            slot = self.request(packed, until)
            self.flush()  # whatever else this turn of the loop sends
            return slot
        slot = self.loop.create_future()
        transport.write(packed)
        self._slots.append((slot, until, now()))
        if self._watch is None or until < self._watch_at:
            self._watch_until(until)
        return slot

    async def subscribe(self, channel: bytes, until: float, word: bytes = b"SUBSCRIBE") -> None:
        """Listen to a channel; ServerDenied when the user may not. Its answer is a push."""
        reply = await self.request(pack((word, channel)), until)
        if type(reply) is ReplyError:
            raise refusal(self.error_of(reply), mastered=self.mastered)

    @property
    def open(self) -> bool:
        """Return True until the socket is closed, also while it is retired."""
        return self._transport is not None and not self._transport.is_closing()

    def leave(
        self, channel: bytes, until: float, word: bytes = b"SUNSUBSCRIBE"
    ) -> asyncio.Future[Any]:
        """Unsubscribe from a channel; ends like ``request``, a refusal is a value."""
        slot: asyncio.Future[Any] = self.request(pack((word, channel)), until)
        self._leaving[slot] = channel
        slot.add_done_callback(self._left)
        return slot

    def _left(self, slot: asyncio.Future[Any]) -> None:
        self._leaving.pop(slot, None)
        slot.cancelled() or slot.exception()  # what comes of it is of no use to most

    def tune(self, waiter: Seat, word: bytes = b"SUBSCRIBE") -> bool:
        """Note that a waiter hears another program's channel; False when that is noted already."""
        heard = self.topics.setdefault(waiter.topic, {})
        known, heard[waiter] = waiter in heard, word
        return not known

    def untune(self, waiter: Seat) -> None:
        """Have a waiter hear it no more; the last one leaves the channel."""
        heard = self.topics.get(waiter.topic, {})
        word = heard.pop(waiter, None)
        if word is not None and not heard:
            del self.topics[waiter.topic]
            word = word.replace(b"SUB", b"UNSUB")
            _ = self.leave(waiter.topic, now() + self.stall, word)

    def _answers(self, push: list[bytes]) -> bool:
        """Return True if a push is the answer to the oldest request.

        The server also sends one unasked when a channel's slot has moved.
        """
        word = push[0] if push else b""
        if word in CONFIRMS:
            return True
        if not (self._leaving and self._slots and isinstance(word, bytes)):
            return False
        if not word.endswith(b"unsubscribe"):
            return False
        return self._leaving.get(self._slots[0][0]) == push[1]

    def flush(self) -> None:
        """Write what is queued, now."""
        if self._unsent and self._transport is not None and not self._transport.is_closing():
            packed, self._unsent = self._unsent, []
            self._transport.write(packed[0] if len(packed) == 1 else b"".join(packed))

    def _flush_queued(self) -> None:
        """Write what the last turn queued; requests get the time by which it lasted too long."""
        queued = min(len(self._unsent), len(self._slots))
        late = now() - self._slots[-queued][2] if queued else 0.0
        if late > LATE_SECONDS:
            tail = [self._slots.pop() for _ in range(queued)]
            self._slots += [(slot, until + late, at + late) for slot, until, at in reversed(tail)]
        self.flush()

    def silent_for(self, current: float) -> float:
        """Return for how long answers have been due and nothing has arrived."""
        return current - max(self._slots[0][2], self.heard_at) if self._slots else 0.0

    def silent_since(self, when: float) -> bool:
        """Return True if a request was sent since an instant and nothing has arrived."""
        asked = any(at >= when for _, _, at in self._slots)
        return asked and self.heard_at < when

    @property
    def asking(self) -> bool:
        """Return True while a request waits for its answer."""
        return self.sound and bool(self._slots)

    def retire(self, *, for_good: bool = False, cuts: bool = True) -> None:
        """Accept no new request; unanswered ones end with NoReply, and may be undone ``behind``.

        ``for_good``: the client is closed, so they end with ClientClosed and are not retried.
        Without ``cuts`` they get their answers.
        """
        if not self.open:
            return
        self.flush()
        self.sound, self.retired = False, True
        silent = NoReply("no answer in time", sent=True, undo_connection=self)
        for slot, _, _ in self._slots if cuts else ():
            if not slot.done():
                slot.set_exception(closed() if for_good else silent)
        if not self.closed.done():
            self.closed.set_result(None)
        if not self._slots:
            self.close()

    def close(self) -> None:
        """Close at once; unanswered requests end with NoReply."""
        self._lost(ConnectionError("closed"))
        if self._transport is not None:
            self._transport.abort()

    # -- what the loop calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport, self.sound = transport, True  # type: ignore[assignment]  # of a stream
        own(self)

    def fileno(self) -> int:
        """Return the connection's descriptor; -1 when it has none."""
        if self._transport is None:
            return -1
        sock = self._transport.get_extra_info("socket")
        return -1 if sock is None else int(sock.fileno())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the buffer for the next read."""
        del sizehint  # asyncio has none either
        if not mark[0]:
            notice()  # what would be read is the parent's
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Hand out every complete answer and push."""
        self.heard_at = asked_at = heard_at = now()
        read: tuple[Any, ...] = ()
        try:
            self._reader.feed(self._buffer, 0, nbytes)
            while (message := self._reader.gets()) is not INCOMPLETE:
                if type(message) is Push and not self._answers(message):
                    if not self.retired:  # what came since on another connection may be newer
                        self._pushed(message)
                    continue
                slot, _, asked_at = self._slots.popleft()
                if not slot.done() and slot.set_result(message):
                    read = (*read, slot)
            self.fresh = False
            took = heard_at - asked_at  # 0.0: it was no answer
            if took > NOTED_SECONDS or (self.trips.watched and took):
                self._saw(took)
            if self.retired and not self._slots:
                self.close()
        except (ConnectionError, IndexError) as error:  # bytes that are not a valid answer
            self._lost(error, "no Redis or Valkey server")
            self.close()
        finally:
            if len(read) == 1:
                read[0].wake()
            else:  # none waits for what another does
                for answer in read:
                    answer.wake_soon()

    def _saw(self, seconds: float) -> None:
        """Note how long an answer took, and expect the next ones accordingly."""
        self.trips.saw(seconds)
        if self.least_silence < inf:
            self.silence = self.trips.within(self.least_silence)

    def connection_lost(self, exc: Exception | None) -> None:
        """Raise in all tasks that still wait for an answer."""
        self._lost(exc or ConnectionError("the server closed the connection"))

    def _lost(self, error: Exception, what: str = "connection lost") -> None:
        self.sound = False
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        slots, self._slots = self._slots, deque()
        for slot, _, _ in slots:
            if not slot.done():
                broken = NoReply(f"{what}: {error}", sent=True)
                broken.__cause__ = error
                slot.set_exception(broken)
        if not self.closed.done():
            self.closed.set_result(None)

    # -- time -----------------------------------------------------------------------------------

    def _watch_until(self, until: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch_at = until
        self._watch = self.loop.call_later(max(0.0, until - now()), self._check)

    def _unread(self) -> bool:
        """Return True if something came that the loop has not read: it reads in its next turn."""
        number = self.fileno()
        if number < 0:
            return False
        poll = poller()
        poll.register(number, POLLIN)
        return bool(poll.poll(0))

    def _check(self) -> None:
        """End the requests whose time is up; their slots stay, for their answers."""
        self._watch = None
        current = now()
        if self._slots and self._unread():
            self._watch_until(current + UNREAD_SECONDS)
            return
        for slot, until, _ in self._slots:
            if until <= current and not slot.done():
                slot.set_exception(NoReply("no answer in time", sent=True, undo_connection=self))
                self.fresh = False
        if self._slots and current - self._slots[0][2] > self.stall:
            self.close()
            log.warning("no answer for %.1f s: connection given up", self.stall)
            return
        if not self.fresh and self.silent_for(current) >= self.silence:
            self.retire()
        pending = [until for slot, until, _ in self._slots if not slot.done()]
        if self._slots:  # a clean-up has time, but not on a silent connection
            if (self.sound or pending) and not self.fresh:
                pending.append(current + max(0.01, self.silence - self.silent_for(current)))
            pending.append(self._slots[0][2] + self.stall + 0.01)
            self._watch_until(min(pending))


def set_done(bell: asyncio.Future[None]) -> None:
    """Ring a bell, unless it was rung or its waiter is gone."""
    if not bell.done():
        bell.set_result(None)


# --- how one is opened ----------------------------------------------------------------------------


async def dial(
    source: One, pushed: Pushed, until: float, *, stall: float, make: Make = AsyncConnection
) -> AsyncConnection:
    """Return a greeted connection; raises NoReply or a ServerError when there is none."""
    mux = make(asyncio.get_running_loop(), pushed, stall=stall)
    source = instead_of(source, asynchronous=True)
    try:
        with connecting(source.label):
            async with asyncio.timeout(max(0.001, until - now())):
                await _connect(source, mux, until)
    except TimeoutError as error:
        mux.close()
        raise NoReply(silence(source), sent=False) from error
    except BaseException:
        mux.close()
        raise
    return mux


async def _connect(source: One, mux: AsyncConnection, until: float) -> None:
    if isinstance(source, Direct):
        await _direct(source, mux, until)
    elif isinstance(source, Bridged):
        from fencelock._io.sources import bridge  # noqa: PLC0415 - seldom needed

        await bridge.adopt(source, mux)
        mux.mastered = await greet(mux.command, [GREETING], source.label, until)
    else:
        await _adopted(source, mux, until)


class AsyncioSockets:
    """Implements ``connect.Sockets`` for the tasks of a loop."""

    async def look_up(
        self, until: float, key: Hashable, function: Callable[[], list[Found]]
    ) -> list[Found]:
        """Wait for a thread that resolves the name."""
        return await _within(until, key, function, name=RESOLVER)

    def begin(self, sock: socket.socket, where: Any) -> asyncio.Task[None]:
        """Connect in a task, watched by the loop."""
        sock.settimeout(0)
        loop = asyncio.get_running_loop()
        return loop.create_task(loop.sock_connect(sock, where), name="fencelock-dial")

    async def ended(
        self, dials: Mapping[socket.socket, asyncio.Task[None]], seconds: float
    ) -> Sequence[tuple[socket.socket, BaseException | None]]:
        """Wait until one has ended; a task that was cancelled cancels all."""
        await asyncio.wait(dials.values(), timeout=seconds, return_when="FIRST_COMPLETED")
        return [(sock, task.exception()) for sock, task in dials.items() if task.done()]

    def stop(self, sock: socket.socket, task: asyncio.Task[None]) -> None:
        """Close it once the loop has left it: another socket may get its number."""
        task.cancel()
        task.add_done_callback(lambda _: sock.close())


async def _direct(source: Direct, mux: AsyncConnection, until: float) -> None:
    loop, locate = mux.loop, partial(source.locate, until)
    if source.answered:  # off the loop: it may have to be started
        address = await _within(until, ("locate", id(source)), locate, name="fencelock-locate")
    else:
        address = locate()
    sock = await open_socket(AsyncioSockets(), address, until, answered=source.answered)
    adopt = loop.create_unix_connection if address.path else loop.create_connection
    try:
        await adopt(lambda: mux, sock=sock)
    except OSError as error:  # it was lost meanwhile
        raise refused(address, error) from error
    mux.mastered = await greet(mux.command, address.handshake(), str(address), until)


async def _adopted(source: Cloned, mux: AsyncConnection, until: float) -> None:
    """Let the client's class connect and authenticate, then take its transport over."""
    from fencelock._io.sources import client as cloned  # noqa: PLC0415 - only for clients that need it

    settings = cloned.private_settings(source, until)
    provider = settings.get("credential_provider")
    if provider is not None:
        try:
            answer = await _credentials(provider, until)
        except Exception as error:
            raise cloned.failure(source, error) from error
        settings["credential_provider"] = Answered(provider, answer)
    theirs: Any = source.connection_class(**settings)
    cloned.quiet(theirs)
    try:
        await theirs.connect()
        writer = _taken(theirs)
    except BaseException as error:
        if (left := _taken(theirs)) is not None:  # after a cancellation it stays open
            left.transport.abort()
        if isinstance(error, Exception):
            raise cloned.failure(source, error) from error
        raise
    # Ours from here on. The writer must live as long as the transport: its finalizer closes it.
    mux.keepsake, transport = writer, writer.transport
    transport.set_protocol(mux)
    mux.connection_made(transport)
    transport.resume_reading()
    mux.mastered = await greet(mux.command, [GREETING], source.label, until)
    source.spoken.add(source.label)


def _taken(theirs: Any) -> Any:
    """Take the stream out of a client's connection, which would close it; no public API does that.

    None when it has none.
    """
    writer = getattr(theirs, "_writer", None)
    for name in ("_reader", "_writer"):  # slots: not in the object's ``__dict__``
        setattr(theirs, name, None)
    return writer


class Answered:
    """A credential provider that was asked already.

    redis-py would call a blocking ``get_credentials`` in the loop, and so hold up all tasks: before
    5.3 that of each provider, later that of those that have no method for asyncio.
    """

    def __init__(self, provider: Any, answer: Any) -> None:
        self._provider = provider
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def get_credentials(self) -> Any:
        """Return the answer."""
        return self._answer

    async def get_credentials_async(self) -> Any:
        """Return the answer."""
        return self._answer


async def _credentials(provider: Any, until: float) -> Any:
    """Return what a provider says; TimeoutError when it is too slow."""
    own = getattr(type(provider), "get_credentials_async", None)
    if own is not None and own.__qualname__ != "CredentialProvider.get_credentials_async":
        return await provider.get_credentials_async()
    key = ("credentials", id(provider))
    return await _within(until, key, provider.get_credentials, name="fencelock-credentials")


async def _within(until: float, key: Hashable, function: Callable[[], T], *, name: str) -> T:
    """Do as ``bounded_call.within``, for a task; a loop that ends waits for its own pool only."""
    loop = asyncio.get_running_loop()
    bell: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(set_done, bell)

    claim: WorkClaim[T] = WorkClaim(ring)
    try:
        under_way.claim(key, lambda: Work(function, None), name, claim)
        async with asyncio.timeout(max(0.001, until - now())):
            await bell
    except BaseException:
        under_way.leave(key, claim, name)
        raise
    try:
        return claim.result()
    finally:
        del claim
