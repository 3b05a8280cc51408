"""The Lua scripts that decide everything on the server, one file per operation.

Each file opens with its KEYS, ARGV and replies. What several scripts need exists once:

- ``-- include: NAME`` is replaced by the fragment ``NAME.lua``. A fragment begins with ``_``; the
  rule for who is granted next is in ``_grant.lua``.
- ``-- constants: NAME NAME`` is replaced by local variables with the values of ``constants.py``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fencelock.scripts import constants

try:
    # hashlib loads OpenSSL, which takes longer than all we need; ``random`` does the same.
    from _sha1 import sha1  # type: ignore[import-not-found]  # not for everybody, says typeshed
except ImportError:  # a Python that was built without
    from hashlib import sha1

_HERE = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow to import, too
_INCLUDE = "-- include: "
_CONSTANTS = "-- constants: "


class Script:
    """One operation on the server: its name, its source and the digest that EVALSHA wants.

    It is read when it is first used: a command of the shell needs two of them.
    """

    __slots__ = ("digest", "name", "source")

    name: str
    source: bytes
    digest: bytes

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        """Read the file; called as long as ``source`` and ``digest`` are not set."""
        if name not in {"digest", "source"}:
            raise AttributeError(name)
        source = _text(self.name).encode()
        self.digest = sha1(source, usedforsecurity=False).hexdigest().encode()
        self.source = source
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


def bulk(arg: bytes) -> bytes:
    """Return one argument of a command in wire form."""
    return b"$%d\r\n%b\r\n" % (len(arg), arg)


def head(script: Script, keys: Sequence[bytes], args: int) -> bytes:
    """Return the beginning of a script's call in wire form; its ``args`` arguments must follow."""
    words = (b"EVALSHA", script.digest, b"%d" % len(keys), *keys)
    return b"*%d\r\n%b" % (len(words) + args, b"".join(map(bulk, words)))


def _text(name: str) -> str:
    """Return a file with all that it includes, which may include more."""
    return "\n".join(map(_expanded, _read(name).split("\n")))


def _expanded(line: str) -> str:
    if line.startswith(_INCLUDE):
        return _text(line.removeprefix(_INCLUDE))
    if line.startswith(_CONSTANTS):
        return "\n".join(map(_declared, line.removeprefix(_CONSTANTS).split()))
    return line


def _declared(name: str) -> str:
    """Return the declaration of a constant in Lua; a text is written as in Python."""
    return f"local {name} = {getattr(constants, name)!r}"


def _read(name: str) -> str:
    # importlib.resources would do the same, and be a tenth of the time that the import takes.
    with open(os.path.join(_HERE, f"{name}.lua"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - see above
        return file.read()


ABANDON = Script("abandon")
ACQUIRE = Script("acquire")
ALIVE = Script("alive")
BARRIER_ARRIVE = Script("barrier_arrive")
BARRIER_CHANGE = Script("barrier_change")
BARRIER_LOOK = Script("barrier_look")
BREAK = Script("break")
CONDITION_LEAVE = Script("condition_leave")
CONDITION_LOOK = Script("condition_look")
CONDITION_NOTIFY = Script("condition_notify")
CONDITION_WAIT = Script("condition_wait")
ELECTION_ANNOUNCE = Script("election_announce")
ELECTION_HAND_OVER = Script("election_hand_over")
ELECTION_WATCH = Script("election_watch")
EVENT = Script("event")
GATE_WAIT = Script("gate_wait")
GIVE_BACK = Script("give_back")
KEEP = Script("keep")
LATCH = Script("latch")
MULTI_RELEASE = Script("multi_release")
MULTI_TAKE = Script("multi_take")
ONCE_FINISH = Script("once_finish")
ONCE_FORGET = Script("once_forget")
ONCE_START = Script("once_start")
RAISE = Script("raise")
RELEASE = Script("release")
RENEW = Script("renew")
REVOKED = Script("revoked")
ROSTER = Script("roster")
SHARES_ABANDON = Script("shares_abandon")
SHARES_ACQUIRE = Script("shares_acquire")
SHARES_ALIVE = Script("shares_alive")
SHARES_BREAK = Script("shares_break")
SHARES_LIMIT = Script("shares_limit")
SHARES_RELEASE = Script("shares_release")
SHARES_RENEW = Script("shares_renew")
SHARES_SHOW = Script("shares_show")
SHOW = Script("show")
SIGNAL_SHOW = Script("signal_show")
VOTE = Script("vote")

LOCKS = (ABANDON, ACQUIRE, ALIVE, BREAK, GIVE_BACK, KEEP, RELEASE, RENEW, REVOKED, SHOW)
SHARES = (
    *(SHARES_ABANDON, SHARES_ACQUIRE, SHARES_ALIVE, SHARES_BREAK),
    *(SHARES_LIMIT, SHARES_RELEASE, SHARES_RENEW, SHARES_SHOW),
)
SIGNALS = (
    *(EVENT, LATCH, SIGNAL_SHOW, GATE_WAIT, BARRIER_ARRIVE, BARRIER_LOOK, BARRIER_CHANGE),
    *(CONDITION_LEAVE, CONDITION_LOOK, CONDITION_NOTIFY, CONDITION_WAIT),
)
ELECTIONS = (ELECTION_ANNOUNCE, ELECTION_HAND_OVER, ELECTION_WATCH)
QUORUMS = (RAISE, ROSTER, VOTE)
ALL = (
    *(LOCKS + SHARES + SIGNALS + ELECTIONS + QUORUMS),
    *(MULTI_RELEASE, MULTI_TAKE, ONCE_FINISH, ONCE_FORGET, ONCE_START),
)
