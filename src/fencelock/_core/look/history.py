"""Keep what went wrong with locks, on the server: long waits, losses, revocations, deadlocks.

A hook (see ``events.py``) collects entries and the names of locks in use, and sends them in the
background, at most once a second. It asks for no answer and delays no operation. What cannot be
sent in 30 s is dropped, and so is what exceeds the bounds: a history is for people.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import ref

from fencelock._core import events
from fencelock._core.description import Described, described
from fencelock._core.events import LockEvent
from fencelock._core.keys import history_key, index_key
from fencelock._core.types import Args, Call, Reply
from fencelock.options import History
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
    """The hook of one port, which records what happens over it.

    ``later`` calls a function after so many seconds, for a port; it returns False if it cannot.
    ``post`` sends, if not the port in the background.
    """

    def __init__(
        self,
        port: Engine,
        prefix: str,
        options: History,
        later: Callable[[Engine, float, Callable[[], None]], bool],
        post: Callable[[Call], None] | None = None,
    ) -> None:
        self._at = ref(port)
        self._prefix = prefix
        self._options = options
        self._later = later
        self._post = post
        self._begin(port.client_channel)
        events.install(self)

    def _begin(self, channel: bytes) -> None:
        """Begin with nothing: at first, and in a child process, whose channel is another."""
        self._channel = channel
        self._entries: deque[tuple[float, Described]] = deque(maxlen=ENTRIES_MAX)
        self._names: dict[str, None] = {}
        self._planned = False  # it will be sent

    def __ways__(self) -> Mapping[str, events.Way]:
        """Return what it is called with: of the end of a wait, if that was long."""
        short = dict.fromkeys((*_KINDS, *_IN_USE), (self, None))
        return {**short, **dict.fromkeys(_WAITED, (self, self._is_long))}

    def _is_long(self, _: events.Subject, waited: float) -> bool:
        return waited >= self._options.threshold

    def drop(self) -> None:
        """Send what is left, as the port is about to be closed, and record no more."""
        self.send()
        events.uninstall(self)

    def __call__(self, event: LockEvent) -> None:
        """Note an event, if it is one of this client's and worth it."""
        kind = _KINDS.get(event.kind)
        if event.kind in _WAITED and self._is_long(event.subject, event.waited):
            kind = WAIT
        if kind is None and event.kind not in _IN_USE:
            return
        port = self._at()
        if port is None:  # the client was dropped without being closed
            events.uninstall(self)
            return
        if port.client_channel != event.client:
            return
        with port.mutex:
            if event.client != self._channel:
                self._begin(event.client)
            if kind is not None:
                self._entries.append((event.at, entry_of(event, kind)))
            elif len(self._names) < NAMES_MAX:
                self._names[event.name] = None
            planned, self._planned = self._planned, True
        if planned:
            return
        try:
            planned = self._later(port, SEND_SECONDS, partial(self._send_from, port))
        finally:  # else it would count as planned for ever
            if not planned:
                self.send()

    def send(self) -> None:
        """Send what was noted, in the background."""
        port = self._at()
        if port is not None:
            self._send_from(port)

    def _send_from(self, port: Engine) -> None:
        calls: list[Call] = []
        with port.mutex:
            entries, noted, ours = self._entries, self._names, self._channel
            self._begin(port.client_channel)
        if ours != self._channel:  # this is a child, and what was noted its parent's
            return
        if noted:
            names = [name.encode() for name in noted]
            words: Args = (INDEX_NAMES, INDEX_MS, *names)
            calls.append((NOTE_LOCKS, (index_key(self._prefix),), words))
        if entries:
            now = port.now()
            texts = [packed(each | {"ago": round(now - at, 3)}) for at, each in entries]
            words = (self._options.length, int(self._options.ttl * 1000), *texts)
            calls.append((ADD_HISTORY, (history_key(self._prefix),), words))
        for call in calls:
            if self._post is None:
                port.run_in_background(*call)
            else:
                self._post(call)


# Makes the recorder of a port.
Record = Callable[["Engine"], Recorder]


def revocation(client: bytes, prefix: str, lost: LockStatus, reason: str, by: str) -> Call:
    """Return the request that keeps that an operator revoked a lock, an entry for each holder."""
    about = {"kind": "revoked", "name": lost.name, "object": lost.kind}
    why = {"reason": _text(reason), "by": _text(by)}
    entries = [
        packed(_entry(client, who._asdict() if who else {}, about | why | held))
        for who in lost.holders or (None,)
        for held in [{"seconds": round(who.held_for, 3)} if who else {}]
    ]
    kept = _KEPT_BESIDE, int(History().ttl * 1000)
    return ADD_HISTORY, (history_key(prefix),), (*kept, *entries)


def end_of_run(
    client: bytes, prefix: str, name: str, *, info: bytes, seconds: float, **fields: str
) -> Call:
    """Return the request that keeps how the command of a lock ended, which did not succeed."""
    about = {key: _text(value) for key, value in fields.items()}
    entry = _entry(client, described(info), {"name": name, "seconds": round(seconds, 3)} | about)
    kept = History().length, int(History().ttl * 1000)
    return ADD_HISTORY, (history_key(prefix),), (*kept, packed(entry))


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


def _text(value: str | BaseException | None) -> str:
    return str(value)[:TEXT_MAX] if value else ""


def _person(entry: Described) -> str:
    label = entry.get("label")
    process = f"{entry.get('host', '')}:{entry.get('pid', 0)}"
    return f"{process} ({label})" if label else process


def packed(entry: Described) -> bytes:
    """Return an entry as the server keeps it."""
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


# -- reading ---------------------------------------------------------------------------------------


def newest(found: Iterable[HistoryEntry], name: str | None, limit: int) -> list[HistoryEntry]:
    """Return the newest entries of a name, or of all, in the order of time; each once."""
    known = {entry.id: entry for entry in found if name is None or entry.name == name}
    return sorted(known.values(), key=lambda entry: entry.at)[-limit:]


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
