"""Look at locks from outside, and take one away by an operator's word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fencelock._core.ask import ask, command
from fencelock._core.keys import LockKeys, lock_key
from fencelock._core.port import Port, Reply
from fencelock.scripts import BREAK, SHOW

WAITERS_SHOWN = 100
SCAN_COUNT = 1000
# A revocation is remembered for as long as a holder may need to hear of it by renewal.
REVOKED_MS = 600_000


class Person(NamedTuple):
    """A holder or waiter as people want to see it."""

    host: str = ""
    pid: int = 0
    unit: str = ""  # thread or task
    label: str = ""
    since: float = 0.0  # Unix time on the server, in seconds


class LockInfo(NamedTuple):
    """One lock at one moment, as the server saw it."""

    name: str
    held: bool
    holder: Person | None  # None when it is free, or held by a program that is not fencelock
    fence: int  # of the last grant; 0 when none is known
    remaining: float | None  # seconds of the lease; None without an expiry
    held_for: float  # seconds since the grant
    waiting: int
    waiters: Sequence[Person] = ()  # in line order, the first hundred
    kind: str = "lock"  # "other" when the key holds something that is no lock


def home_prefix(key_prefix: str) -> str:
    """Return the prefix of channels: the keys' own, so that one ACL pattern covers both."""
    return "".join("_" if char.isspace() else char for char in key_prefix)


async def holder_of(port: Port, keys: LockKeys) -> bytes | None:
    """Return who holds the lock now, or None."""
    holder: bytes | None = await command(port, (b"GET", keys.lock))
    return holder


async def held_ids(port: Port, keys: LockKeys) -> list[bytes]:
    """Return the hold ids of an explicit owner, in a stable order."""
    return sorted(await command(port, (b"SMEMBERS", keys.grant[4])))


async def show(port: Port, keys: LockKeys, waiters: int = WAITERS_SHOWN) -> LockInfo:
    """Return what the server knows of one lock."""
    reply = await ask(port, SHOW, keys.show, (waiters,), port.now() + port.patience)
    return describe(keys.name, reply)


async def names(port: Port, prefix: str, pattern: str = "*") -> list[str]:
    """Return the names of the locks that were held lately or are waited for, sorted."""
    found: set[str] = set()
    match = _glob_quoted(prefix) + "*"
    cursor: Any = b"0"
    while True:
        scan = (b"SCAN", cursor, b"MATCH", match.encode(), b"COUNT", SCAN_COUNT)
        cursor, page = await command(port, scan)
        for key in page:
            lock = lock_key(key, prefix.encode())
            if lock is not None:
                found.add(lock.decode(errors="replace")[len(prefix) :])
        if cursor == b"0":
            return sorted(name for name in found if _matches(name, pattern))


async def revoke(port: Port, keys: LockKeys, reason: str) -> LockInfo | None:
    """Take the lock from its holder, who is told; the next in line is granted.

    Returns what was known of the holder, or None when nobody held it.
    """
    before = await show(port, keys)
    args = (reason.encode(), REVOKED_MS)
    reply = await ask(port, BREAK, keys.all, args, port.now() + port.patience)
    return before if reply[0] == 1 else None


def describe(name: str, reply: Reply) -> LockInfo:
    """Return the reply of ``show.lua`` as a record."""
    now_us, kind, holder, pttl_ms, record, waiting, line = reply
    fence, granted, info = _record(record)
    since_us = min(fence, now_us)  # a fence is the instant of its grant, unless the clock went back
    held = bool(holder)
    ours = held and granted == holder
    return LockInfo(
        name=name,
        held=held,
        holder=_person(info, since_us) if ours else None,
        fence=fence,
        remaining=pttl_ms / 1000 if pttl_ms >= 0 else None,
        held_for=(now_us - since_us) / 1e6 if ours else 0.0,
        waiting=waiting,
        waiters=[
            _waiter(entry, float(at)) for entry, at in zip(line[::2], line[1::2], strict=True)
        ],
        kind="lock" if kind in {b"string", b"none"} else "other",
    )


def _record(record: bytes) -> tuple[int, bytes, bytes]:
    parts = record.split(b" ", 6)  # fence holder ttl claim owned home info
    if len(parts) != 7:  # noqa: PLR2004 - see above
        return 0, b"", b""
    return int(parts[0]), parts[1], parts[6]


def _waiter(entry: bytes, arrived_us: float) -> Person:
    return _person(entry.split(b" ", 7)[-1], arrived_us)


def _person(info: bytes, since_us: float) -> Person:
    try:
        told = json.loads(info)
    except ValueError:
        told = {}
    return Person(
        host=str(told.get("host", "")),
        pid=int(told.get("pid", 0)),
        unit=str(told.get("unit", "")),
        label=str(told.get("label", told.get("candidate", ""))),
        since=since_us / 1e6,
    )


def _glob_quoted(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)


def _matches(name: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase  # noqa: PLC0415 - only for people's commands

    return fnmatchcase(name, pattern)
