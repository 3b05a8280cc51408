"""The Lua scripts that decide everything on the server, one file per operation.

``lock/`` also has what is made of locks: multi, once and elections. ``shares/`` is for semaphores
and reader/writer locks, ``signals/`` for events, latches and barriers, ``quorum/`` for requests
that only nodes of a quorum get, ``redisson/`` for locks in another library's layout, ``history/``
for what is kept for people. Fragments that several folders share lie above them.

Each file opens with its KEYS, ARGV and replies. What several scripts need exists once:

- ``-- include: NAME`` is replaced by the fragment ``NAME.lua``. A fragment begins with ``_``; the
  rule for the next grant is in ``_grant.lua``.
- ``-- constants: NAME NAME`` names those of ``constants.py`` that a script uses. The server gets
  their values instead of their names: a local variable of a function costs time at each call.
- ``'<record: holder>'`` is replaced by the pattern that captures these words; see ``layout.py``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from fencelock._runtime.typed import Any
from fencelock.scripts import constants
from fencelock.scripts.layout import pattern

try:
    # hashlib loads OpenSSL, which takes longer than all we need; ``random`` does the same.
    from _sha1 import sha1  # type: ignore[import-not-found]  # typeshed lists no private modules
except ImportError:  # a Python that was built without
    from hashlib import sha1

_HERE = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow to import, too
# Reads also what is inside a zip; importlib.resources would take ten times as long to import.
_LOADER: Any = __spec__.loader
_INCLUDE = "-- include: "
_CONSTANTS = "-- constants: "
_texts: dict[str, str] = {}  # of the files that were read


class Script:
    """One operation on the server: its name, its source and the digest that EVALSHA wants.

    It is read when it is first used: a command of the shell needs few of them. What keeps, ends or
    undoes what it grants is read before: later perhaps no file can be opened (I16).
    """

    __slots__ = ("digest", "name", "path", "source")

    name: str
    path: str
    source: bytes
    digest: bytes

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = path.rpartition("/")[2]  # no two folders have a file of one name

    def __getattr__(self, name: str) -> Any:
        """Read the file; called as long as ``source`` and ``digest`` are not set."""
        if name not in {"digest", "source"}:
            raise AttributeError(name)
        for path in _NEEDED.get(self.path, ()):
            _lines(path)
        source = _source(self.path).encode()
        self.digest = sha1(source, usedforsecurity=False).hexdigest().encode()
        self.source = source
        BY_DIGEST[self.digest] = self
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


def bulk(arg: bytes) -> bytes:
    """Return one argument of a command in wire form."""
    return b"$%d\r\n%b\r\n" % (len(arg), arg)


def head(script: Script, keys: Sequence[bytes], args: int) -> bytes:
    """Return the beginning of a script's call in wire form; its ``args`` arguments must follow."""
    return begin(script, len(keys), args) + b"".join(map(bulk, keys))


def begin(script: Script, keys: int, args: int) -> bytes:
    """Return the same without the keys: so many, and then the arguments, must follow."""
    words = (b"EVALSHA", script.digest, b"%d" % keys)
    return b"*%d\r\n%b" % (len(words) + keys + args, b"".join(map(bulk, words)))


def packed(script: Script, keys: Sequence[bytes], args: Sequence[bytes | int]) -> bytes:
    """Return a script's whole call in wire form."""
    words = [each if isinstance(each, bytes) else b"%d" % each for each in args]
    return head(script, keys, len(words)) + b"".join(map(bulk, words))


def ready(*needed: Script) -> None:
    """Read scripts before they are needed."""
    for each in needed:
        _lines(each.path)


def with_source(packed: bytes) -> bytes:
    """Return a packed script call with the source in place of the digest; a command as it is."""
    count, _, word, _, *digest_and_rest = packed.split(b"\r\n", 5)
    if word != b"EVALSHA":
        return packed
    digest, rest = digest_and_rest
    return b"%b\r\n%b%b%b" % (count, bulk(b"EVAL"), bulk(BY_DIGEST[digest].source), rest)


def _source(name: str) -> str:
    """Return a script as the server gets it: with fragments, constants and patterns filled in."""
    lines = _lines(name)
    text = "\n".join(line for line in lines if not line.startswith(_CONSTANTS))
    for line in lines:
        if line.startswith(_CONSTANTS):
            for constant in line.removeprefix(_CONSTANTS).split():
                # Lua writes a text as Python does.
                text = _with_value(text, constant, repr(getattr(constants, constant)))
    before, *named = text.split("'<")
    parts = (each.partition(">") for each in named)
    return before + "".join(f"'{pattern(words)}{after}" for words, _, after in parts)


def _with_value(text: str, name: str, value: str) -> str:
    """Return a text with a value in place of a name, but for those that only contain it."""
    text, *others = text.split(name)
    for other in others:
        inside = any(end.isalnum() or end == "_" for end in (text[-1:], other[:1]))
        text += (name if inside else value) + other
    return text


def _lines(name: str) -> list[str]:
    """Return the lines of a file and of all that it includes, which may include more."""
    lines: list[str] = []
    for line in _read(name).split("\n"):
        if line.startswith(_INCLUDE):
            lines += _lines(line.removeprefix(_INCLUDE))
        else:
            lines.append(line)
    return lines


def _read(name: str) -> str:
    text = _texts.get(name)
    if text is None:
        data: bytes = _LOADER.get_data(os.path.join(_HERE, f"{name}.lua"))  # noqa: PTH118 - see above
        text = _texts[name] = data.decode()
    return text


ABANDON = Script("lock/abandon")
ADD_HISTORY = Script("history/add_history")
ACQUIRE = Script("lock/acquire")
ACQUIRE_NEXT = Script("lock/acquire_next")
ANSWER = Script("lock/answer")
ASK = Script("lock/ask")
HEARTBEAT = Script("lock/heartbeat")
BARRIER_ARRIVE = Script("signals/barrier_arrive")
BARRIER_CHANGE = Script("signals/barrier_change")
BARRIER_CHECK = Script("signals/barrier_check")
BREAK = Script("lock/break")
ELECTION_ANNOUNCE = Script("lock/election_announce")
ELECTION_HAND_OVER = Script("lock/election_hand_over")
ELECTION_WATCH = Script("lock/election_watch")
EVENT = Script("signals/event")
EVENT_WAIT = Script("signals/event_wait")
ORDERS = Script("lock/orders")
POLL_RELEASE = Script("lock/poll_release")
POLL_RENEW = Script("lock/poll_renew")
PROBE = Script("lock/probe")
LATCH = Script("signals/latch")
LEAVE = Script("lock/leave")
MULTI_RELEASE = Script("lock/multi_release")
MULTI_ACQUIRE = Script("lock/multi_acquire")
NOTE_LOCKS = Script("history/note_locks")
ONCE_FINISH = Script("lock/once_finish")
ONCE_FORGET = Script("lock/once_forget")
ONCE_START = Script("lock/once_start")
RAISE_FENCE = Script("quorum/raise_fence")
REDISSON_ACQUIRE = Script("redisson/redisson_acquire")
REDISSON_COUNT = Script("redisson/redisson_count")
REDISSON_LOOK = Script("redisson/redisson_look")
REDISSON_RENEW = Script("redisson/redisson_renew")
RELEASE = Script("lock/release")
RENEW = Script("lock/renew")
REVOKED = Script("lock/revoked")
MEMBERSHIP = Script("quorum/membership")
SHARES_ABANDON = Script("shares/shares_abandon")
SHARES_ACQUIRE = Script("shares/shares_acquire")
SHARES_HEARTBEAT = Script("shares/shares_heartbeat")
SHARES_BREAK = Script("shares/shares_break")
SHARES_LIMIT = Script("shares/shares_limit")
SHARES_PROBE = Script("shares/shares_probe")
SHARES_LEAVE = Script("shares/shares_leave")
SHARES_RELEASE = Script("shares/shares_release")
SHARES_RENEW = Script("shares/shares_renew")
SHARES_SHOW = Script("shares/shares_show")
SHOW = Script("lock/show")
SIGNAL_SHOW = Script("signals/signal_show")
QUORUM_VOTE = Script("quorum/quorum_vote")

BY_DIGEST: dict[bytes, Script] = {}  # those that were used

# What keeps, ends or undoes what a script grants, or what it puts in line.
_EACH = ("abandon", "answer", "release", "renew", "revoked")
_FOR_ALL = tuple(f"lock/{each}" for each in _EACH)
_FOR_LOCKS = (*_FOR_ALL, "lock/acquire_next", "lock/heartbeat", "lock/probe")
_OF_SHARES = ("abandon", "heartbeat", "probe", "release", "renew")
_NEEDED = {
    "lock/acquire": _FOR_LOCKS,
    "lock/multi_acquire": (*_FOR_LOCKS, "lock/multi_release"),
    "lock/once_start": (*_FOR_LOCKS, "lock/once_finish"),
    "lock/poll_renew": ("lock/poll_release",),
    "quorum/quorum_vote": (*_FOR_ALL, "quorum/membership", "quorum/raise_fence"),
    "redisson/redisson_acquire": ("redisson/redisson_count", "redisson/redisson_renew"),
    "shares/shares_acquire": (*_FOR_ALL, *[f"shares/shares_{each}" for each in _OF_SHARES]),
    "signals/barrier_arrive": ("signals/barrier_change", "signals/barrier_check"),
}

ALL = tuple(each for each in list(globals().values()) if isinstance(each, Script))
