"""Script calls in wire form, and what an error reply means; ``_io/resp.py`` packs and parses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fencelock._io.permissions import lacking, missing
from fencelock._io.resp import INCOMPLETE, Push, ReplyError, pack, reader
from fencelock.errors import (
    ServerDenied,
    ServerError,
    ServerReadOnly,
    ServerUnreachable,
    ServerUnsuitable,
)
from fencelock.scripts import ALL, Script

# Connections import the parser's names from here, along with the meaning of error replies.
__all__ = ["INCOMPLETE", "Push", "ReplyError", "pack", "reader"]

CONFIRMS: Final = (b"subscribe", b"ssubscribe")  # pushes that answer a request


def pack_call(script: Script, keys: Sequence[bytes], args: Sequence[bytes | int]) -> bytes:
    """Return a script call by its digest."""
    return pack((b"EVALSHA", script.digest, b"%d" % len(keys), *keys, *args))


def pack_source(script: Script, keys: Sequence[bytes], args: Sequence[bytes | int]) -> bytes:
    """Return a script call that carries the source: the answer to NOSCRIPT."""
    return pack((b"EVAL", script.source, len(keys), *keys, *args))


def with_source(packed: bytes) -> bytes:
    """Return a packed script call with the source in place of the digest."""
    parser = reader()
    parser.feed(packed)
    _, digest, *words = parser.gets()
    script = next(each for each in ALL if each.digest == digest)
    return pack((b"EVAL", script.source, *words))


def not_now(error: ReplyError) -> bool:
    """Return True if a request did not run, and may run later or elsewhere."""
    return str(error).startswith(_NOT_NOW)


def unknown_script(error: ReplyError) -> bool:
    """Return True if a server does not know a script by its digest (yet, or any more)."""
    return str(error).startswith("NOSCRIPT")


_NOT_NOW: Final = ("LOADING", "BUSY", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY")

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


def server_error(error: ReplyError) -> ServerError:
    """Return the documented error for an error reply; its ``code`` is the reply's code word."""
    text = str(error)
    code = _code(text)
    for kind, make in _KINDS:
        if code in kind:
            meaning = lacking(text) if code == "NOPERM" else kind[code]
            failure = make(f"{meaning} ({text})", code=code)
            break
    else:
        failure = _unknown(text, code)
    failure.__cause__ = error
    return failure


def _unknown(text: str, code: str) -> ServerError:
    meaning = missing(text)
    if not meaning:
        return ServerError(f"the server answered with an error: {text}", code=code)
    # The rest of such a reply quotes the command: a digest, or a whole script.
    return ServerUnsuitable(f"{meaning} ({text.partition(', with args')[0]})", code=code)


def _code(text: str) -> str:
    first = text.partition(" ")[0]
    if first.isupper() and first != "ERR":
        return first
    lowered = text.lower()
    for words, code in _TEXTS:
        if words in lowered:
            return code
    # Compiled here: most programs never see such an error, and all of them import this module.
    codes = "|".join(rf"\b{code}\b" for kind, _ in _KINDS for code in kind)
    found = re.search(codes, text)
    return found[0] if found else first
