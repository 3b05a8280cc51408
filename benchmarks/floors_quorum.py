"""The floors for a quorum: the same two commands as for one server, to all of its servers at once.

All requests are written before an answer is read. A vote is not counted: each server must agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from contestants import Contestant, Pair
from floors import Wrong, lock_commands
from floors_asyncio import Reading, connect
from wire import Address, dial

TAKEN, GIVEN = b"+OK\r\n", b":1\r\n"


def commands(addresses: Sequence[Address], name: str) -> tuple[list[bytes], list[bytes]]:
    """Return what takes the lock at each server, and what gives it back there."""
    packed = [lock_commands(address, name) for address in addresses]
    return [take for take, _ in packed], [give for _, give in packed]


class Threads(Contestant):
    """A blocking socket for each server, and one thread."""

    def pair(self, name: str) -> Pair:
        takes, gives = commands(self.address.nodes, name)
        lines = [dial(node) for node in self.address.nodes]
        sends, receives = [line.sendall for line in lines], [line.recv for line in lines]

        def ask(requests: list[bytes], answer: bytes) -> None:
            for send, request in zip(sends, requests, strict=True):
                send(request)
            for receive in receives:
                if receive(64) != answer:
                    raise Wrong("the floor found its lock taken, or did not hold it")

        return Pair(lambda: ask(takes, TAKEN), lambda: ask(gives, GIVEN))


class Gathering(Reading):
    """One connection of several; the last answer wakes the task."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = cast("asyncio.Transport", transport).write

    def received(self, data: bytes) -> None:
        self._answers.take(data)


class Answers:
    """What the servers answer to the present question."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._got: list[bytes] = []
        self._waiter: asyncio.Future[list[bytes]] | None = None

    def future(self) -> asyncio.Future[list[bytes]]:
        """Return what will have all answers."""
        self._got = []
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def take(self, data: bytes) -> None:
        """Take one server's answer."""
        self._got.append(data)
        if len(self._got) == self._number and self._waiter is not None:
            self._waiter.set_result(self._got)


class Tasks(Contestant):
    """A bare Protocol for each server, and one task."""

    async def open(self) -> None:
        nodes = self.address.nodes
        self._answers = Answers(len(nodes))
        self._lines = [await connect(lambda: Gathering(self._answers), node) for node in nodes]

    def pair(self, name: str) -> Pair:
        takes, gives = commands(self.address.nodes, name)
        writes, number, answers = [line.write for line in self._lines], len(takes), self._answers

        async def ask(requests: list[bytes], answer: bytes) -> None:
            waiter = answers.future()
            for write, request in zip(writes, requests, strict=True):
                write(request)
            if (await waiter).count(answer) != number:
                raise Wrong("the floor found its lock taken, or did not hold it")

        return Pair(lambda: ask(takes, TAKEN), lambda: ask(gives, GIVEN))
