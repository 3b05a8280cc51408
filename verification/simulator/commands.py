"""The Redis commands that our scripts and flows use, each as a function of a keyspace.

Replies and errors are those of Redis 6.2 and later; a test compares them with real servers.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import Any

from verification.simulator.hashes import hdel, hexists, hget, hgetall, hincrby, hkeys, hlen, hset
from verification.simulator.keyspace import CommandError, Values
from verification.simulator.strings import MANY, STRINGS, SYNTAX, integer

Command = Callable[..., Any]


def score(text: bytes) -> float:
    """Parse a score."""
    try:
        return float(text)
    except ValueError:
        raise CommandError("ERR value is not a valid float") from None


def score_text(value: float) -> bytes:
    """Write a score as Redis does: integers without a point, all else with 17 digits."""
    return b"%d" % int(value) if value == int(value) else b"%.17g" % value


# -- sets ---------------------------------------------------------------------------------------


def _sadd(space: Values, key: bytes, *members: bytes) -> int:
    old: frozenset[bytes] = space.value(key, frozenset) or frozenset()
    new = old.union(members)
    space.update(key, new)
    return len(new) - len(old)


def _srem(space: Values, key: bytes, *members: bytes) -> int:
    old: frozenset[bytes] = space.value(key, frozenset) or frozenset()
    new = old.difference(members)
    if old:
        space.update(key, new)
    return len(old) - len(new)


def _scard(space: Values, key: bytes) -> int:
    return len(space.value(key, frozenset) or ())


def _smembers(space: Values, key: bytes) -> list[bytes]:
    return sorted(space.value(key, frozenset) or ())  # a server has an order of its own


# -- sorted sets --------------------------------------------------------------------------------

Entries = tuple[tuple[float, bytes], ...]


def entries(space: Values, key: bytes) -> Entries:
    """Return a sorted set in its order: by score, then by member."""
    value: Entries = space.value(key, tuple) or ()
    return value


def _zadd(space: Values, key: bytes, *words: bytes) -> int:
    only_new = words[0].upper() == b"NX"
    pairs = words[1:] if only_new else words
    if len(pairs) % 2 or not pairs:
        raise CommandError(SYNTAX)
    added, now = 0, list(entries(space, key))
    for text, member in zip(pairs[::2], pairs[1::2], strict=True):
        value = score(text)
        old = [entry for entry in now if entry[1] == member]
        added += not old
        if old and not only_new:
            now.remove(old[0])
        if not old or not only_new:
            insort(now, (value, member))
    space.update(key, tuple(now))
    return added


def _zrem(space: Values, key: bytes, *members: bytes) -> int:
    return _keep(space, key, lambda entry: entry[1] not in members)


def _zrangebyscore(space: Values, key: bytes, low: bytes, high: bytes) -> list[bytes]:
    lowest, highest = score(low), score(high)
    return [member for value, member in entries(space, key) if lowest <= value <= highest]


def _zremrangebyscore(space: Values, key: bytes, low: bytes, high: bytes) -> int:
    lowest, highest = score(low), score(high)
    return _keep(space, key, lambda entry: not lowest <= entry[0] <= highest)


def _keep(space: Values, key: bytes, wanted: Callable[[tuple[float, bytes]], bool]) -> int:
    old = entries(space, key)
    new = tuple(filter(wanted, old))
    if old:
        space.update(key, new)
    return len(old) - len(new)


def _zrange(
    space: Values, key: bytes, first: bytes, last: bytes, option: bytes = b""
) -> list[bytes]:
    if option.upper() not in {b"", b"WITHSCORES"}:
        raise CommandError(SYNTAX)
    have = entries(space, key)
    start, stop = (max(n + len(have), 0) if n < 0 else n for n in map(integer, (first, last)))
    if integer(last) < -len(have):
        return []
    return _flat(have[start : stop + 1], scores=bool(option))


def _zpopmin(space: Values, key: bytes) -> list[bytes]:
    have = entries(space, key)
    if have:
        space.update(key, have[1:])
    return _flat(have[:1], scores=True)


def _flat(have: Entries, *, scores: bool) -> list[bytes]:
    if not scores:
        return [member for _, member in have]
    return [part for value, member in have for part in (member, score_text(value))]


def _zrank(space: Values, key: bytes, member: bytes) -> int | None:
    ranks = (rank for rank, entry in enumerate(entries(space, key)) if entry[1] == member)
    return next(ranks, None)


def _zscore(space: Values, key: bytes, member: bytes) -> bytes | None:
    found = (value for value, have in entries(space, key) if have == member)
    return next(map(score_text, found), None)


def _zcard(space: Values, key: bytes) -> int:
    return len(entries(space, key))


# Name → function, fewest and most arguments.
TABLE: dict[bytes, tuple[Command, int, int]] = {
    **STRINGS,
    b"SADD": (_sadd, 2, MANY),
    b"SREM": (_srem, 2, MANY),
    b"SCARD": (_scard, 1, 1),
    b"SMEMBERS": (_smembers, 1, 1),
    b"HSET": (hset, 3, MANY),
    b"HGET": (hget, 2, 2),
    b"HDEL": (hdel, 2, MANY),
    b"HGETALL": (hgetall, 1, 1),
    b"HLEN": (hlen, 1, 1),
    b"HEXISTS": (hexists, 2, 2),
    b"HKEYS": (hkeys, 1, 1),
    b"HINCRBY": (hincrby, 3, 3),
    b"ZADD": (_zadd, 3, MANY),
    b"ZREM": (_zrem, 2, MANY),
    b"ZRANGEBYSCORE": (_zrangebyscore, 3, 3),
    b"ZREMRANGEBYSCORE": (_zremrangebyscore, 3, 3),
    b"ZRANGE": (_zrange, 3, 4),
    b"ZPOPMIN": (_zpopmin, 1, 1),
    b"ZRANK": (_zrank, 2, 2),
    b"ZSCORE": (_zscore, 2, 2),
    b"ZCARD": (_zcard, 1, 1),
}


class Keyspace(Values):
    """A keyspace that runs commands: those that our scripts and flows use."""

    def command(self, *args: bytes | int) -> Any:
        """Run one command and return its reply: int, bytes, Status, None or a list.

        Raises:
            CommandError: the server would answer with an error, or the command is not simulated.
        """
        name, *words = [arg if isinstance(arg, bytes) else b"%d" % arg for arg in args]
        row = TABLE.get(name) or TABLE.get(name.upper())
        if row is None:
            raise CommandError(f"ERR unknown command '{name.decode()}' in the simulator")
        command, least, most = row
        if not least <= len(words) <= most:
            raise CommandError(
                f"ERR wrong number of arguments for '{name.decode().lower()}' command"
            )
        return command(self, *words)
