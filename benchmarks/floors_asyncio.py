"""The floors for asyncio: a bare Protocol, the fastest that a task can be served with.

Commands are packed before the clock starts; a reply wakes the one future that waits for it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import TypeVar, cast

from contestants import Contestant, Pair
from floors import Wrong, lock_commands, token_commands
from wire import Address

BUFFER_BYTES = 1 << 14


class Reading(asyncio.BufferedProtocol):
    """A connection that reads into one buffer.

    For a plain Protocol the loop allocates and frees 256 KiB at each read. What that costs depends
    on what the process has imported before, and may be more than all the rest.
    """

    def __init__(self) -> None:
        self._view = memoryview(bytearray(BUFFER_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self.received(bytes(self._view[:nbytes]))

    def received(self, data: bytes) -> None:
        raise NotImplementedError


class Single(Reading):
    """A connection with at most one command under way."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = cast("asyncio.Transport", transport).write
        self.waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def received(self, data: bytes) -> None:
        self.waiter.set_result(data)


class Shared(Reading):
    """A connection for many tasks: what one turn of the loop asks is written together."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._unsent: list[bytes] = []
        self._rest = b""

    def ask(self, command: bytes) -> asyncio.Future[bytes]:
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(command)
        waiter: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def _flush(self) -> None:
        self._write(b"".join(self._unsent))
        self._unsent.clear()

    def received(self, data: bytes) -> None:
        *replies, self._rest = (self._rest + data).split(b"\r\n")
        take = self._waiting.popleft
        for reply in replies:
            take().set_result(reply)


Kind = TypeVar("Kind", bound=asyncio.BaseProtocol)


async def connect(kind: Callable[[], Kind], address: Address) -> Kind:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(kind, address.host, address.port)
    line = transport.get_extra_info("socket")
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return protocol


class Tasks(Contestant):
    """SET NX PX and compare-and-delete for one task after the other."""

    async def open(self) -> None:
        self.line = await connect(Single, self.address)

    def pair(self, name: str) -> Pair:
        take, give = lock_commands(self.address, name)
        line, write = self.line, self.line.write
        future = asyncio.get_running_loop().create_future

        async def acquire() -> None:
            line.waiter = waiter = future()
            write(take)
            if await waiter != b"+OK\r\n":
                raise Wrong("the floor found its lock taken")

        async def release() -> None:
            line.waiter = waiter = future()
            write(give)
            if await waiter != b":1\r\n":
                raise Wrong("the floor did not hold its lock")

        return Pair(acquire, release)


class SharedTasks(Contestant):
    """The same for many tasks at once, over one connection."""

    async def open(self) -> None:
        self.line = await connect(Shared, self.address)

    def pair(self, name: str) -> Pair:
        take, give = lock_commands(self.address, name)
        ask = self.line.ask

        async def acquire() -> None:
            if await ask(take) != b"+OK":
                raise Wrong("the floor found its lock taken")

        async def release() -> None:
            if await ask(give) != b":1":
                raise Wrong("the floor did not hold its lock")

        return Pair(acquire, release)


class TokenTasks(Contestant):
    """One token in a list; BLPOP blocks a connection, so every task has its own."""

    def pair(self, name: str) -> Pair:
        pop, push, popped = token_commands(name)
        loop = asyncio.get_running_loop()
        line: Single | None = None

        async def acquire() -> None:
            nonlocal line
            if line is None:
                line = await connect(Single, self.address)
            line.waiter = waiter = loop.create_future()
            line.write(pop)
            if await waiter != popped:
                raise Wrong("that was not the token")

        async def release() -> None:
            assert line is not None
            line.waiter = waiter = loop.create_future()
            line.write(push)
            if await waiter != b":1\r\n":
                raise Wrong("the list had a token already")

        return Pair(acquire, release)
