"""A client whose connections cannot be cloned, such as fakeredis's: used by its public calls.

Rules of this file:

- A socket pair replaces the connection. At its far end a thread, or a task of the loop, parses
  requests, calls the client, and writes its answers as a server would. So everything works as with
  a server's connection, only slower.
- Requests are answered one after the other. Published messages come from ``client.pubsub()``.
- SUBSCRIBE is answered when the server has confirmed it. A request behind it on a multiplexed
  connection waits for that: its answer would be taken for SUBSCRIBE's.
- The far end ends when ours is closed, and closes when the client cannot reach its server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fencelock._core.types import NoReply
from fencelock._io.sources.kinds import Bridged
from fencelock._io.wire import INCOMPLETE, reader
from fencelock._runtime.descriptors import own
from fencelock._runtime.mutex import started

Words = Sequence[bytes]

_RECV_BYTES: Final = 65536
# How often the thread that waits for messages checks whether it should end.
_LOOK_SECONDS: Final = 0.2
# A connection whose subscription is not confirmed by then ends.
_CONFIRM_SECONDS: Final = 5.0
# Errors from whose text a client removes the code.
_CODES: Final = {
    "NoScriptError": "NOSCRIPT",
    "ReadOnlyError": "READONLY",
    "BusyLoadingError": "LOADING",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
}
# What a client raises for an error reply; any other exception ends the connection.
_REFUSALS: Final = frozenset({"ResponseError", "AuthenticationError", "BusyLoadingError"})
_LISTENS: Final = frozenset({b"SUBSCRIBE", b"SSUBSCRIBE"})
# Makes a client that decodes return bytes.
_RAW: Final[dict[str, Any]] = {"NEVER_DECODE": []}


def connect(source: Bridged) -> socket.socket:
    """Return a blocking socket to what a client talks to."""
    ours, theirs = map(own, socket.socketpair())
    far = _BlockingBridge(source.client, theirs)
    trouble = started(threading.Thread(target=far.serve, name="fencelock-bridge"))
    if trouble is not None:
        ours.close()
        theirs.close()
        raise NoReply(f"no thread can be started for the client: {trouble}", sent=False)
    return ours


async def adopt(source: Bridged, mux: Any) -> None:
    """Connect a multiplexed connection to what a client talks to."""
    ours, theirs = map(own, socket.socketpair())
    streams = await asyncio.open_connection(sock=theirs)
    far = _AsyncioBridge(source.client, *streams)
    mux.keepsake = asyncio.create_task(far.serve(), name="fencelock-bridge")
    await mux.loop.create_connection(lambda: mux, sock=ours)


class _BlockingBridge:
    """The far end of a blocking connection."""

    def __init__(self, client: Any, sock: socket.socket) -> None:
        self._client = client
        self._sock = sock
        self._lock = threading.Lock()  # two threads write
        self._pubsub: Any = None
        self._over = threading.Event()

    def serve(self) -> None:
        """Answer until the near end closes, or the client fails."""
        requests = reader()
        try:
            # Whatever it is: the near end finds the connection closed.
            with self._sock, contextlib.suppress(Exception):
                while data := self._sock.recv(_RECV_BYTES):
                    for words in _whole(requests, data):
                        self._answer(words)
        finally:
            self._over.set()

    def _answer(self, words: Words) -> None:
        if words[0] == b"HELLO":
            self._write(_frame({b"server": b"bridge"}))
        elif words[0] in _LISTENS:
            self._listen(words[1])
        else:
            try:
                answer = _frame(self._client.execute_command(*words, **_RAW))
            except Exception as error:  # noqa: BLE001 - the near end hears of it, whatever it is
                answer = _refusal(error)
            self._write(answer)

    def _listen(self, channel: bytes) -> None:
        if self._pubsub is None:
            self._pubsub = self._client.pubsub()
            self._pubsub.subscribe(channel)
            _ = started(threading.Thread(target=self._hear, name="fencelock-bridge"))
        else:
            self._pubsub.subscribe(channel)

    def _hear(self) -> None:
        with contextlib.suppress(Exception):  # whatever it is, the messages end
            while not self._over.is_set():
                message = self._pubsub.get_message(timeout=_LOOK_SECONDS)
                if message is not None:
                    self._write(_push(message))
        self._pubsub.close()

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._sock.sendall(data)


class _AsyncioBridge:
    """The far end of a multiplexed connection."""

    def __init__(
        self, client: Any, incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter
    ) -> None:
        self._client = client
        self._incoming, self._outgoing = incoming, outgoing
        self._pubsub: Any = None
        self._hearing: asyncio.Task[None] | None = None
        self._confirmed: asyncio.Future[bytes] | None = None  # while SUBSCRIBE is not answered

    async def serve(self) -> None:
        """Answer until the near end closes, or the client fails."""
        requests = reader()
        try:
            with contextlib.suppress(Exception):  # as above
                while data := await self._incoming.read(_RECV_BYTES):
                    for words in _whole(requests, data):
                        await self._answer(words)
        finally:
            if self._hearing is not None:
                self._hearing.cancel()
            self._outgoing.close()

    async def _answer(self, words: Words) -> None:
        if words[0] == b"HELLO":
            self._outgoing.write(_frame({b"server": b"bridge"}))
        elif words[0] in _LISTENS:
            await self._listen(words[1])
        else:
            try:
                answer = _frame(await self._client.execute_command(*words, **_RAW))
            except Exception as error:  # noqa: BLE001 - the near end hears of it, whatever it is
                answer = _refusal(error)
            self._outgoing.write(answer)

    async def _listen(self, channel: bytes) -> None:
        if self._pubsub is None:
            self._pubsub = self._client.pubsub()
        confirmed = self._confirmed = asyncio.get_running_loop().create_future()
        await self._pubsub.subscribe(channel)
        if self._hearing is None:
            self._hearing = asyncio.create_task(self._hear(), name="fencelock-bridge")
        async with asyncio.timeout(_CONFIRM_SECONDS):
            self._outgoing.write(await confirmed)

    async def _hear(self) -> None:
        try:
            with contextlib.suppress(Exception):  # whatever it is, the messages end
                while True:
                    message = await self._pubsub.get_message(timeout=_LOOK_SECONDS)
                    if message is not None:
                        self._heard(message)
        finally:
            if self._confirmed is not None:
                self._confirmed.cancel()  # it was refused: the connection ends
            await self._pubsub.aclose()

    def _heard(self, message: Mapping[str, Any]) -> None:
        if message["type"] != "subscribe":
            self._outgoing.write(_push(message))
        elif self._confirmed is not None:  # else the client subscribed again by itself
            self._confirmed.set_result(_push(message))
            self._confirmed = None


def _whole(requests: Any, data: bytes) -> Iterator[Words]:
    """Yield the requests that are whole, with what came just now."""
    requests.feed(data)
    while (words := requests.gets()) is not INCOMPLETE:
        yield words


def _refusal(error: Exception) -> bytes:
    """Return a server's refusal as it was written; for anything else, end the connection."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if not kinds & _REFUSALS:
        raise ConnectionAbortedError(str(error)) from error
    text = str(error).replace("\r", " ").replace("\n", " ")
    code = next((_CODES[kind] for kind in kinds if kind in _CODES), "")
    known = text.partition(" ")[0]
    if not code and known.isupper() and known.isalnum():  # the client left it there
        return f"-{text}\r\n".encode()
    return f"-{code or 'ERR'} {text}\r\n".encode()


def _push(message: Mapping[str, Any]) -> bytes:
    words = (message["type"], message["channel"], message["data"])
    return b">3\r\n" + b"".join(map(_frame, words))


def _frame(value: Any) -> bytes:
    """Return what a client made of an answer, as the server wrote it."""
    if value is None:
        return b"_\r\n"
    if value is True:  # a client's word for OK
        return b"+OK\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, Mapping):
        return b"%%%d\r\n" % len(value) + b"".join(
            _frame(each) for pair in value.items() for each in pair
        )
    if isinstance(value, (list, tuple)):
        return b"*%d\r\n" % len(value) + b"".join(map(_frame, value))
    text = value if isinstance(value, bytes) else str(value).encode()
    return b"$%d\r\n%b\r\n" % (len(text), text)
