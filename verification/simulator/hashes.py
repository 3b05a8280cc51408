"""The commands of hashes, as functions of a keyspace; see ``commands``."""

from __future__ import annotations

from typing import Any

from verification.simulator.keyspace import CommandError, Values


class Hash(dict[bytes, bytes]):
    """A hash. Never changed once it stands in a keyspace, so that it can be compared and kept."""

    __slots__ = ("_digest",)

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none, as it may change
        try:
            return self._digest
        except AttributeError:
            self._digest: int = hash(frozenset(self.items()))
            return self._digest


def hset(space: Values, key: bytes, *words: bytes) -> Any:
    """Set fields; return how many are new."""
    if len(words) % 2:
        raise CommandError("ERR wrong number of arguments for 'hset' command")
    old: Hash = space.value(key, Hash) or Hash()
    new = Hash({**old, **dict(zip(words[::2], words[1::2], strict=True))})
    space.update(key, new)
    return len(new) - len(old)


def hget(space: Values, key: bytes, field: bytes) -> Any:
    """Return a field's value, or None."""
    return (space.value(key, Hash) or {}).get(field)


def hdel(space: Values, key: bytes, *fields: bytes) -> Any:
    """Remove fields; return how many there were."""
    old: Hash = space.value(key, Hash) or Hash()
    new = Hash({field: value for field, value in old.items() if field not in fields})
    if old:
        space.update(key, new)
    return len(old) - len(new)


def hexists(space: Values, key: bytes, field: bytes) -> Any:
    """Return 1 if there is a field, else 0."""
    return int(field in (space.value(key, Hash) or {}))


def hincrby(space: Values, key: bytes, field: bytes, by: bytes) -> Any:
    """Add to the number of a field, 0 if there is none; return it."""
    number = int(hget(space, key, field) or 0) + int(by)
    hset(space, key, field, b"%d" % number)
    return number


def hkeys(space: Values, key: bytes) -> Any:
    """Return all fields."""
    return [*(space.value(key, Hash) or {})]


def hlen(space: Values, key: bytes) -> Any:
    """Return how many fields there are."""
    return len(space.value(key, Hash) or ())


def hgetall(space: Values, key: bytes) -> Any:
    """Return all fields, each before its value."""
    return [word for pair in (space.value(key, Hash) or {}).items() for word in pair]
