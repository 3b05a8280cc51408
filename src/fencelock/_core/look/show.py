"""Show locks, events, latches and barriers to an operator, and revoke locks on request."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, TypeVar

from fencelock import options
from fencelock._core import events
from fencelock._core.description import person_of
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import (
    RESERVED,
    REVOKED_MS,
    LockKeys,
    SignalKeys,
    history_key,
    index_key,
    lock_key,
)
from fencelock._core.lock.idle import is_idle
from fencelock._core.lock.terms import may_linger
from fencelock._core.look import LISTED
from fencelock._core.look.clients import Row, Said, local_rows
from fencelock._core.look.history import newest, parsed, revocation
from fencelock._core.quorum.membership import agreed, known_as
from fencelock._core.types import Args, Call, Reply
from fencelock._runtime.process import user_and_host
from fencelock._runtime.records import NamedTuple
from fencelock.options import Seconds
from fencelock.scripts import BREAK, SHARES_BREAK, SHOW, SIGNAL_SHOW
from fencelock.scripts.layout import words_of
from fencelock.status import (
    SIGNAL_STATES,
    HistoryEntry,
    HolderStatus,
    LockStatus,
    SignalStatus,
    WaiterStatus,
)

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

T = TypeVar("T")

Process = tuple[str, int]  # a host and a process id

# How many locks one script shows: that takes it some milliseconds.
NAMES_MAX = 500
# For how long the clients of many leases are asked whether these are idle.
IDLE_SECONDS = 1.0
HOLDERS_SOUGHT = 10_000
SCAN_COUNT = 1000
# So many of the newest entries of a history are searched for those of one name.
LOOKED_THROUGH = 10_000


class Looker(NamedTuple):
    """Looks at what lies under a prefix, for one question of a person's."""

    port: Engine
    prefix: str

    async def on_each(self, what: str, flow: Callable[[Looker], Awaitable[T]]) -> Sequence[T]:
        """Look on each independent server; return what was found there."""
        return await self.port.on_each(what, lambda port: flow(Looker(port, self.prefix)))

    @describes_errors
    async def show(self, keys: LockKeys, waiters: int = LISTED) -> LockStatus:
        """Return what is known of one lock: of several answers, what as many say as are needed."""
        [status] = await self.show_all([keys], waiters)
        return status

    @describes_errors
    async def show_all(
        self,
        found: Sequence[LockKeys],
        waiters: int = LISTED,
        *,
        asks: bool = True,
        known: dict[bytes, Said] | None = None,
    ) -> list[LockStatus]:
        """Return what is known of several locks, in their order; one command for many of them.

        With ``asks`` the clients of leases that may be idle are asked whether they are, for at most
        a second: a lease for which that stays unknown is shown as held. In any case clients are
        asked who waits inside them, if waiters are to be listed; ``known`` is what they said in
        earlier looks.
        """
        # No lease of a quorum is kept while it is idle, and each waiter stands in a node's line.
        port, alone = self.port, self.port.needed == 1
        answers = await self._survey(found, waiters)
        shown: list[LockStatus] = []
        until = port.now() + IDLE_SECONDS
        for keys, given in zip(found, answers, strict=True):
            status, holder = self._decided(keys.name, given), given[0].holder
            may_be_idle = alone and status.held and not status.limit and may_linger(holder)
            if asks and may_be_idle and port.now() < until and await is_idle(port, keys, holder):
                status = status._replace(held=False, kept=True)
            shown.append(status)
        if waiters and alone:  # only the clients know who waits inside them, and whose turn it is
            clients: dict[bytes, LockKeys] = {}
            for keys, (answer, *_) in zip(found, answers, strict=True):
                for client_channel in clients_of(answer):
                    clients.setdefault(client_channel, keys)
            rows: dict[str, list[tuple[bytes, Row]]] = {}
            local = await local_rows(port, clients, until, {} if known is None else known)
            for client_channel, said in local.items():
                for row in said:
                    rows.setdefault(row.lock, []).append((client_channel, row))
            for at, keys in enumerate(found):
                of_lock = rows.get(keys.lock.decode(errors="replace"), ())
                shown[at] = _with_local(shown[at], of_lock, answers[at][0])
        return shown

    async def _survey(self, found: Sequence[LockKeys], waiters: int) -> list[list[Shown]]:
        """Return for each lock what each server shows of it, by one script for each slot."""
        slots = self.port.by_slot(range(len(found)), lambda number: found[number].lock)
        groups = [
            numbers[at : at + NAMES_MAX]
            for numbers in slots.values()
            for at in range(0, len(numbers), NAMES_MAX)
        ]
        calls: list[Call] = [
            (SHOW, [key for number in some for key in found[number].grant], (waiters,))
            for some in groups
        ]
        shown: dict[int, list[Shown]] = {}
        answers = await self.port.replies(found[0].name if found else "", calls)
        for some, replies in zip(groups, answers, strict=True):
            for at, number in enumerate(some, 1):
                shown[number] = [Shown(each[0], each[at]) for each in replies]
        return [shown[number] for number in range(len(found))]

    def _decided(self, name: str, answers: Sequence[Shown]) -> LockStatus:
        """Return what as many answers say as are needed."""
        infos = [describe(name, each) for each in answers]
        holder = agreed([each.holder for each in answers], self.port.needed)
        same = [at for at, each in enumerate(answers) if (known_as(each.holder) or None) == holder]
        if same:
            shown = infos[same[0]]
        else:  # some nodes have granted it, and no majority to one client
            shown = describe(name, max(answers, key=lambda each: len(each.record)))
            shown = shown._replace(held=False, holders=(), holding=0, remaining=None)
        line = max(infos, key=lambda info: info.waiting)
        return shown._replace(waiting=line.waiting, waiters=line.waiters)

    @describes_errors
    async def locks(
        self, match: str, given: Iterable[str] | None, *, waiters: int, recent: bool
    ) -> list[LockStatus]:
        """Return the locks of these names, or those in use that match, by name.

        With ``recent`` also those that match and were released a short time ago.
        """
        listed, chosen = options.count("waiters", waiters, least=0), chosen_names(match, given)
        found = await self.names(options.text("match", match)) if chosen is None else chosen
        looks = chosen is None and self.port.needed == 1
        hashes = await self.hash_names(match) if looks else []
        others = [name for name in hashes if name not in found]
        keys = [LockKeys(self.prefix, name) for name in [*found, *others]]
        shown = await self.show_all(keys, listed)
        wanted = shown[: len(found)] + [each for each in shown[len(found) :] if each.field]
        wanted = [status for status in wanted if recent or status.active or chosen is not None]
        return wanted if chosen is not None else sorted(wanted, key=lambda status: status.name)

    async def names(self, pattern: str = "*", until: float = inf) -> list[str]:
        """Return the names of the locks that were held recently or are waited for, sorted.

        Those that are found by an instant, of each server.
        """
        each = await self.on_each("names", lambda at: at.names_here(pattern, until))
        return sorted(set().union(*each))

    async def names_here(self, pattern: str, until: float) -> set[str]:
        """Return those of one server."""
        prefix = self.prefix
        locks = {lock_key(key, prefix.encode()) for key in await self.scan(until=until)}
        found = {lock.decode(errors="replace")[len(prefix) :] for lock in locks if lock is not None}
        return {name for name in found if matches(name, pattern)}

    async def scan(self, *kind: bytes, until: float = inf) -> set[bytes]:
        """Return all keys with the prefix, wherever they are; of one type when ``kind`` says so.

        Those that are found by an instant: a server may have many keys of others.
        """
        found: set[bytes] = set()
        quoted = "".join(f"\\{char}" if char in "*?[]\\" else char for char in self.prefix)
        match = f"{quoted}*".encode()
        port, wait_until = self.port, self.port.now() + self.port.server_timeout
        for part in await port.persist(lambda: port.parts(wait_until), wait_until, reads=True):
            cursor = b"0"
            while True:
                words: Args = (b"SCAN", cursor, b"MATCH", match, b"COUNT", SCAN_COUNT, *kind)
                cursor, page = await port.read(words, part)
                found.update(page)
                if cursor == b"0" or port.now() >= until:
                    break
        return found

    @describes_errors
    async def revoke(
        self, keys: LockKeys, reason: str, only: Process | None = None, by: str | None = None
    ) -> LockStatus | None:
        """Revoke the lock: its holder is notified, the next waiter is granted, the history has it.

        A semaphore or reader/writer lock is taken from all its holders; with ``only``, a host and a
        process id, from those of that process. Returns what was known of the holders, or None.
        """
        by = options.text("by", user_and_host() if by is None else by)
        reason = options.text("reason", reason).strip()
        if not reason:
            raise ValueError("reason must not be empty: it is what the holder will read")
        only = None if only is None else _process(only)
        found = await self.on_each(keys.name, lambda at: at.revoke_here(keys, reason, only))
        hit = next((info for info in found if info is not None), None)
        if hit is not None:
            if events.hooks:
                about = events.Subject(self.port, keys.name, hit.kind)
                events.report(events.REVOKED, about, self.port.now(), reason=reason)
            kept = revocation(self.port.client_channel, self.prefix, hit, reason, by)
            self.port.run_in_background(*kept)
        return hit

    async def revoke_here(
        self, keys: LockKeys, reason: str, only: Process | None
    ) -> LockStatus | None:
        """Revoke it on one server."""
        before = await self.show(keys, LISTED if only is None else HOLDERS_SOUGHT)
        port, args = self.port, (reason.encode(), REVOKED_MS)
        if before.limit:
            begins = b""
            if only is not None:  # as ``_handles.handle.describe`` writes it
                process = {"host": only[0], "pid": only[1]}
                text = json.dumps(process, separators=(",", ":"), ensure_ascii=False)
                begins = b" %b," % text.removesuffix("}").encode()
            reply = await port.ask(SHARES_BREAK, keys.all, (*args, begins, port.new_id()))
            return _only(before, only) if reply[0] > 0 else None
        if only is not None and (before.holder is None or before.holder.process != only):
            return None
        if before.kind == "redisson":
            from fencelock._core.objects.redisson import RedissonKeys, force_unlock  # noqa: PLC0415 - seldom

            theirs = RedissonKeys(keys.lock.decode(), fenced=False)
            return before if await force_unlock(port, theirs, reason) else None
        reply = await port.ask(BREAK, keys.all, (*args, port.new_id()))
        return before if reply[0] == 1 else None

    # -- the history, and the index of names in use ---------------------------------------------

    @describes_errors
    async def history(
        self, name: str | None, within: Seconds | None, limit: int
    ) -> list[HistoryEntry]:
        """Return the newest entries, in the order of time, of the last so many seconds."""
        chosen = None if name is None else options.lock_name(name)
        since = None if within is None else options.positive("within", within)
        limit = options.count("limit", limit)
        each = await self.on_each("", lambda at: at.history_here(since, limit))
        return newest(chain(*each), chosen, limit)

    async def history_here(self, since: float | None, limit: int) -> list[HistoryEntry]:
        """Return the entries that one server has."""
        key, oldest = history_key(self.prefix), b"-"
        if since is not None:
            seconds, _ = await self.port.read((b"TIME",), key)
            oldest = b"%d" % max(0, (int(seconds) - since) * 1000)
        words = (b"XREVRANGE", key, b"+", oldest, b"COUNT", max(limit, LOOKED_THROUGH))
        return parsed(await self.port.read(words, key))

    async def noted(self, since_us: float, most: int) -> tuple[float, set[str]]:
        """Return when a server noted the newest name in use, and those noted since an instant."""
        key, since = index_key(self.prefix), b"%d" % max(0, since_us)
        words = (b"ZREVRANGEBYSCORE", key, b"+inf", since, b"WITHSCORES", b"LIMIT", 0, most)
        pairs = await self.port.read(words, key)
        if pairs and not isinstance(pairs[0], list):  # RESP2 does not pair members and scores
            pairs = list(zip(pairs[::2], pairs[1::2], strict=True))
        noted = {name.decode(errors="replace") for name, _ in pairs}
        return (float(pairs[0][1]) if pairs else 0.0), {name for name in noted if _is_lock(name)}

    # -- events, latches and barriers ---------------------------------------------------------

    @describes_errors
    async def signals(self, match: str, given: Iterable[str] | None) -> list[SignalStatus]:
        """Return the events, latches and barriers of these names, or those that match, by name."""
        chosen = chosen_names(match, given)
        if self.port.needed > 1:  # a quorum has none
            return []
        if chosen is None:
            chosen = await self.hash_names(options.text("match", match))
        shown = [await self._show_signal(SignalKeys(self.prefix, name)) for name in chosen]
        return [status for status in shown if status is not None]

    async def hash_names(self, pattern: str) -> list[str]:
        """Return the names of events, latches, barriers, and Redisson's locks: hashes."""
        keys = await self.scan(b"TYPE", b"hash")
        found = {key[len(self.prefix.encode()) :].decode(errors="replace") for key in keys}
        return sorted(
            name
            for name in found
            if name and not name.encode().endswith(RESERVED) and matches(name, pattern)
        )

    @describes_errors
    async def _show_signal(self, keys: SignalKeys) -> SignalStatus | None:
        """Return the state of an event, latch or barrier; None when the name has none."""
        kind, is_open, count, of, why, waiting, pttl = await self.port.ask(
            SIGNAL_SHOW, keys.watch, (), reads=True
        )
        what = kind.decode(errors="replace")
        if what not in SIGNAL_STATES:
            return None
        state = "broken" if why else SIGNAL_STATES[what][is_open]
        return SignalStatus(keys.name, what, state, count, of, why.decode(), waiting, pttl / 1000)


def chosen_names(match: str, given: Iterable[str] | None) -> list[str] | None:
    """Return the names that were given, each checked; None: those that match."""
    if given is None:
        return None
    if match != "*":
        raise ValueError("give match or names, not both")
    if isinstance(given, (str, bytes)):
        raise TypeError(f"names must be several names, such as [{given!r}], not {given!r}")
    return [options.lock_name(name) for name in given]


def _process(only: Process) -> Process:
    """Return the host and process id from which alone a lock is revoked."""
    if not hasattr(only, "__iter__") or [*map(type, only)] != [str, int]:
        raise TypeError(f"only must be (host, pid), such as status.holder.process, not {only!r}")
    host, pid = only
    return host, pid


def _only(status: LockStatus, only: Process | None) -> LockStatus:
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
    now_us, (kind, holder, pttl_ms, record, waiting, line, *shares, counts) = shown
    waiters = _line(line, now_us, dict(zip(counts[::2], counts[1::2], strict=True)))
    status = LockStatus(name=name, waiters=waiters, waiting=waiting)
    holders: list[HolderStatus] = []
    if is_shares(record) and kind in {b"zset", b"none"}:
        taken, holding, holds = shares
        words = words_of("shares", record)
        for hold, end_us in _pairs(holds):
            if hold:
                holders.append(_holder(words_of("hold", hold), now_us, (end_us - now_us) / 1e6))
        remaining = holders[0].remaining if holders else None
        kind, limit = words["kind"][1:].decode(), int(words["limit"])
        status = status._replace(kind=kind, limit=limit, taken=taken)
    else:
        words = words_of("record", record)
        words = words if words and words["fence"].isdigit() else {}
        remaining = pttl_ms / 1000 if pttl_ms >= 0 else None
        if holder and words.get("holder") == holder:
            holders.append(_holder(words, now_us, remaining))
        ours = {b"string": "lock", b"none": "lock", b"redisson": "redisson"}
        status = status._replace(kind=ours.get(kind, "other"))
        if kind == b"redisson":
            status = status._replace(field=holder.decode())
        holding = len(holders)
    return status._replace(
        held=bool(holding or holder),
        fence=int(words.get("fence", 0)),
        remaining=remaining,
        holders=tuple(holders),
        holding=holding,
    )


def clients_of(shown: Shown) -> list[bytes]:
    """Return the channels of the clients that hold a lock or stand in its line."""
    if not shown.holder or is_shares(shown.record):  # no client passes permits on by itself
        return []
    holders = words_of("record", shown.record).get("client")
    return [*([holders] if holders else []), *_clients_in_line(shown)]


def _clients_in_line(shown: Shown) -> list[bytes]:
    return [words_of("entry", entry)["client"] for entry, _ in _pairs(shown.reply[5])]


def _with_local(status: LockStatus, rows: Sequence[tuple[bytes, Row]], shown: Shown) -> LockStatus:
    """Return the status with what the clients of these channels themselves say of a lock."""
    since, spoke = shown.now_us / 1e6, {client for client, _ in rows}
    if spoke:  # those inside are listed, or counted in the last that is
        line = zip(status.waiters, _clients_in_line(shown), strict=True)
        counted = (who._replace(others=0) if client in spoke else who for who, client in line)
        status = status._replace(waiters=tuple(counted))
    for _, row in rows:
        who = person_of(row.info.encode())
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


def _holder(words: dict[str, bytes], now_us: int, remaining: float | None) -> HolderStatus:
    fence = int(words["fence"])
    since_us = min(fence, now_us)  # a fence is the instant of its grant, unless the clock went back
    return HolderStatus(
        **person_of(words["info"]),
        permits=int(words.get("held", 0)),
        fence=fence,
        since=since_us / 1e6,
        held_for=(now_us - since_us) / 1e6,
        remaining=remaining,
    )


def _line(
    line: Sequence[bytes], now_us: int, counts: Mapping[bytes, int]
) -> tuple[WaiterStatus, ...]:
    waiters: list[WaiterStatus] = []
    for place, (entry, arrived_us) in enumerate(_pairs(line), 1):
        words = words_of("entry", entry)  # in place of `owned` a share's entry has its permits
        who = person_of(words["info"])
        if words["waiter"] in counts:
            who["others"] = counts[words["waiter"]] - 1
        waiter = WaiterStatus(
            **who,
            place=place,
            permits=int(words["owned"][1:]) if words["owned"].startswith(b"p") else 0,
            since=arrived_us / 1e6,
            waited=max(0.0, (now_us - arrived_us) / 1e6),
        )
        waiters.append(waiter)
    return tuple(waiters)


def _pairs(listed: Sequence[bytes]) -> Iterator[tuple[bytes, float]]:
    """Yield members and scores."""
    return zip(listed[::2], map(float, listed[1::2]), strict=True)


def matches(name: str, pattern: str) -> bool:
    """Return True if a name fits a pattern of the shell."""
    from fnmatch import fnmatchcase  # noqa: PLC0415 - only for people's commands

    return fnmatchcase(name, pattern)


def _is_lock(name: str) -> bool:
    """Return False for what no lock can be called: another program wrote it."""
    try:
        LockKeys("", name)
    except ValueError:
        return False
    return bool(name)
