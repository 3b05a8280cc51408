"""Show locks to an operator, and revoke a lock on an operator's request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import LockKeys, lock_key
from fencelock._core.port import Port
from fencelock._core.quorum.votes import known_as
from fencelock._core.retry import ask, command, parts
from fencelock._core.types import Reply, Request
from fencelock.scripts import BREAK, SHARES_BREAK, SHARES_SHOW, SHOW

T = TypeVar("T")

WAITERS_SHOWN = 100
HOLDERS_SOUGHT = 10_000
SCAN_COUNT = 1000
# A revocation is remembered for as long as a holder may need to learn of it by a renewal.
REVOKED_MS = 600_000


class ClientInfo(NamedTuple):
    """A holder or waiter, described for people."""

    host: str = ""
    pid: int = 0
    unit: str = ""  # thread or task
    label: str = ""
    since: float = 0.0  # Unix time on the server, in seconds
    permits: int = 0  # that it holds or waits for, of a semaphore or reader/writer lock
    candidate: str = ""  # in an election

    @property
    def called(self) -> str:
        """Return what people call it apart from host and process: candidate and label."""
        process = f"{self.host}:{self.pid}"  # is a candidate's name when it was given none
        names = dict.fromkeys((self.candidate, self.label))
        return ", ".join(each for each in names if each and each != process)


class HolderInfo(NamedTuple):
    """One holder of several."""

    who: ClientInfo
    fence: int
    remaining: float  # seconds of its lease
    held_for: float  # seconds since its grant


class LockInfo(NamedTuple):
    """One lock at one moment, as the server saw it."""

    name: str
    held: bool
    holder: ClientInfo | None  # None when it is free, or held by a program that is not fencelock
    fence: int  # of the last grant; 0 when none is known
    remaining: float | None  # seconds of the lease; None without an expiry
    held_for: float  # seconds since the grant
    waiting: int
    waiters: Sequence[ClientInfo] = ()  # in line order, the first hundred
    kind: str = "lock"  # or "semaphore", "rwlock"; "other" when the key holds something else
    # Of a semaphore or reader/writer lock; there ``holder`` is the one whose lease ends first.
    limit: int = 0
    taken: int = 0
    holding: int = 0
    holders: Sequence[HolderInfo] = ()  # by the end of their leases, as many as were asked for

    @property
    def full(self) -> bool:
        """Return True if a client that asks now has to wait: for one permit of a semaphore."""
        if self.kind == "semaphore":
            return self.waiting > 0 or self.taken >= self.limit
        return self.held


def channel_prefix(key_prefix: str) -> str:
    """Return the prefix of channels: the keys' own, so that one ACL pattern covers both."""
    return "".join("_" if char.isspace() else char for char in key_prefix)


@describes_errors
async def holder_of(port: Port, keys: LockKeys) -> bytes | None:
    """Return the id of the lock's present holder, or None."""
    return await port.flows.holder_of(port, keys)


async def lock_value(port: Port, keys: LockKeys) -> bytes | None:
    """Return the id of the present holder of a lock of one server, or None."""
    holder: bytes | None = await command(port, (b"GET", keys.lock), keys.lock)
    return holder


async def held_ids(port: Port, keys: LockKeys) -> list[bytes]:
    """Return the hold ids of an explicit owner, in a stable order."""
    return sorted(await command(port, (b"SMEMBERS", keys.grant[4]), keys.lock))


@describes_errors
async def show(port: Port, keys: LockKeys, waiters: int = WAITERS_SHOWN) -> LockInfo:
    """Return what is known of one lock: of several answers, what ``port.needed`` of them say."""
    found = await port.flows.replies(port, keys.name, (SHOW, keys.show, (waiters,)))
    infos = await _shares(port, keys, waiters, found)
    if infos:
        infos.sort(key=lambda info: info.taken, reverse=True)
        shown = infos[min(len(infos), port.needed) - 1]
    else:
        infos = [describe(keys.name, reply) for reply in found]
        holder = agreed(port, [reply[2] for reply in found])
        same = [reply for reply in found if (known_as(reply[2]) or None) == holder]
        shown = describe(keys.name, same[0]) if same else _free(keys.name, found)
    line = max(infos, key=lambda info: info.waiting)
    return shown._replace(waiting=line.waiting, waiters=line.waiters)


async def _shares(
    port: Port, keys: LockKeys, waiters: int, found: Sequence[Reply]
) -> list[LockInfo]:
    """Return the records of a semaphore or reader/writer lock; none when it is neither."""
    if not any(_may_be_shares(reply) for reply in found):
        return []
    request = (SHARES_SHOW, keys.grant, (waiters,))
    shares = await port.flows.replies(port, keys.name, request)
    return [describe_shares(keys.name, each) for each in shares if is_shares(each[1])]


def _may_be_shares(reply: Reply) -> bool:
    return reply[1] == b"zset" or (reply[1] == b"none" and is_shares(reply[4]))


def _free(name: str, found: Sequence[Reply]) -> LockInfo:
    """Describe a lock that some nodes have granted, and no majority to one client."""
    info = describe(name, max(found, key=lambda reply: len(reply[4])))
    return info._replace(held=False, holder=None, remaining=None, held_for=0.0)


def agreed(port: Port, values: Sequence[bytes]) -> bytes | None:
    """Return the value that as many answers have as are needed, or None."""
    value, count = Counter(map(known_as, values)).most_common(1)[0]
    return value if value and count >= port.needed else None


async def reply_of_one(port: Port, name: str, request: Request) -> list[Reply]:  # noqa: ARG001 - as ``Flows.replies``
    """Return the answer of one server."""
    return [await ask(port, *request, port.now() + port.server_timeout)]


async def on_one(port: Port, name: str, flow: Callable[[Port], Awaitable[T]]) -> Sequence[T]:  # noqa: ARG001 - as ``Flows.on_each``
    """Run a flow on one server."""
    return [await flow(port)]


async def names(port: Port, prefix: str, pattern: str = "*") -> list[str]:
    """Return the names of the locks that were held recently or are waited for, sorted."""
    each = await port.flows.on_each(port, "names", lambda server: _names(server, prefix, pattern))
    return sorted(set().union(*each))


async def _names(port: Port, prefix: str, pattern: str) -> set[str]:
    found: set[str] = set()
    for key in await scan(port, prefix):
        lock = lock_key(key, prefix.encode())
        if lock is not None:
            found.add(lock.decode(errors="replace")[len(prefix) :])
    return {name for name in found if _matches(name, pattern)}


async def scan(port: Port, prefix: str, *kind: bytes) -> set[bytes]:
    """Return all keys with a prefix, wherever they are; of one type when ``kind`` says so."""
    found: set[bytes] = set()
    match = (_glob_quoted(prefix) + "*").encode()
    for part in await parts(port):
        cursor: Any = b"0"
        while True:
            words = (b"SCAN", cursor, b"MATCH", match, b"COUNT", SCAN_COUNT, *kind)
            cursor, page = await command(port, words, part)
            found.update(page)
            if cursor == b"0":
                break
    return found


@describes_errors
async def revoke(
    port: Port, keys: LockKeys, reason: str, only: tuple[str, int] | None = None
) -> LockInfo | None:
    """Revoke the lock: its holder is notified, and the next waiter is granted.

    A semaphore or reader/writer lock is taken from all its holders; with ``only``, a host and a
    process id, from those of that process. Returns what was known of the holders, or None.
    """
    found = await port.flows.on_each(
        port, keys.name, lambda server: _revoke(server, keys, reason, only)
    )
    return next((info for info in found if info is not None), None)


async def _revoke(
    port: Port, keys: LockKeys, reason: str, only: tuple[str, int] | None
) -> LockInfo | None:
    before = await show(port, keys, WAITERS_SHOWN if only is None else HOLDERS_SOUGHT)
    until = port.now() + port.server_timeout
    args = (reason.encode(), REVOKED_MS)
    if before.limit:
        told = b"" if only is None else described_as(*only)
        reply = await ask(port, SHARES_BREAK, keys.all, (*args, told, port.new_id()), until)
        return _only(before, only) if reply[0] > 0 else None
    if only is not None and (before.holder is None or before.holder[:2] != only):
        return None
    reply = await ask(port, BREAK, keys.all, (*args, port.new_id()), until)
    return before if reply[0] == 1 else None


def described_as(host: str, pid: int) -> bytes:
    """Return the beginning of a holder's description, as ``_handles.lock.describe`` writes it."""
    told = json.dumps({"host": host, "pid": pid}, separators=(",", ":"), ensure_ascii=False)
    return b" " + told.removesuffix("}").encode() + b","


def _only(info: LockInfo, only: tuple[str, int] | None) -> LockInfo:
    """Return the record with the holders of one process, where one is given."""
    if only is None:
        return info
    holders = [each for each in info.holders if each.who[:2] == only]
    first = holders[0] if holders else None
    return info._replace(
        holders=holders,
        holding=len(holders),
        taken=sum(each.who.permits for each in holders),
        holder=first.who if first else None,
        remaining=first.remaining if first else None,
        held_for=first.held_for if first else 0.0,
    )


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


def is_shares(record: bytes) -> bool:
    """Return True if a record is that of a semaphore or reader/writer lock."""
    return record.partition(b" ")[2].startswith(b"=")


def describe_shares(name: str, reply: Reply) -> LockInfo:
    """Return the reply of ``shares_show.lua`` as a record."""
    now_us, record, taken, holding, holds, waiting, line = reply
    fence, kind, _, limit, _ = record.split(b" ")
    holders = [
        _share(hold, float(end), now_us)
        for hold, end in zip(holds[::2], holds[1::2], strict=True)
        if hold
    ]
    first = holders[0] if holders else None
    return LockInfo(
        name=name,
        held=holding > 0,
        holder=first.who if first else None,
        fence=int(fence),
        remaining=first.remaining if first else None,
        held_for=first.held_for if first else 0.0,
        waiting=waiting,
        waiters=[
            _waiter(entry, float(at)) for entry, at in zip(line[::2], line[1::2], strict=True)
        ],
        kind=kind[1:].decode(),
        limit=int(limit),
        taken=taken,
        holding=holding,
        holders=holders,
    )


def _share(hold: bytes, end_us: float, now_us: int) -> HolderInfo:
    permits, fence, _, _, _, _, info = hold.split(b" ", 6)
    since_us = min(int(fence), now_us)
    who = _person(info, since_us)._replace(permits=int(permits))
    return HolderInfo(who, int(fence), (end_us - now_us) / 1e6, (now_us - since_us) / 1e6)


def _record(record: bytes) -> tuple[int, bytes, bytes]:
    parts = record.split(b" ", 6)  # fence holder ttl claim owned home info
    if len(parts) != 7 or not parts[0].isdigit():  # noqa: PLR2004 - see above
        return 0, b"", b""
    return int(parts[0]), parts[1], parts[6]


def _waiter(entry: bytes, arrived_us: float) -> ClientInfo:
    *_, permits, _, info = entry.split(b" ", 7)
    wanted = int(permits[1:]) if permits.startswith(b"p") else 0
    return _person(info, arrived_us)._replace(permits=wanted)


def _person(info: bytes, since_us: float) -> ClientInfo:
    try:
        told = json.loads(info)
    except ValueError:
        told = {}
    if not isinstance(told, dict):  # another program wrote it
        told = {}
    pid = told.get("pid", 0)
    return ClientInfo(
        host=str(told.get("host", "")),
        pid=pid if isinstance(pid, int) else 0,
        unit=str(told.get("unit", "")),
        label=str(told.get("label", told.get("candidate", ""))),
        since=since_us / 1e6,
        candidate=str(told.get("candidate", "")),
    )


def _glob_quoted(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)


def _matches(name: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase  # noqa: PLC0415 - only for people's commands

    return fnmatchcase(name, pattern)
