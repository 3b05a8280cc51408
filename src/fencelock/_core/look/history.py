"""Keep what went wrong with locks, on the server: long waits, losses, revocations, deadlocks.

A hook (see ``events.py``) collects entries and the names of locks in use, and sends them in the
background, at most once a second. It asks for no answer and delays no operation. What cannot be
sent in 30 s is dropped, and so is what exceeds the bounds: a history is for people.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import ref

from fencelock import options
from fencelock._core import events
from fencelock._core.description import Described, described
from fencelock._core.error_messages import describes_errors
from fencelock._core.events import LockEvent
from fencelock._core.keys import history_key, index_key
from fencelock._core.retry import command
from fencelock._core.types import Args, Reply
from fencelock.options import History, Seconds
from fencelock.scripts import ADD_HISTORY, NOTE_LOCKS
from fencelock.status import HistoryEntry, HolderStatus, LockStatus

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# How often one client sends at most, in seconds.
SEND_SECONDS: Final = 1.0
# How much one client remembers between two of these; more is dropped, the oldest first.
ENTRIES_MAX: Final = 1000
NAMES_MAX: Final = 1000
# How many names the server keeps, and for how long after the last one, in ms.
INDEX_NAMES: Final = 10_000
INDEX_MS: Final = 3_600_000
# The longest text of an entry: an error's message may contain anything.
TEXT_MAX: Final = 500

# So many of the newest entries are searched for those of one name.
LOOKED_THROUGH: Final = 10_000

WAIT: Final = "wait"
FAILED: Final = "failed"  # a run of `fencelock once`
_CONTENTION: Final = "contention"  # what older builds called it
# By the kind of an event, that of its entry; these are kept however long it took.
_KINDS: Final = {events.LOST: "lost", events.DEADLOCK: "deadlock"}
# These end a wait; it is kept if it was long.
_WAITED: Final = frozenset({events.GRANTED, events.TIMED_OUT, events.REFUSED, events.GAVE_UP})
# A lock with such an event is in use for longer than a moment.
_IN_USE: Final = frozenset({events.WAITING, events.RENEWED})

# An operator may keep no history: what it adds shortens that of others by little.
_KEPT_BESIDE: Final = 10 * History().length

_numbers = count(1)


class Recorder(events.OwnHook):
    """The hook of one client.

    ``later`` calls a function after so many seconds, for a port; it returns False if it cannot.
    ``through`` is the port that sends, if not the one that it happens to.
    """

    def __init__(
        self,
        prefix: str,
        options: History,
        later: Callable[[Engine, float, Callable[[], None]], bool],
        through: Engine | None = None,
    ) -> None:
        self._through = through
        self._prefix = prefix
        self._options = options
        self._later = later
        self._ports: list[ref[Engine]] = []
        self._entries: dict[bytes, deque[tuple[float, Described]]] = {}
        self._names: dict[bytes, dict[str, None]] = {}
        self._due: set[bytes] = set()  # clients' channels for which a sending is planned

    def __ways__(self) -> Mapping[str, events.Way]:
        """Return what it is called with: of the end of a wait, if that was long."""
        short = dict.fromkeys((*_KINDS, *_IN_USE), (self, None))
        return {**short, **dict.fromkeys(_WAITED, (self, self._is_long))}

    def _is_long(self, _: events.Subject, waited: float) -> bool:
        return waited >= self._options.threshold

    def add(self, port: Engine) -> None:
        """Record what happens over a port from now on."""
        port.recorder = self
        if not self._ports:
            events.install(self)
        self._ports = [*(each for each in self._ports if each() is not None), ref(port)]

    def drop(self, port: Engine) -> None:
        """Send what is left of a port that is about to be closed, and record it no more."""
        self.send(port)
        self._ports = [each for each in self._ports if each() not in {None, port}]
        if not self._ports:
            events.uninstall(self)

    def __call__(self, event: LockEvent) -> None:
        """Note an event, if it is one of this client's and worth it."""
        kind = _KINDS.get(event.kind)
        if event.kind in _WAITED and self._is_long(event.subject, event.waited):
            kind = WAIT
        if kind is None and event.kind not in _IN_USE:
            return
        channel = event.client
        ports = [port for each in self._ports if (port := each()) is not None]
        if not ports:  # the client was dropped without being closed
            events.uninstall(self)
        port = next((one for one in ports if one.client_channel == channel), None)
        if port is None:  # a fork changes the channel
            return
        with port.mutex:
            if kind is None:
                noted = self._names.setdefault(channel, {})
                if len(noted) < NAMES_MAX:
                    noted[event.name] = None
            else:
                kept = self._entries.setdefault(channel, deque(maxlen=ENTRIES_MAX))
                kept.append((event.at, entry_of(event, kind)))
            planned = channel in self._due
            self._due.add(channel)
        if planned:
            return
        try:
            planned = self._later(port, SEND_SECONDS, lambda: self.send(port))
        finally:  # else it would count as planned for ever
            if not planned:
                self.send(port)

    def send(self, port: Engine) -> None:
        """Send what was noted, in the background."""
        channel = port.client_channel
        sender = self._through or port
        with port.mutex:
            entries = self._entries.pop(channel, ())
            noted = self._names.pop(channel, ())
            self._due.discard(channel)
        if noted:
            names = [name.encode() for name in noted]
            words: Args = (INDEX_NAMES, INDEX_MS, *names)
            sender.run_in_background(NOTE_LOCKS, (index_key(self._prefix),), words)
        if entries:
            now = port.now()
            texts = [packed(each | {"ago": round(now - at, 3)}) for at, each in entries]
            words = (self._options.length, int(self._options.ttl * 1000), *texts)
            sender.run_in_background(ADD_HISTORY, (history_key(self._prefix),), words)


def note_revocation(port: Engine, prefix: str, lost: LockStatus, reason: str, by: str) -> None:
    """Keep that an operator revoked a lock, an entry for each holder, in the background."""
    about = {"kind": "revoked", "name": lost.name, "object": lost.kind}
    why = {"reason": _text(reason), "by": _text(by)}
    entries = [
        packed(_entry(port.client_channel, who._asdict() if who else {}, about | why | held))
        for who in lost.holders or (None,)
        for held in [{"seconds": round(who.held_for, 3)} if who else {}]
    ]
    kept = _KEPT_BESIDE, int(History().ttl * 1000)
    port.run_in_background(ADD_HISTORY, (history_key(prefix),), (*kept, *entries))


def note_end(
    port: Engine, prefix: str, name: str, *, info: bytes, seconds: float, **fields: str
) -> None:
    """Keep how the command of a lock ended, which did not succeed, in the background."""
    about = {key: _text(value) for key, value in fields.items()}
    entry = _entry(
        port.client_channel, described(info), {"name": name, "seconds": round(seconds, 3)} | about
    )
    kept = History().length, int(History().ttl * 1000)
    port.run_in_background(ADD_HISTORY, (history_key(prefix),), (*kept, packed(entry)))


def entry_of(event: LockEvent, kind: str) -> Described:
    """Return what is kept of an event."""
    held_by = [each.status for each in event.held_by] or [HolderStatus()]
    last, first = _holder(held_by[-1]), _holder(held_by[0])
    fields = {
        "kind": kind,
        "name": event.name,
        "object": event.object,
        "seconds": round(event.held if kind == "lost" else event.waited, 3),
        "outcome": event.kind if kind == WAIT else "",
        "reason": _text(event.reason),
        "detail": _text(event.detail or event.error),
        "behind": _person(event.behind) if event.behind else "",
        "held_by": last,
        "first_held_by": first if first.get("fence") != last.get("fence") else {},
    }
    return _entry(event.client, event.who, fields)


def _entry(client: bytes, who: Described, fields: Described) -> Described:
    """Return what is kept of something that happened to a client: all that is not empty."""
    number = f"{client.decode(errors='replace')}-{next(_numbers)}"
    person = {key: who.get(key, "") for key in ("host", "pid", "unit", "label")}
    whole = {"id": number, **fields, **person}
    return {key: value for key, value in whole.items() if value}


def _holder(who: HolderStatus) -> Described:
    """Return what is kept of the holder that a wait was for: all that is not empty."""
    return {key: value for key in _HOLDER if (value := getattr(who, key))}


def _text(value: object) -> str:
    return str(value)[:TEXT_MAX] if value else ""


def _person(entry: Described) -> str:
    label = entry.get("label")
    process = f"{entry.get('host', '')}:{entry.get('pid', 0)}"
    return f"{process} ({label})" if label else process


def packed(entry: Described) -> bytes:
    """Return an entry as the server keeps it."""
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


# -- reading ---------------------------------------------------------------------------------------


@describes_errors
async def read(
    port: Engine, prefix: str, name: str | None, within: Seconds | None, limit: int
) -> list[HistoryEntry]:
    """Return the newest entries, in the order of time, of the last so many seconds."""
    chosen = None if name is None else options.lock_name(name)
    since = None if within is None else options.positive("within", within)
    limit = options.count("limit", limit)
    each = await port.on_each("", lambda server: _entries(server, prefix, since, limit))
    found = {entry.id: entry for entries in each for entry in entries}
    wanted = [entry for entry in found.values() if chosen is None or entry.name == chosen]
    return sorted(wanted, key=lambda entry: entry.at)[-limit:]


async def _entries(
    port: Engine, prefix: str, since: float | None, limit: int
) -> Iterable[HistoryEntry]:
    key = history_key(prefix)
    oldest = b"-"
    if since is not None:
        seconds, _ = await command(port, (b"TIME",), key)
        oldest = b"%d" % max(0, (int(seconds) - since) * 1000)
    words = (b"XREVRANGE", key, b"+", oldest, b"COUNT", max(limit, LOOKED_THROUGH))
    return parsed(await command(port, words, key))


def parsed(reply: Sequence[Reply]) -> list[HistoryEntry]:
    """Return entries as the server keeps them; what another program wrote is left out."""
    found = [_parsed(number, fields) for number, fields in reply]
    return [entry for entry in found if entry is not None]


def _parsed(number: bytes, fields: Sequence[bytes]) -> HistoryEntry | None:
    try:
        read = json.loads(fields[1])
        at = int(number.partition(b"-")[0]) / 1000 - float(read.get("ago", 0))
        known = {key: kind(read.get(key, kind())) for key, kind in _FIELDS.items()}
        known |= {key: _held_by(read.get(key)) for key in ("held_by", "first_held_by")}
    except (ValueError, TypeError, AttributeError, IndexError):
        return None
    if known["kind"] == _CONTENTION:
        known["kind"] = WAIT
    return HistoryEntry(at=at, **known)


def _held_by(holder: Described | None) -> HolderStatus | None:
    if not holder:
        return None
    return HolderStatus(**{key: kind(holder.get(key, kind())) for key, kind in _HOLDER.items()})


_HOLDER: Final[Mapping[str, type]] = {
    **dict.fromkeys(("host", "unit", "label", "unit_id"), str),
    **dict.fromkeys(("pid", "others", "fence"), int),
    **dict.fromkeys(("since", "held_for"), float),
}
_FIELDS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("id", "kind", "name", "object", "host", "unit", "label"), str),
    **dict.fromkeys(("outcome", "reason", "detail", "behind", "by"), str),
    "pid": int,
    "seconds": float,
}
