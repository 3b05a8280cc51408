"""The checks of ``fencelock doctor``.

A server may forbid to be asked (CONFIG, INFO, ACL): then the check says so, and nothing fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from fencelock._core.ask import Asked, parts, persist
from fencelock._core.inspect import home_prefix, show
from fencelock._ports.blocking import run_blocking
from fencelock.cli.output import human
from fencelock.cli.session import Session
from fencelock.errors import FencelockError, ServerError, ServerUnreachable
from fencelock.scripts import ALL

OK: Final = "OK"
WARN: Final = "WARN"
FAIL: Final = "FAIL"

_ROUNDS: Final = 5
_SLOW_SECONDS: Final = 0.05
_CLOCK_SECONDS: Final = 1.0
_PROBE: Final = "fencelock doctor"
# What the scripts call, what they are called with, and what finds and hears of locks.
COMMANDS: Final = (
    *("hello", "auth", "ping", "select", "eval", "evalsha", "time", "type", "set", "get", "del"),
    *("exists", "pexpire", "pttl", "zadd", "zcard", "zpopmin", "zrange", "zrank", "zrem", "zscore"),
    *("zremrangebyscore", "sadd", "scard", "smembers", "srem", "scan", "publish", "subscribe"),
    *("zrangebyscore", "hget", "hset", "hdel", "pubsub|numsub"),
)


class Finding(NamedTuple):
    """One line of the report: how it is, and what to change."""

    level: str
    what: str
    found: str
    change: str = ""


# What a Cluster's nodes are asked beside.
CLUSTER_COMMANDS: Final = (
    *("cluster|slots", "asking", "ssubscribe", "spublish", "pubsub|shardnumsub"),
)


def acl_rule(prefix: str, *, cluster: bool = False) -> str:
    """Return the rule that gives a user what locks with this prefix need, and no more."""
    keys, channels = _pattern(prefix), _pattern(home_prefix(prefix))
    needed = COMMANDS + CLUSTER_COMMANDS if cluster else COMMANDS
    commands = " ".join(f"+{name}" for name in needed)
    return f"ACL SETUSER locker on >PASSWORD resetkeys ~{keys} resetchannels &{channels} {commands}"


def _pattern(prefix: str) -> str:
    quoted = "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)
    return f"{quoted}*" if " " not in quoted else f"{quoted.replace(' ', '?')}*"


# -- the embedded server ---------------------------------------------------------------------------


def embedded() -> Iterator[Finding]:
    """Check the server that would start by itself, and whether it may."""
    from fencelock import embedded as room
    from fencelock.embedded.permit import permit

    try:
        permit()
        status = room.status()
        if status.running and not status.answering:
            change = f"see {status.log}; `fencelock server stop` ends it"
            yield Finding(FAIL, "embedded", f"lives but does not answer (pid {status.pid})", change)
        elif status.running:
            yield Finding(OK, "embedded", f"running in {status.directory} (pid {status.pid})")
        else:
            binary = room.find_binary()
            yield Finding(OK, "embedded", f"not running; the first lock starts {binary}")
    except (FencelockError, ValueError) as error:
        yield Finding(FAIL, "embedded", str(error))


def embedded_answers() -> bool:
    """Tell whether there is an embedded server to look at; starts none."""
    from fencelock import embedded as room

    try:
        return room.status().answering
    except (FencelockError, ValueError):
        return False


# -- any server ------------------------------------------------------------------------------------


def server(session: Session) -> Iterator[Finding]:
    """Check the server; raises what a lock would raise when it cannot be reached."""
    ask = Questions(session)
    yield _reach(ask)
    info = ask.info()
    for check in (_kind, _role, _eviction, _persistence):
        yield check(ask, info)
    yield _clock(ask)
    yield _permissions(ask, session)
    yield _scripts(session)


class Questions:
    """Plain commands to the server; None where it refuses to answer."""

    def __init__(self, session: Session) -> None:
        self._port = session.port

    @property
    def masters(self) -> int:
        """Return how many masters a Cluster has; 0 for one server."""
        return 0 if self._port.apart is None else len(run_blocking(parts(self._port)))

    def must(self, *words: bytes) -> Any:
        """Return the answer, or raise."""
        until = self._port.now() + self._port.patience
        return run_blocking(
            persist(self._port, lambda: self._port.command(words, b"", until), until, Asked())
        )

    def may(self, *words: bytes) -> Any:
        """Return the answer; None when it is an error."""
        try:
            return self.must(*words)
        except ServerUnreachable:
            raise
        except ServerError:
            return None

    def info(self) -> dict[str, str]:
        """Return INFO's facts; empty when the user may not ask."""
        text = self.may(b"INFO") or b""
        lines = text.decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def setting(self, name: str) -> str:
        """Return a setting; empty when the user may not ask."""
        found = self.may(b"CONFIG", b"GET", name.encode()) or {}
        values = found.values() if isinstance(found, dict) else found[1:]
        return next((value.decode(errors="replace") for value in values), "")


def _reach(ask: Questions) -> Finding:
    fastest = min(_timed(lambda: ask.must(b"PING")) for _ in range(_ROUNDS))
    found = f"answers in {fastest * 1000:.2f} ms"
    if fastest > _SLOW_SECONDS:
        return Finding(WARN, "reachable", found, "choose a ttl of a hundred round trips or more")
    return Finding(OK, "reachable", found)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _kind(_ask: Questions, info: dict[str, str]) -> Finding:
    if "valkey_version" in info:
        return Finding(OK, "server", f"Valkey {info['valkey_version']}")
    if "redis_version" in info:
        return Finding(OK, "server", f"Redis {info['redis_version']}")
    return Finding(WARN, "server", "version unknown", "let this user ask: +info")


def _role(ask: Questions, info: dict[str, str]) -> Finding:
    if ask.masters:
        found = f"a Cluster of {ask.masters} master(s), whose replicas follow asynchronously"
        change = "a failover may lose the last grants: have resources check the fencing token"
        return Finding(WARN, "role", found, change)
    if info.get("cluster_enabled") == "1":
        change = "name it as a Cluster: redis+cluster://host:port,host:port"
        return Finding(WARN, "role", "a node of a Cluster", change)
    if info.get("role") == "slave":
        master = f"{info.get('master_host')}:{info.get('master_port')}"
        return Finding(FAIL, "role", f"a replica of {master}", f"point fencelock at {master}")
    replicas = int(info.get("connected_slaves", "0"))
    if replicas:
        found = f"a master with {replicas} replica(s), which follow asynchronously"
        change = "a failover may lose the last grants: have resources check the fencing token"
        return Finding(WARN, "role", found, change)
    return Finding(OK, "role", "a single master" if info else "unknown")


def _eviction(ask: Questions, info: dict[str, str]) -> Finding:
    policy = info.get("maxmemory_policy") or ask.setting("maxmemory-policy")
    limit = info.get("maxmemory", "0")
    if not policy:
        return Finding(WARN, "eviction", "unknown", "let this user ask: +info")
    if policy == "noeviction":
        return Finding(OK, "eviction", "noeviction: no lock is dropped for memory")
    change = "CONFIG SET maxmemory-policy noeviction, or a server of its own for locks"
    found = f"{policy}: a lock can be evicted, and then has two holders"
    if limit == "0":
        return Finding(WARN, "eviction", f"{found}, once maxmemory is set", change)
    return Finding(FAIL, "eviction", found, change)


def _persistence(ask: Questions, info: dict[str, str]) -> Finding:
    if not info:
        return Finding(WARN, "persistence", "unknown", "let this user ask: +info")
    if info.get("aof_enabled") == "1":
        sync = ask.setting("appendfsync") or "unknown"
        lost = {"everysec": "the last second", "no": "the last half minute"}.get(sync)
        risk = f"; a crash of the machine may lose {lost}" if lost else ""
        return Finding(OK, "persistence", f"append-only file, appendfsync {sync}{risk}")
    return Finding(
        WARN,
        "persistence",
        "no append-only file: a restart forgets who holds what, and holders may then be two",
        "CONFIG SET appendonly yes, or have resources check the fencing token",
    )


def _clock(ask: Questions) -> Finding:
    began = time.time()
    seconds, micros = ask.must(b"TIME")
    ended = time.time()
    distance = int(seconds) + int(micros) / 1e6 - (began + ended) / 2
    way = "ahead of" if distance > 0 else "behind"
    found = f"the server is {human(abs(distance))} {way} this host"
    if abs(distance) < _CLOCK_SECONDS:
        return Finding(OK, "clock", found)
    change = "no lock depends on it, but logs do: run NTP on both"
    return Finding(WARN, "clock", found, change)


def _permissions(ask: Questions, session: Session) -> Finding:
    name = ask.may(b"ACL", b"WHOAMI")
    if name is None:
        return Finding(WARN, "permissions", "unknown user", "let this user ask: +acl|whoami")
    user = name.decode(errors="replace")
    key = session.keys(_PROBE).lock
    trials = _trials(key, home_prefix(session.prefix).encode())
    answers = [ask.may(b"ACL", b"DRYRUN", name, *words) for words in trials]
    if all(answer is None for answer in answers):  # Redis 6.2, or no right to ask
        return Finding(OK, "permissions", f"user {user}; cannot be tried out here")
    refused = [answer.decode() for answer in answers if answer not in {None, b"OK"}]
    if refused:
        return Finding(FAIL, "permissions", f"user {user}: {refused[0]}", "grant the rule below")
    return Finding(OK, "permissions", f"user {user} may do all that locks need")


def _trials(key: bytes, channel: bytes) -> list[tuple[bytes, ...]]:
    return [
        (b"EVALSHA", ALL[0].digest, b"1", key),
        (b"EVAL", b"return 1", b"1", key),
        (b"SET", key, b"x", b"NX", b"PX", b"1"),
        (b"ZADD", key, b"1", b"x"),
        (b"ZPOPMIN", key),
        (b"SADD", key, b"x"),
        (b"HSET", key, b"x", b"x"),
        (b"GET", key),
        (b"DEL", key),
        (b"PEXPIRE", key, b"1"),
        (b"SCAN", b"0"),
        (b"TIME",),
        (b"PUBLISH", channel + b"x", b"x"),
        (b"SUBSCRIBE", channel + b"x"),
    ]


def _scripts(session: Session) -> Finding:
    """Run the one script that changes nothing: what it needs, the others need too."""
    try:
        run_blocking(show(session.port, session.keys(_PROBE), 1))
    except ServerError as error:
        return Finding(FAIL, "scripts", str(error), "grant the rule below")
    return Finding(OK, "scripts", "run")
