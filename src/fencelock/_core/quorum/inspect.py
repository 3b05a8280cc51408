"""Show a quorum's locks: what a majority says counts.

All nodes are asked at once; without a majority of answers the result is QuorumNotReached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from fencelock._core.keys import LockKeys
from fencelock._core.port import Port
from fencelock._core.quorum.broadcast import (
    Ballot,
    QuorumPort,
    ask_nodes,
    failures_of,
    healthy,
    not_reached,
)
from fencelock._core.quorum.votes import agreed
from fencelock._core.types import Call, Reply
from fencelock.errors import FencelockError, ServerUnsuitable
from fencelock.scripts import SHOW

T = TypeVar("T")


async def replies(port: QuorumPort, name: str, calls: Sequence[Call]) -> list[list[Reply]]:
    """Return for each question the answers of the nodes, at least of a majority."""
    return [await _replies(port, name, call) for call in calls]


async def _replies(port: QuorumPort, name: str, call: Call) -> list[Reply]:
    now = port.now()
    asks = [Ballot(node, None, call) for node in healthy(port, now)]
    good = await ask_nodes(port, asks, port.needed, now + port.server_timeout)
    if len(good) < port.needed:
        raise not_reached(port, f"no node answers about {name!r}", failures_of(asks))
    return [ask.reply for ask in good]


async def holder_of(port: QuorumPort, keys: LockKeys) -> bytes | None:
    """Return the id of the present holder on a majority, or None."""
    found = await _replies(port, keys.name, (SHOW, keys.grant, (0,)))
    if any(shown[0] not in {b"string", b"none"} for _, shown in found):
        raise ServerUnsuitable(f"{keys.name!r} is another kind of object", code="WRONGTYPE")
    return agreed([shown[1] for _, shown in found], port.needed)


async def on_each(port: QuorumPort, name: str, flow: Callable[[Port], Awaitable[T]]) -> Sequence[T]:
    """Run a flow on one node after the other; raise when it fails on too many."""
    done: list[T] = []
    failures: dict[int, Exception] = {}
    for number, node in enumerate(port.nodes):
        try:
            done.append(await flow(node))
        except FencelockError as error:
            failures[number] = error
    if len(done) < port.needed:
        raise not_reached(port, name, failures)
    return done
