"""Show locks to an operator, and revoke a lock on an operator's request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, TypeVar

from fencelock._core import events
from fencelock._core.description import described
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import LockKeys, lock_key
from fencelock._core.lock.terms import may_linger
from fencelock._core.look import LISTED
from fencelock._core.look.clients import Row
from fencelock._core.look.history import note_revocation
from fencelock._core.port import Port
from fencelock._core.quorum.votes import agreed, known_as
from fencelock._core.retry import ask, command, parts
from fencelock._core.types import Call, Reply
from fencelock._runtime.records import NamedTuple
from fencelock.scripts import BREAK, SHARES_BREAK, SHOW
from fencelock.status import HolderStatus, LockStatus, WaiterStatus

T = TypeVar("T")

# How many locks one script shows: that takes it some milliseconds.
NAMES_MAX = 500
# For how long the clients of many leases are asked whether these are idle.
IDLE_SECONDS = 1.0
HOLDERS_SOUGHT = 10_000
SCAN_COUNT = 1000
# A revocation is remembered for as long as a holder may need to learn of it by a renewal.
REVOKED_MS = 600_000


@describes_errors
async def show(port: Port, keys: LockKeys, waiters: int = LISTED) -> LockStatus:
    """Return what is known of one lock: of several answers, what ``port.needed`` of them say."""
    [status] = await show_all(port, [keys], waiters)
    return status


@describes_errors
async def show_all(
    port: Port, found: Sequence[LockKeys], waiters: int = LISTED, *, asks: bool = True
) -> list[LockStatus]:
    """Return what is known of several locks, in their order; one command for many of them.

    With ``asks`` the clients of leases that may be idle are asked whether they are, for at most a
    second: a lease for which that stays unknown is shown as held. And clients are asked who waits
    inside them, if waiters are to be listed.
    """
    answers = await _survey(port, found, waiters)
    shown: list[LockStatus] = []
    until = port.now() + IDLE_SECONDS
    for keys, given in zip(found, answers, strict=True):
        status, holder = decided(port, keys.name, given), given[0].holder
        may_be_idle = status.held and not status.limit and may_linger(holder)
        if asks and may_be_idle and port.now() < until and await port.is_idle(keys, holder):
            status = status._replace(held=False, kept=True)
        shown.append(status)
    if asks and waiters:  # only the clients know who waits inside them, and whose turn it is
        clients: dict[bytes, LockKeys] = {}
        for keys, (answer, *_) in zip(found, answers, strict=True):
            for client_channel in clients_of(answer):
                clients.setdefault(client_channel, keys)
        rows: dict[str, list[Row]] = {}
        for row in await port.local_rows(clients, until):
            rows.setdefault(row.lock, []).append(row)
        for at, keys in enumerate(found):
            of_lock = rows.get(keys.lock.decode(errors="replace"), ())
            shown[at] = _with_local(shown[at], of_lock, answers[at][0].now_us)
    return shown


async def _survey(port: Port, found: Sequence[LockKeys], waiters: int) -> list[list[Shown]]:
    """Return for each lock what each server shows of it: one script for each slot, and for many."""
    slots = port.by_slot(range(len(found)), lambda number: found[number].lock)
    groups = [some for numbers in slots.values() for some in in_batches(numbers)]
    calls = [showing([found[number] for number in some], waiters) for some in groups]
    shown: dict[int, list[Shown]] = {}
    for some, replies in zip(
        groups, await port.replies(found[0].name if found else "", calls), strict=True
    ):
        for at, number in enumerate(some, 1):
            shown[number] = [Shown(each[0], each[at]) for each in replies]
    return [shown[number] for number in range(len(found))]


@describes_errors
async def find(
    port: Port, prefix: str, pattern: str, waiters: int = LISTED, *, recent: bool = False
) -> list[LockStatus]:
    """Return the locks that are held, kept or waited for and match, by name.

    With ``recent`` also those that were released a short time ago.
    """
    found = [LockKeys(prefix, name) for name in await names(port, prefix, pattern)]
    shown = await show_all(port, found, waiters)
    return [status for status in shown if recent or status.active]


def in_batches(found: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield parts of a sequence that one script can show without holding up others for long."""
    for at in range(0, len(found), NAMES_MAX):
        yield found[at : at + NAMES_MAX]


def showing(found: Sequence[LockKeys], waiters: int) -> Call:
    """Return the request that shows locks of one slot."""
    return SHOW, [key for keys in found for key in keys.grant], (waiters,)


def decided(port: Port, name: str, answers: Sequence[Shown]) -> LockStatus:
    """Return what as many answers say as are needed."""
    infos = [describe(name, each) for each in answers]
    holder = agreed([each.holder for each in answers], port.needed)
    same = [at for at, each in enumerate(answers) if (known_as(each.holder) or None) == holder]
    if same:
        shown = infos[same[0]]
    else:  # some nodes have granted it, and no majority to one client
        shown = describe(name, max(answers, key=lambda each: len(each.record)))
        shown = shown._replace(held=False, holders=(), holding=0, remaining=None)
    line = max(infos, key=lambda info: info.waiting)
    return shown._replace(waiting=line.waiting, waiters=line.waiters)


async def names(port: Port, prefix: str, pattern: str = "*", until: float = inf) -> list[str]:
    """Return the names of the locks that were held recently or are waited for, sorted.

    Those that are found by an instant, of each server.
    """
    each = await port.on_each("names", lambda server: _names(server, prefix, pattern, until))
    return sorted(set().union(*each))


async def _names(port: Port, prefix: str, pattern: str, until: float) -> set[str]:
    found: set[str] = set()
    for key in await scan(port, prefix, until=until):
        lock = lock_key(key, prefix.encode())
        if lock is not None:
            found.add(lock.decode(errors="replace")[len(prefix) :])
    return {name for name in found if matches(name, pattern)}


async def scan(port: Port, prefix: str, *kind: bytes, until: float = inf) -> set[bytes]:
    """Return all keys with a prefix, wherever they are; of one type when ``kind`` says so.

    Those that are found by an instant: a server may have many keys of others.
    """
    found: set[bytes] = set()
    quoted = "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)
    match = f"{quoted}*".encode()
    for part in await parts(port):
        cursor: Any = b"0"
        while True:
            words = (b"SCAN", cursor, b"MATCH", match, b"COUNT", SCAN_COUNT, *kind)
            cursor, page = await command(port, words, part)
            found.update(page)
            if cursor == b"0" or port.now() >= until:
                break
    return found


@describes_errors
async def revoke(
    port: Port, keys: LockKeys, reason: str, only: tuple[str, int] | None = None, by: str = ""
) -> LockStatus | None:
    """Revoke the lock: its holder is notified, the next waiter is granted, the history has it.

    A semaphore or reader/writer lock is taken from all its holders; with ``only``, a host and a
    process id, from those of that process. Returns what was known of the holders, or None.
    """
    found = await port.on_each(keys.name, lambda server: _revoke(server, keys, reason, only))
    hit = next((info for info in found if info is not None), None)
    if hit is not None:
        if events.hooks:
            events.revoked(port, keys.name, hit.kind, reason)
        note_revocation(port, keys.prefix, hit, reason, by)
    return hit


async def _revoke(
    port: Port, keys: LockKeys, reason: str, only: tuple[str, int] | None
) -> LockStatus | None:
    before = await show(port, keys, LISTED if only is None else HOLDERS_SOUGHT)
    until = port.now() + port.server_timeout
    args = (reason.encode(), REVOKED_MS)
    if before.limit:
        told = b"" if only is None else described_as(*only)
        reply = await ask(port, SHARES_BREAK, keys.all, (*args, told, port.new_id()), until)
        return _only(before, only) if reply[0] > 0 else None
    if only is not None and (before.holder is None or before.holder.process != only):
        return None
    reply = await ask(port, BREAK, keys.all, (*args, port.new_id()), until)
    return before if reply[0] == 1 else None


def described_as(host: str, pid: int) -> bytes:
    """Return the beginning of a holder's description, as ``_handles.handle.describe`` writes it."""
    told = json.dumps({"host": host, "pid": pid}, separators=(",", ":"), ensure_ascii=False)
    return b" " + told.removesuffix("}").encode() + b","


def _only(status: LockStatus, only: tuple[str, int] | None) -> LockStatus:
    """Return the status with the holders of one process, where one is given."""
    if only is None:
        return status
    holders = tuple(each for each in status.holders if each.process == only)
    return status._replace(
        holders=holders,
        holding=len(holders),
        taken=sum(each.permits for each in holders),
        remaining=holders[0].remaining if holders else None,
    )


# -- from replies to what people read --------------------------------------------------------------


class Shown(NamedTuple):
    """What one server shows of one lock, as ``show.lua`` lists it, at its own time."""

    now_us: int
    reply: Reply

    @property
    def holder(self) -> bytes:
        """Return the id of a lock's holder, or nothing."""
        return bytes(self.reply[1])

    @property
    def record(self) -> bytes:
        """Return the first line of the record, or nothing."""
        return bytes(self.reply[3])


def describe(name: str, shown: Shown) -> LockStatus:
    """Return what one server shows as the status of a lock, semaphore or reader/writer lock."""
    now_us, (kind, holder, pttl_ms, record, waiting, line, *_) = shown
    if is_shares(record) and kind in {b"zset", b"none"}:
        return _describe_shares(name, shown)
    fence, granted, info = _record(record)
    remaining = pttl_ms / 1000 if pttl_ms >= 0 else None
    ours = bool(holder) and granted == holder
    return LockStatus(
        name=name,
        kind="lock" if kind in {b"string", b"none"} else "other",
        held=bool(holder),
        fence=fence,
        remaining=remaining,
        holders=(_holder(info, 0, fence, now_us, remaining),) if ours else (),
        holding=int(ours),
        waiters=_line(line, now_us),
        waiting=waiting,
    )


def clients_of(shown: Shown) -> list[bytes]:
    """Return the channels of the clients that hold a lock or stand in its line."""
    if not shown.holder or is_shares(shown.record):  # no client passes permits on by itself
        return []
    entries = (entry.split(b" ", 7) for entry, _ in _pairs(shown.reply[5]))
    return [*shown.record.split(b" ", 6)[5:6], *(each[6] for each in entries)]


def _with_local(status: LockStatus, rows: Sequence[Row], now_us: int) -> LockStatus:
    """Return the status with what the clients themselves say of a lock."""
    since = now_us / 1e6
    for row in rows:
        who = told(row.info.encode())
        if not row.holds:
            waiter = WaiterStatus(**who, since=since - row.seconds, waited=row.seconds)
            status = status._replace(local_waiters=(*status.local_waiters, waiter))
        elif status.holder is not None and status.holder.process == (who["host"], who["pid"]):
            turn = who | {"since": since - row.seconds, "held_for": row.seconds}
            status = status._replace(holders=(status.holder._replace(**turn),))
    return status


def is_shares(record: bytes) -> bool:
    """Return True if a record is that of a semaphore or reader/writer lock."""
    return record.partition(b" ")[2].startswith(b"=")


def _describe_shares(name: str, shown: Shown) -> LockStatus:
    now_us, (_, _, _, record, waiting, line, taken, holding, holds) = shown
    fence, kind, _, limit, _ = record.split(b" ")
    holders = tuple(_share(hold, end, now_us) for hold, end in _pairs(holds) if hold)
    return LockStatus(
        name=name,
        kind=kind[1:].decode(),
        held=holding > 0,
        fence=int(fence),
        remaining=holders[0].remaining if holders else None,
        holders=holders,
        holding=holding,
        waiters=_line(line, now_us),
        waiting=waiting,
        limit=int(limit),
        taken=taken,
    )


def _share(hold: bytes, end_us: float, now_us: int) -> HolderStatus:
    permits, fence, _, _, _, _, info = hold.split(b" ", 6)
    return _holder(info, int(permits), int(fence), now_us, (end_us - now_us) / 1e6)


def _record(record: bytes) -> tuple[int, bytes, bytes]:
    parts = record.split(b" ", 6)  # fence holder ttl handoff_ttl owned client info
    if len(parts) != 7 or not parts[0].isdigit():  # noqa: PLR2004 - see above
        return 0, b"", b""
    return int(parts[0]), parts[1], parts[6]


def _holder(
    info: bytes, permits: int, fence: int, now_us: int, remaining: float | None
) -> HolderStatus:
    since_us = min(fence, now_us)  # a fence is the instant of its grant, unless the clock went back
    who = told(info)
    return HolderStatus(
        **who,
        permits=permits,
        fence=fence,
        since=since_us / 1e6,
        held_for=(now_us - since_us) / 1e6,
        remaining=remaining,
    )


def _line(line: Sequence[bytes], now_us: int) -> tuple[WaiterStatus, ...]:
    entries = enumerate(_pairs(line), 1)
    return tuple(_waiter(place, entry, at, now_us) for place, (entry, at) in entries)


def _waiter(place: int, entry: bytes, arrived_us: float, now_us: int) -> WaiterStatus:
    *_, permits, _, info = entry.split(b" ", 7)
    return WaiterStatus(
        **told(info),
        place=place,
        permits=int(permits[1:]) if permits.startswith(b"p") else 0,
        since=arrived_us / 1e6,
        waited=max(0.0, (now_us - arrived_us) / 1e6),
    )


def _pairs(listed: Sequence[bytes]) -> Iterator[tuple[bytes, float]]:
    """Yield members and scores."""
    return zip(listed[::2], map(float, listed[1::2]), strict=True)


def told(info: bytes) -> dict[str, Any]:
    """Return what a holder or waiter says of itself, as far as it can be read."""
    said = described(info)
    pid, others = said.get("pid", 0), said.get("others", 0)
    return {
        "host": str(said.get("host", "")),
        "pid": pid if isinstance(pid, int) else 0,
        "unit": str(said.get("unit", "")),
        "label": str(said.get("label", said.get("candidate", ""))),
        "candidate": str(said.get("candidate", "")),
        "others": others if isinstance(others, int) else 0,
        "trace": str(said.get("trace", "")),
        "unit_id": str(said.get("id", "")),
    }


def matches(name: str, pattern: str) -> bool:
    """Return True if a name fits a pattern of the shell."""
    from fnmatch import fnmatchcase  # noqa: PLC0415 - only for people's commands

    return fnmatchcase(name, pattern)
