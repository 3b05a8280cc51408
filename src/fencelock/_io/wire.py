"""The wire format, RESP2 and RESP3: commands packed, replies parsed, and what an error reply means.

Light to import: it needs hiredis, and of this package errors and types only. Where hiredis is not
installed, or would turn the GIL on, ``resp.py`` does what it does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from fencelock._core.types import DEMOTED
from fencelock._runtime.typed import Any, Final
from fencelock.errors import (
    ServerDenied,
    ServerError,
    ServerReadOnly,
    ServerUnreachable,
    ServerUnsuitable,
)


def _chosen() -> tuple[Any, str]:
    """Return hiredis and nothing, or what takes its place and why."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        why = "hiredis would turn the GIL on"
    else:
        try:
            import hiredis  # noqa: PLC0415 - where the GIL is off, its import turns it on
        except ImportError:
            why = "hiredis is not installed"
        else:
            return hiredis, ""
    from fencelock._io import resp  # noqa: PLC0415 - seldom needed

    return resp, why


_parser, IN_PYTHON = _chosen()  # IN_PYTHON says why it is not hiredis; empty if it is
INCOMPLETE: Final = object()
Push: Final[type[list[Any]]] = _parser.PushNotification
CONFIRMS: Final = (b"subscribe", b"ssubscribe")  # pushes that answer a request
_pack: Final[Callable[[tuple[bytes, ...]], bytes]] = _parser.pack_command
# What the parser returns of these types is an answer, and no refusal.
ANSWERS: Final = frozenset({bytes, int, list, type(None)})


class ReplyError(Exception):
    """An error reply, as the parser returns it."""


def reader() -> Any:
    """Return a parser that yields bytes, ``Push``, ``ReplyError`` or ``INCOMPLETE``.

    Bytes that are no RESP raise ConnectionError.
    """
    return _parser.Reader(
        replyError=ReplyError, protocolError=ConnectionError, notEnoughData=INCOMPLETE
    )


def pack(args: Sequence[bytes | int]) -> bytes:
    """Return a command in wire form.

    The parser gets bytes only: to turn a number into text hiredis may run a signal handler, and
    does not survive an exception of that.
    """
    return _pack(tuple([b"%d" % each if isinstance(each, int) else each for each in args]))


def not_now(error: ReplyError) -> bool:
    """Return True if a request did not run, and may run later or elsewhere."""
    return _code(str(error)) in _NOT_NOW


def unknown_script(error: ReplyError) -> bool:
    """Return True if a server does not know a script by its digest (yet, or any more)."""
    return str(error).startswith("NOSCRIPT")


_NOT_NOW: Final = DEMOTED | {"LOADING", "BUSY", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"}

# What an error code means for a lock, and what can be done about it.
_DENIED: Final = {
    "NOAUTH": "the server requires a password: put it into the URL or the client",
    "WRONGPASS": "the user name or password is wrong",
    "NOPERM": "the user lacks a permission",
}
_READ_ONLY: Final = {
    "READONLY": "this is a replica: point fencelock at the master",
    "UNBLOCKED": "the master was demoted while waiting for replica acknowledgements",
    "NOREPLICAS": "the master refuses writes: too few replicas follow it (min-replicas-to-write)",
    "MISCONF": "the server refuses writes: it cannot save to its disk",
}
_UNSUITABLE: Final = {
    "WRONGTYPE": "the name is in use for something else: choose another name or key_prefix",
    "OTHERLAYOUT": "another version of fencelock uses the name, with keys that this one cannot"
    " read: run one version, or choose another name or key_prefix",
    "OTHERLIMIT": "the semaphore is in use with another limit",
    "OVERLIMIT": "more permits than the limit in force were requested",
    "OOM": "the server is out of memory (maxmemory)",
    "NOPROTO": "the server is too old: Redis 6.2 or Valkey 7.2 is needed",
    "MOVED": "this is one node of a Cluster: use a redis+cluster:// URL or a RedisCluster client",
    "ASK": "this is one node of a Cluster: use a redis+cluster:// URL or a RedisCluster client",
    "CROSSSLOT": "the keys of one lock do not share a slot behind this proxy",
    "UNKILLABLE": "a script blocks the server and cannot be stopped",
}
_PASSING: Final = {
    "BUSY": "the server is busy with a script",
    "LOADING": "the server is still loading its data",
    "MASTERDOWN": "the replica has lost its master",
    "CLUSTERDOWN": "the Cluster is down",
    "TRYAGAIN": "a slot is being moved",
    "MAXCLIENTS": "the server accepts no more connections (maxclients)",
}
_KINDS: Final[tuple[tuple[dict[str, str], type[ServerError]], ...]] = (
    (_DENIED, ServerDenied),
    (_READ_ONLY, ServerReadOnly),
    (_UNSUITABLE, ServerUnsuitable),
    (_PASSING, ServerUnreachable),
)
# Inside a script some errors lose their code (6.2 to 7.2): only the text tells.
_TEXTS: Final = (
    ("max number of clients", "MAXCLIENTS"),
    ("can't run this command", "NOPERM"),
    ("can't access at least one", "NOPERM"),
    ("no permissions", "NOPERM"),
    ("used memory > 'maxmemory'", "OOM"),
    ("against a key holding the wrong kind", "WRONGTYPE"),
    ("can't write against a read only replica", "READONLY"),
    ("wait cannot be used with replica", "READONLY"),
    ("invalid password", "WRONGPASS"),
    ("unknown command `hello`", "NOPROTO"),
    ("unknown command 'hello'", "NOPROTO"),
)
# The permission that a refusal is about, as an ACL rule writes it: servers from 6.2 to 9 say these
# words, in plain replies and from inside a script.
_PLACES: Final = (
    ("channel", "&PREFIX* (PREFIX is the client's key_prefix)"),
    ("key", "~PREFIX* (PREFIX is the client's key_prefix)"),
)
_SCRIPT: Final = "each decision is a script; `wait=Poll()` also needs it, to renew and release"
_LISTEN: Final = "a waiter listens for its turn; with `wait=Poll()` it does not"
_NEEDS: Final = {"eval": _SCRIPT, "evalsha": _SCRIPT, "subscribe": _LISTEN, "ssubscribe": _LISTEN}
_DOCTOR: Final = "`fencelock doctor` shows what is missing, and prints the ACL rule"


def server_error(error: ReplyError) -> ServerError:
    """Return the documented error for an error reply; its ``code`` is the reply's code word."""
    text = str(error)
    code = _code(text)
    for kind, make in _KINDS:
        if code in kind:
            meaning = _lacking(text) if code == "NOPERM" else kind[code]
            failure = make(f"{meaning} ({text})", code=code)
            break
    else:
        failure = _unknown(text, code)
    failure.__cause__ = error
    return failure


def accepted(replies: Sequence[Any]) -> Sequence[Any]:
    """Return replies; raise the documented error for the first that is a refusal."""
    for reply in replies:
        if type(reply) is ReplyError:
            raise server_error(reply)
    return replies


def _unknown(text: str, code: str) -> ServerError:
    """Return the error for a reply without a code that is known here."""
    absent = _quoted(text, "unknown command")
    need = _NEEDS.get(absent.lower())
    if not need:
        return ServerError(f"the server answered with an error: {text}", code=code)
    # The rest of such a reply quotes the command: a digest, or a whole script.
    said = text.partition(", with args")[0]
    return ServerUnsuitable(f"the server has no {absent.upper()}: {need} ({said})", code=code)


def _lacking(text: str) -> str:
    """Return the permission that is missing after this NOPERM, and where to find the whole rule."""
    named = _quoted(text, "run the")
    if named:
        need = _NEEDS.get(named)
        return f"the user lacks +{named}: {need + '; ' if need else ''}{_DOCTOR}"
    if "access" in text:
        for word, pattern in _PLACES:
            if word in text:
                return f"the user lacks {pattern}: {_DOCTOR}"
    return f"the user lacks a permission, for a command inside a script: {_DOCTOR}"


def _code(text: str) -> str:
    first = text.partition(" ")[0]
    if first.isupper() and first != "ERR":
        return first
    lowered = text.lower()
    for words, code in _TEXTS:
        if words in lowered:
            return code
    codes = {code for kind, _ in _KINDS for code in kind}
    parts = "".join(letter if letter.isalnum() else " " for letter in text).split()
    return next((part for part in parts if part in codes), first)


def _quoted(text: str, before: str) -> str:
    """Return the quoted word that follows these, or nothing; some servers begin it with a `."""
    return text.replace("`", "'").partition(f"{before} '")[2].partition("'")[0]
