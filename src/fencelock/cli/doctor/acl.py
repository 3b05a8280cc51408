"""The permissions that locks need: the smallest ACL rule, and which of them a user lacks.

Rules of this file:

- ``COMMANDS`` is exactly what locks and the objects made of them send or call in scripts; a test
  runs everything and compares. Every user may send HELLO and AUTH.
- The check runs one script only, which asks the server what this user may do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencelock._core.keys import channel_prefix
from fencelock.cli.doctor.health import TROUBLE
from fencelock.cli.doctor.report import Answer, fail, ok
from fencelock.cli.doctor.server import Server, literal
from fencelock.errors import ServerDenied, ServerError

_PLAIN: Final = ("eval", "evalsha", "time", "pubsub|numsub")
_ON_CHANNELS: Final = ("subscribe", "publish")
_ON_KEYS: Final = (
    *("type", "get", "set", "del", "exists", "pttl", "pexpire"),
    *("zadd", "zrem", "zpopmin", "zrange", "zrangebyscore", "zrank", "zscore", "zcard"),
    *("zremrangebyscore", "sadd", "srem", "scard", "smembers", "hget", "hset", "hdel"),
)
COMMANDS: Final = (*_PLAIN, *_ON_CHANNELS, *_ON_KEYS)
# Asks whether a quiet connection is alive: a refusal is an answer, too, but the server logs it.
QUIET: Final = ("ping",)
# Further commands to the nodes of a Cluster.
CLUSTER_COMMANDS: Final = (
    *("cluster|slots", "cluster|myid", "asking"),
    *("ssubscribe", "spublish", "pubsub|shardnumsub"),
)
# Further commands to the nodes of a quorum.
QUORUM_COMMANDS: Final = ("info", "hgetall")
# Further uses, and the permissions that they need.
MORE: Final = {
    "ls, election.candidates()": "+scan",
    "locks of compat.redisson": "+hexists +hkeys +hlen +incr +unsubscribe",
    "a database other than 0": "+select",
    "clients with replicas": "+wait +info",
    "a Cluster": " ".join(f"+{name}" for name in (*CLUSTER_COMMANDS, "sunsubscribe")),
    "a quorum": " ".join(f"+{name}" for name in QUORUM_COMMANDS),
    "clients with history": "+xadd +zremrangebyrank",
    "revocations in the history": "+xadd",
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
    commands = " ".join(f"+{name}" for name in (*COMMANDS, *QUIET, *more))
    keys, channels = _patterns(prefix)
    return f"ACL SETUSER locker reset on >PASSWORD {keys} resetchannels {channels} {commands}"


def _patterns(prefix: str) -> tuple[str, str]:
    """Return the patterns of an ACL rule for the keys and the channels with this prefix."""
    key, channel = (literal(each).replace(" ", "?") for each in (prefix, channel_prefix(prefix)))
    return f"~{key}*", f"&{channel}{'' if prefix else '@'}*"


def permissions(server: Server) -> Answer:
    """Ask whether this user may do all that locks need."""
    prefix = server.session.prefix
    user = server.optional(b"ACL", b"WHOAMI")
    who = "this user" if user is None else f"user {user.decode(errors='replace')}"
    # The script reads a command's keys and channels, and counts nothing.
    channel, key = f"{channel_prefix(prefix)}@doctor", f"{prefix}fencelock doctor"
    given = {_PLAIN: ("return 1", "0"), _ON_CHANNELS: (channel,), _ON_KEYS: (key,)}
    calls = [(*name.split("|"), *given[group]) for group in given for name in group]
    asked = [word.encode() for call in calls for word in (str(len(call)), *call)]
    change = f"grant the rule below; other prefixes than {prefix!r} need their own"
    try:
        places = server.command(b"EVAL", _ASK, b"0", *asked)
        # This script changes nothing, and the others need what it needs.
        server.session.client.status("fencelock doctor", waiters=1)
    except ServerDenied as error:
        return fail(f"{who}: {error}", change)
    except ServerError as error:
        return fail(str(error), TROUBLE.get(error.code, _USELESS), what="scripts")
    if places is None:
        return ok(f"{who}; before Redis 7 they cannot be tested one by one")
    if not places:
        return ok(f"{who} has all permissions that locks need")
    refused = [COMMANDS[place - 1] for place in places]
    missing: list[str] = []  # the pattern itself if every command on it is refused
    keys, channels = _patterns(prefix)
    for group, pattern in ((_PLAIN, ""), (_ON_CHANNELS, channels), (_ON_KEYS, keys)):
        lacking = [f"+{name}" for name in group if name in refused]
        missing += [pattern] if pattern and len(lacking) == len(group) else lacking
    return fail(f"{who} lacks {' '.join(missing)}", change)
