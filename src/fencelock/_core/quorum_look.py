"""Look at a quorum's locks: what a majority says counts.

Who looks asks all nodes at once, and is told QuorumNotReached when no majority answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from fencelock._core.fan import Ask, QuorumPort, fan, not_reached, put_back
from fencelock._core.inspect import LockInfo, describe, describe_shares, is_shares, names, revoke
from fencelock._core.keys import LockKeys
from fencelock._core.port import Port, Reply
from fencelock._core.question import Request as Asker
from fencelock._core.votes import known_as
from fencelock._core.want import Request
from fencelock.errors import FencelockError, ServerUnsuitable
from fencelock.scripts import SHARES_SHOW, SHOW

T = TypeVar("T")
_NOBODY: Any = Asker(b"")  # what is only read has no holder to undo anything for


async def replies(port: Port, name: str, request: Request) -> list[Reply]:
    """Return what the nodes answer, at least a majority of them."""
    many = cast("QuorumPort", port)
    now = many.now()
    well = [node for node in range(len(many.nodes)) if many.ill.get(node, 0.0) <= now]
    nodes = well if len(well) >= many.needed else range(len(many.nodes))
    asks = [Ask(node, _NOBODY, request) for node in nodes]
    try:
        good = await fan(many, asks, lambda _: True, many.needed, now + many.patience)
    finally:
        put_back(many, asks)
    if len(good) < many.needed:
        raise _too_few(many, name, asks)
    return [ask.reply for ask in good]


def _too_few(port: QuorumPort, name: str, asks: Sequence[Ask]) -> FencelockError:
    failures: dict[int, Exception] = {ask.node: ask.error for ask in asks if ask.error is not None}
    return not_reached(port, f"no node answers about {name!r}", failures)


def agreed(port: Port, values: Sequence[bytes]) -> bytes | None:
    """Return what a majority says, or None."""
    value, count = Counter(map(known_as, values)).most_common(1)[0]
    return value if value and count >= cast("QuorumPort", port).needed else None


def reached(port: Port, numbers: Sequence[int]) -> int:
    """Return the largest number that a majority reaches."""
    return sorted(numbers, reverse=True)[cast("QuorumPort", port).needed - 1]


async def holder_of(port: Port, keys: LockKeys) -> bytes | None:
    """Return who holds the lock on a majority now, or None."""
    found = await replies(port, keys.name, (SHOW, keys.show, (0,)))
    if any(reply[1] not in {b"string", b"none"} for reply in found):
        raise ServerUnsuitable(f"{keys.name!r} is another kind of object", code="WRONGTYPE")
    return agreed(port, [reply[2] for reply in found])


async def shares(port: Port, keys: LockKeys, holders: tuple[bytes, ...] = ()) -> list[Reply]:
    """Return what the nodes answer to ``shares_show.lua``: permits, and which ids hold some."""
    return await replies(port, keys.name, (SHARES_SHOW, keys.grant, (-1, *holders)))


async def show(port: Port, keys: LockKeys, waiters: int) -> LockInfo:
    """Return what a majority knows of one lock; its line is that of its first node."""
    found = await replies(port, keys.name, (SHOW, keys.show, (waiters,)))
    if any(reply[1] == b"zset" or is_shares(reply[4]) for reply in found):
        shares = await replies(port, keys.name, (SHARES_SHOW, keys.grant, (waiters,)))
        infos = [describe_shares(keys.name, each) for each in shares if is_shares(each[1])]
        infos.sort(key=lambda info: info.taken, reverse=True)
        shown = infos[min(len(infos), cast("QuorumPort", port).needed) - 1]
    else:
        holder = agreed(port, [reply[2] for reply in found])
        same = [reply for reply in found if (known_as(reply[2]) or None) == holder]
        shown = describe(keys.name, same[0]) if same else _free(keys.name, found)
        infos = [describe(keys.name, reply) for reply in found]
    line = max(infos, key=lambda info: info.waiting)
    return shown._replace(waiting=line.waiting, waiters=line.waiters)


def _free(name: str, found: Sequence[Reply]) -> LockInfo:
    """Describe a lock that some nodes have granted, and no majority to anybody."""
    info = describe(name, max(found, key=lambda reply: len(reply[4])))
    return info._replace(held=False, holder=None, remaining=None, held_for=0.0)


async def on_each(port: Port, name: str, flow: Callable[[Port], Awaitable[T]]) -> list[T]:
    """Run a flow on one node after the other; raise when it fails on too many."""
    many = cast("QuorumPort", port)
    done: list[T] = []
    failures: dict[int, Exception] = {}
    for number, node in enumerate(many.nodes):
        try:
            done.append(await flow(node))
        except FencelockError as error:
            failures[number] = error
    if len(done) < many.needed:
        raise not_reached(many, name, failures)
    return done


async def all_names(port: Port, prefix: str, pattern: str) -> list[str]:
    """Return the names that any node knows, sorted."""
    found = await on_each(port, "names", lambda node: names(node, prefix, pattern))
    return sorted({name for each in found for name in each})


async def revoke_all(
    port: Port, keys: LockKeys, reason: str, only: tuple[str, int] | None
) -> LockInfo | None:
    """Take the lock from its holder on all nodes; return what was known of it."""
    found = await on_each(port, keys.name, lambda node: revoke(node, keys, reason, only))
    known = [info for info in found if info is not None]
    return known[0] if known else None
