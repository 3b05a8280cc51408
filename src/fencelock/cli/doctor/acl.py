"""The permissions that locks need: the smallest ACL rule, and which of them a user lacks.

Rules of this file:

- ``COMMANDS`` is exactly what locks and the objects made of them send or call in scripts; a test
  runs everything and compares. Every user may send HELLO and AUTH.
- The check runs one script only, which asks the server what this user may do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fencelock._core.keys import channel_prefix
from fencelock.cli.doctor.health import TROUBLE
from fencelock.cli.doctor.report import FAIL, OK, Finding
from fencelock.errors import ServerDenied, ServerError

if TYPE_CHECKING:
    from fencelock.cli.doctor.probe import Probe
    from fencelock.cli.session import Session

# Commands on a key, and the arguments that follow it.
_ON_KEYS: Final[dict[str, tuple[bytes, ...]]] = {
    "type": (),
    "get": (),
    "set": (b"x",),
    "del": (),
    "exists": (),
    "pttl": (),
    "pexpire": (b"1",),
    "zadd": (b"1", b"x"),
    "zrem": (b"x",),
    "zpopmin": (),
    "zrange": (b"0", b"0"),
    "zrangebyscore": (b"0", b"0"),
    "zrank": (b"x",),
    "zscore": (b"x",),
    "zcard": (),
    "zremrangebyscore": (b"0", b"0"),
    "sadd": (b"x",),
    "srem": (b"x",),
    "scard": (),
    "smembers": (),
    "hget": (b"x",),
    "hset": (b"x", b"x"),
    "hdel": (b"x",),
}
_ON_CHANNELS: Final[dict[str, tuple[bytes, ...]]] = {"subscribe": (), "publish": (b"x",)}
_PLAIN: Final[dict[str, tuple[bytes, ...]]] = {
    "eval": (b"return 1", b"0"),
    "evalsha": (b"0" * 40, b"0"),
    "time": (),
    "pubsub|numsub": (),
}
COMMANDS: Final = (*_PLAIN, *_ON_CHANNELS, *_ON_KEYS)
# Further commands to the nodes of a Cluster.
CLUSTER_COMMANDS: Final = (
    *("cluster|slots", "asking", "ssubscribe", "spublish", "pubsub|shardnumsub"),
)
# Further commands to the nodes of a quorum.
QUORUM_COMMANDS: Final = ("info", "hgetall")
# Further uses, and the permissions that they need.
MORE: Final = {
    "ls, election.candidates()": "+scan",
    "a database other than 0": "+select",
    "clients with replicas": "+wait +info",
    "a Cluster": " ".join(f"+{name}" for name in (*CLUSTER_COMMANDS, "sunsubscribe")),
    "a quorum": " ".join(f"+{name}" for name in QUORUM_COMMANDS),
    "clients with history": "+xadd +zremrangebyrank",
    "client.history(), top and dashboard": "+xrevrange +zrevrangebyscore +scan",
    "all checks of doctor": "+info +config|get +acl|whoami +cluster|info +cluster|nodes",
}

# ARGV: for each command the number of its words, and these. Reply: the places of those that this
# user may not run, from 1; nil where the server cannot say (before Redis 7).
_ASK: Final = b"""
if not redis.acl_check_cmd then return false end
local refused, at, place = {}, 1, 1
while ARGV[at] do
  local size = tonumber(ARGV[at])
  if not redis.acl_check_cmd(unpack(ARGV, at + 1, at + size)) then
    refused[#refused + 1] = place
  end
  at, place = at + size + 1, place + 1
end
return refused
"""

_USELESS: Final = "locks are scripts: with this setting the server cannot serve them"


def acl_rule(prefix: str, more: Sequence[str] = ()) -> str:
    """Return the rule that gives a user the permissions that locks with this prefix need."""
    commands = " ".join(f"+{name}" for name in (*COMMANDS, *more))
    places = f"{key_pattern(prefix)} resetchannels {channel_pattern(prefix)}"
    return f"ACL SETUSER locker reset on >PASSWORD {places} {commands}"


def key_pattern(prefix: str) -> str:
    """Return the pattern of an ACL rule for the keys with this prefix."""
    return f"~{_quoted(prefix)}*"


def channel_pattern(prefix: str) -> str:
    """Return the pattern of an ACL rule for the channels with this prefix."""
    return f"&{_quoted(channel_prefix(prefix))}{'' if prefix else '@'}*"


def _quoted(prefix: str) -> str:
    quoted = "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)
    return quoted.replace(" ", "?")


def permissions(probe: Probe, session: Session) -> Iterator[Finding]:
    """Check that this user may do all that locks need."""
    user = probe.optional(b"ACL", b"WHOAMI")
    who = "this user" if user is None else f"user {user.decode(errors='replace')}"
    try:
        places = probe.command(b"EVAL", _ASK, b"0", *_question(session.prefix))
        # This script changes nothing, and the others need what it needs.
        session.client.status("fencelock doctor", waiters=1)
    except ServerDenied as error:
        yield Finding(FAIL, "permissions", f"{who}: {error}", _change(session.prefix))
        return
    except ServerError as error:
        yield Finding(FAIL, "scripts", str(error), TROUBLE.get(error.code, _USELESS))
        return
    if places is None:
        yield Finding(OK, "permissions", f"{who}; before Redis 7 they cannot be tested one by one")
    elif places:
        lacks = _lacks([COMMANDS[place - 1] for place in places], session.prefix)
        yield Finding(FAIL, "permissions", f"{who} lacks {lacks}", _change(session.prefix))
    else:
        yield Finding(OK, "permissions", f"{who} has all permissions that locks need")


def _change(prefix: str) -> str:
    return f"grant the rule below; other prefixes than {prefix!r} need their own"


def _question(prefix: str) -> list[bytes]:
    key = f"{prefix}fencelock doctor".encode()
    channel = f"{channel_prefix(prefix)}@doctor".encode()
    calls = [_call(name, words) for name, words in _PLAIN.items()]
    calls += [_call(name, (channel, *words)) for name, words in _ON_CHANNELS.items()]
    calls += [_call(name, (key, *words)) for name, words in _ON_KEYS.items()]
    return [word for call in calls for word in (b"%d" % len(call), *call)]


def _call(name: str, words: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return (*name.encode().split(b"|"), *words)


def _lacks(commands: list[str], prefix: str) -> str:
    """Return the missing permissions; the pattern itself if every command on it is refused."""
    missing: list[str] = []
    for group, pattern in (
        (_PLAIN, ""),
        (_ON_CHANNELS, channel_pattern(prefix)),
        (_ON_KEYS, key_pattern(prefix)),
    ):
        lacking = [f"+{name}" for name in group if name in commands]
        missing += [pattern] if pattern and len(lacking) == len(group) else lacking
    return " ".join(missing)
