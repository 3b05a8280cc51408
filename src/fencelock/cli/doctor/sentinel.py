"""Sentinels: those that say where the server is, and a server that is one itself."""

from __future__ import annotations

from typing import Final

from fencelock._io.sentinel_blocking import BlockingDialer
from fencelock._io.threads import run_inline
from fencelock._runtime.clock import now
from fencelock._topology.master_monitor import survey
from fencelock._topology.sentinel import ANSWER_SECONDS, SentinelReply
from fencelock.cli.doctor.report import Answer, fail, ok, warn
from fencelock.cli.doctor.server import Facts, Server, mapped, number

_LEAST: Final = 3  # so that one may be missing
_HELLO: Final = b"__sentinel__:hello"
_URL: Final = "redis+sentinel://host1,host2,host3/SERVICE/0"


def agreement(server: Server) -> Answer:
    """Ask how many Sentinels answer, and whether they agree on the master."""
    service = server.session.operator.sentinels
    if service is None:
        return []
    said = run_inline(survey(BlockingDialer(), service, now() + ANSWER_SECONDS))
    replies = [each for each in said if isinstance(each, SentinelReply)]
    named = sorted({f"{each.host}:{each.port}, epoch {each.epoch}" for each in replies})
    found = f"{len(replies)} of {len(said)} answer: {'; '.join(named) or 'no master'}"
    if len(replies) < len(said):
        errors = dict.fromkeys(str(each) for each in said if isinstance(each, Exception))
        found += "".join(f"\n{error}" for error in errors)
        return warn(found, "repair the silent Sentinels, or remove them from the URL")
    if len(named) > 1:
        return warn(found, "a failover may be in progress: run doctor again")
    if any(each.suspected for each in replies):
        return warn(found, "a Sentinel cannot reach the master: a failover may follow")
    if len(replies) < _LEAST:
        change = "run three or more, on separate machines: fewer have no majority after a failure"
        return warn(found, change)
    return ok(found)


def unused(server: Server) -> Answer:
    """Ask for Sentinels that the URL does not use: all subscribe to a hello channel."""
    alone = server.info and server.info.get("cluster_enabled") != "1"
    if not alone or "+sentinel" in server.scheme:
        return []
    heard = server.optional(b"PUBSUB", b"NUMSUB", _HELLO)
    if not heard or not int(heard[1]):
        return []
    return warn(
        f"{int(heard[1])} Sentinel(s) watch this server, and this URL does not ask them",
        f"{_URL} follows a failover, this URL does not",
    )


def itself(server: Server) -> Answer:
    """Ask a Sentinel what it watches: it holds no locks."""
    replies = server.optional(b"SENTINEL", b"MASTERS") or []
    masters = [
        {name.decode(): value.decode(errors="replace") for name, value in mapped(each).items()}
        for each in replies
    ]
    names = ", ".join(each.get("name", "?") for each in masters) or "no master"
    return fail(
        f"a Sentinel, which holds no locks; it watches {names}",
        f"use {_URL} with all Sentinels and the master's name",
    ) + [finding for each in masters for finding in _master(server, each)]


def _master(server: Server, known: Facts) -> Answer:
    name, flags = known.get("name", ""), known.get("flags", "")
    sentinels = number(known, "num-other-sentinels") + 1
    replicas, span = number(known, "num-slaves"), number(known, "down-after-milliseconds")
    what = f"master {name}"
    found = (
        f"{known.get('ip')}:{known.get('port')}, {flags}; {replicas} replica(s), {sentinels}"
        f" Sentinel(s), quorum {known.get('quorum')}, down after {span} ms"
    )
    if "down" in flags:
        change = "start it, or see in the Sentinels' logs why no replica was promoted"
        return fail(found, change, what=what)
    checked = server.tried(b"SENTINEL", b"CKQUORUM", name.encode())
    if getattr(checked, "code", "") == "NOQUORUM":
        change = "start the missing Sentinels: too few are left to agree on a failover"
        return fail(found, change, what=what)
    if not replicas:
        return fail(found, "add a replica: without one no failover is possible", what=what)
    if sentinels < _LEAST:
        return warn(found, "run three Sentinels, on three machines", what=what)
    return ok(found, what=what)
