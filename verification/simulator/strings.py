"""The commands of strings and keys, as functions of a keyspace; see ``commands``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from verification.simulator.hashes import Hash
from verification.simulator.keyspace import NEVER, CommandError, Status, Values

OK: Final = Status(b"OK")
SYNTAX = "ERR syntax error"
KINDS: dict[type, Status] = {
    bytes: Status(b"string"),
    tuple: Status(b"zset"),
    frozenset: Status(b"set"),
    Hash: Status(b"hash"),
}
MANY: Final = 1 << 30
# The units of an expiry that SET takes, in milliseconds.
UNITS = {b"EX": 1000, b"PX": 1}


def integer(text: bytes) -> int:
    """Parse an integer as Redis does: no spaces, no plus sign."""
    digits = text.removeprefix(b"-")
    if not digits.isdigit() or (digits[:1] == b"0" and len(text) > 1):
        raise CommandError("ERR value is not an integer or out of range")
    return int(text)


def _get(space: Values, key: bytes) -> bytes | None:
    value: bytes | None = space.value(key, bytes)
    return value


def _set(space: Values, key: bytes, value: bytes, *options: bytes) -> Status | None:
    if options == (b"KEEPTTL",):
        space.value(key)  # an expired one leaves no expiry
        space.update(key, value)
        return OK
    only_new, expires_ms = _set_options(space, options)
    if only_new and space.value(key) is not None:
        return None
    space.store(key, value, expires_ms)
    return OK


def _set_options(space: Values, options: tuple[bytes, ...]) -> tuple[bool, int]:
    words, only_new, expires_ms = list(options), False, NEVER
    while words:
        word = words.pop(0).upper()
        if word == b"NX":
            only_new = True
        elif word in UNITS and words:
            span = integer(words.pop(0))
            if span <= 0:
                raise CommandError("ERR invalid expire time in 'set' command")
            expires_ms = space.now_ms + span * UNITS[word]
        else:
            raise CommandError(SYNTAX)
    return only_new, expires_ms


def _setnx(space: Values, key: bytes, value: bytes) -> int:
    if space.value(key) is not None:
        return 0
    space.store(key, value)
    return 1


def _getset(space: Values, key: bytes, value: bytes) -> bytes | None:
    old = _get(space, key)
    space.store(key, value)
    return old


def _delete(space: Values, *keys: bytes) -> int:
    return sum(space.remove(key) for key in keys)


def _exists(space: Values, *keys: bytes) -> int:
    return sum(space.value(key) is not None for key in keys)


def _type(space: Values, key: bytes) -> Status:
    value = space.value(key)
    if value is None:
        return Status(b"none")
    return KINDS[type(value)]


def _pttl(space: Values, key: bytes) -> int:
    if space.value(key) is None:
        return -2
    expires_ms = space.expires_ms(key)
    return -1 if expires_ms == NEVER else expires_ms - space.now_ms


def _incr(space: Values, key: bytes) -> int:
    number = integer(space.value(key, bytes) or b"0") + 1
    space.update(key, b"%d" % number)
    return number


def _pexpire(space: Values, key: bytes, span: bytes) -> int:
    left = integer(span)
    value = space.value(key)
    if value is None:
        return 0
    if left <= 0:
        space.remove(key)
    else:
        space.store(key, value, space.now_ms + left)
    return 1


def _expire(space: Values, key: bytes, span: bytes) -> int:
    return _pexpire(space, key, b"%d" % (integer(span) * 1000))


def _time(space: Values) -> list[bytes]:
    return [b"%d" % part for part in divmod(space.now_us, 1_000_000)]


# Our clients listen to a channel with this ending by SSUBSCRIBE, and to all others by SUBSCRIBE.
SHARDED = b"!"
# What of PUBSUB there is → whether it counts subscriptions to sharded channels.
COUNTED = {b"NUMSUB": False, b"SHARDNUMSUB": True}


def _publish(space: Values, channel: bytes, message: bytes) -> int:
    return 0 if channel.endswith(SHARDED) else space.publish(channel, message)


def _spublish(space: Values, channel: bytes, message: bytes) -> int:
    return space.publish(channel, message) if channel.endswith(SHARDED) else 0


def _pubsub(space: Values, what: bytes, *channels: bytes) -> list[bytes | int]:
    sharded = COUNTED.get(what.upper())
    if sharded is None:
        raise CommandError(SYNTAX)
    heard = [space.listeners(each) if each.endswith(SHARDED) == sharded else 0 for each in channels]
    return [part for pair in zip(channels, heard, strict=True) for part in pair]


def _cluster(space: Values, what: bytes) -> bytes:
    if what.upper() != b"MYID":
        raise CommandError(SYNTAX)
    if not space.node:
        raise CommandError("ERR This instance has cluster support disabled")
    return space.node


def _flushall(space: Values) -> Status:
    space.clear()
    return OK


# Name → function, fewest and most arguments.
STRINGS: dict[bytes, tuple[Callable[..., Any], int, int]] = {
    b"GET": (_get, 1, 1),
    b"SET": (_set, 2, MANY),
    b"SETNX": (_setnx, 2, 2),
    b"INCR": (_incr, 1, 1),
    b"GETSET": (_getset, 2, 2),
    b"DEL": (_delete, 1, MANY),
    b"EXISTS": (_exists, 1, MANY),
    b"TYPE": (_type, 1, 1),
    b"PTTL": (_pttl, 1, 1),
    b"PEXPIRE": (_pexpire, 2, 2),
    b"EXPIRE": (_expire, 2, 2),
    b"TIME": (_time, 0, 0),
    b"PUBLISH": (_publish, 2, 2),
    b"SPUBLISH": (_spublish, 2, 2),
    b"PUBSUB": (_pubsub, 1, MANY),
    b"CLUSTER": (_cluster, 1, 1),
    b"FLUSHALL": (_flushall, 0, 0),
}
