"""How a connection to a node of a Cluster is asked: one request, one after ASKING, or many."""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from fencelock._core.types import Broken, Reply, Request
from fencelock._transport.direct import Connection
from fencelock._transport.wire import ReplyError, pack_call, with_source
from fencelock.clock import REST_SECONDS, now

ASKING = (b"ASKING",)


class Ask(Protocol):
    """Asks on a connection until an instant; with ``asking``, after ASKING."""

    def __call__(self, connection: Connection, until: float, *, asking: bool) -> Reply:
        """Return the reply; ends like ``Connection.call``."""


def scripted(packed: bytes) -> Ask:
    """Return how to run a packed script call: with its source after ASKING, which counts once."""

    def ask(connection: Connection, until: float, *, asking: bool) -> Reply:
        if not asking:
            return connection.run(packed, until)
        connection.command(ASKING, until)
        return connection.run(with_source(packed), until)

    return ask


def ready(connections: Iterable[Connection], until: float) -> Iterator[Connection]:
    """Yield the connections in the order in which something comes; the silent ones at last."""
    waiting = {each.fileno(): each for each in connections}
    poll = select.poll()
    for number in waiting:
        poll.register(number, select.POLLIN)
    while waiting and (left := until - now()) > 0:
        for number, _ in poll.poll(min(left, REST_SECONDS) * 1000):
            poll.unregister(number)
            yield waiting.pop(number)
    yield from waiting.values()


def plain(args: Sequence[bytes | int]) -> Ask:
    """Return how to run a plain command."""

    def ask(connection: Connection, until: float, *, asking: bool) -> Reply:
        if asking:
            connection.command(ASKING, until)
        return connection.command(args, until)

    return ask


def together(
    connection: Connection, requests: Sequence[Request], until: float
) -> list[Reply | Exception]:
    """Write all requests at once and read all answers; error replies are values."""
    try:
        write(connection, requests)
    except Broken as broken:
        return [broken] * len(requests)
    return read(connection, requests, until)


def write(connection: Connection, requests: Sequence[Request]) -> None:
    """Write all requests at once; Broken when the connection is gone."""
    try:
        connection.asked_at = now()
        connection.send(b"".join(pack_call(*each) for each in requests), len(requests))
    except BaseException:
        connection.sound = False
        raise


def read(
    connection: Connection, requests: Sequence[Request], until: float
) -> list[Reply | Exception]:
    """Read the answers to all requests; error replies are values."""
    answers: list[Reply | Exception] = []
    try:
        while len(answers) < len(requests):
            try:
                answers.append(connection.answer(until))
            except ReplyError as error:
                answers.append(error)
    except Broken as broken:
        answers += [broken] * (len(requests) - len(answers))
    except BaseException:
        connection.sound = False
        raise
    return answers
