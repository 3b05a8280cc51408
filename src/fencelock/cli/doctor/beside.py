"""What stands beside a server: replicas, the other nodes of its Cluster, Sentinels."""

from __future__ import annotations

from typing import Final

from fencelock._io.sentinel_blocking import BlockingDialer
from fencelock._io.threads import run_inline
from fencelock._runtime.clock import now
from fencelock._topology.master_monitor import survey
from fencelock._topology.sentinel import SENTINEL_SECONDS, SentinelReply
from fencelock.cli.doctor.report import Answer, fail, ok, unknown, warn
from fencelock.cli.doctor.server import Facts, Server, mapped, number

_LAG_SECONDS: Final = 5
_SLOTS: Final = 16384
_LEAST: Final = 3  # so that one may be missing
_HELLO: Final = b"__sentinel__:hello"
_URL: Final = "redis+sentinel://host1,host2,host3/SERVICE/0"


def role(server: Server) -> Answer:
    """Ask whether it is a master, on which locks can be taken."""
    info = server.info
    if info.get("role") == "slave":
        master = f"{info.get('master_host')}:{info.get('master_port')}"
        link = "" if info.get("master_link_status") == "up" else ", which it cannot reach"
        change = f"point fencelock at {master}, or at the Sentinels or Cluster that know the master"
        return fail(f"a replica of {master}{link}", change)
    followed = number(info, "connected_slaves")
    if not followed:
        return ok("a single master")
    return warn(
        f"a master with {followed} replica(s), which follow asynchronously",
        "a failover may lose the last grants: use Client(replicas=n), which waits for n replicas,"
        " and let resources check the fencing token",
    )


def replicas(server: Server) -> Answer:
    """Ask how far each replica is behind."""
    answer: Answer = []
    for known in _followers(server):
        lag = number(known, "lag")
        behind = number(server.info, "master_repl_offset") - number(known, "offset")
        where = f"{known.get('ip')}:{known.get('port')}"
        found = f"{where} is {known.get('state')}, heard from {lag} s ago,"
        found += f" {max(0, behind)} bytes behind"
        if known.get("state") != "online":
            change = "wait until it has copied the data; see the logs of both servers"
            answer += warn(found, change)
        elif lag > _LAG_SECONDS:
            change = f"check {where} and its network: a failover loses the data that it lacks"
            answer += warn(found, change)
        else:
            answer += ok(found)
    return answer


def _followers(server: Server) -> list[Facts]:
    """Return what a master knows of each of its replicas."""
    if server.info.get("role") == "slave":
        return []
    return [
        dict(pair.split("=", 1) for pair in line.split(",") if "=" in pair)
        for name, line in server.info.items()
        if name.startswith("slave") and name.removeprefix("slave").isdecimal()
    ]


def min_replicas(server: Server) -> Answer:
    """Ask whether a master that is cut off from its replicas stops granting."""
    if not server.info or server.info.get("role") == "slave":
        return []
    wanted = server.setting("min-replicas-to-write")
    if _ignores_min_replicas(server.info):
        if wanted in {"", "0"} and not _followers(server):
            return []
        return warn(
            "min-replicas-to-write does not stop its scripts: cut off, a master goes on granting",
            "use Redis 6.2.7 or newer: there it does",
        )
    if wanted not in {"", "0"} and int(wanted) > number(server.info, "min_slaves_good_slaves"):
        good = server.info.get("min_slaves_good_slaves", "0")
        return fail(
            f"writes need {wanted} replicas, {good} follow: all locks are refused (NOREPLICAS)",
            "bring the replicas back, or lower min-replicas-to-write with CONFIG SET",
        )
    if not wanted or not _followers(server):
        return []
    if wanted == "0":
        return warn(
            "min-replicas-to-write 0: a master that is cut off goes on granting",
            "CONFIG SET min-replicas-to-write 1 stops that after min-replicas-max-lag",
        )
    lag = server.setting("min-replicas-max-lag")
    return ok(f"a master without {wanted} replica(s) stops granting after {lag} s")


def _ignores_min_replicas(info: Facts) -> bool:
    """Return True if scripts write although too few replicas follow: plain commands do not."""
    release = [int(part) for part in info.get("redis_version", "").split(".") if part.isdecimal()]
    return "mvcc_depth" in info or [6, 2] <= release < [6, 2, 7]  # KeyDB; Redis


# -- Cluster ---------------------------------------------------------------------------------------


def cluster(server: Server) -> Answer:
    """Ask a node of a Cluster whether all slots are served."""
    if server.info.get("cluster_enabled") != "1":
        return []
    if not server.cluster:
        return unknown("+cluster|info +cluster|nodes")
    state = server.cluster.get("cluster_state", "").strip()
    assigned = number(server.cluster, "cluster_slots_assigned")
    failing = sum(number(server.cluster, f"cluster_slots_{how}") for how in ("fail", "pfail"))
    found = f"state {state}, {assigned} of {_SLOTS} slots assigned"
    if state == "ok" and not failing and assigned >= _SLOTS:
        return ok(found)
    found += f", {failing} failing" if failing else ""
    change = "CLUSTER NODES shows what is down: start it; CLUSTER ADDSLOTS for free slots"
    return fail(found, change)


def nodes(server: Server) -> Answer:
    """Ask which nodes of the Cluster failed, and which masters have no replica."""
    if not server.cluster:
        return []
    text = (server.optional(b"CLUSTER", b"NODES") or b"").decode()
    lines = {words[0]: words for words in map(str.split, text.splitlines())}
    if not lines:
        return unknown("+cluster|nodes")
    failed = {one for one, words in lines.items() if {"fail", "fail?"} & {*words[2].split(",")}}
    masters = {one: words for one, words in lines.items() if "master" in words[2] and words[8:]}
    lonely = masters.keys() - {words[3] for one, words in lines.items() if one not in failed}
    moving = sum(word.startswith("[") for words in masters.values() for word in words[8:])
    found = f"{len(masters)} masters with slots, of {len(lines)} nodes"
    found += f", {moving} slots are moving" if moving else ""
    hosts = [lines[one][1].partition("@")[0] for one in lines if one in (failed or lonely)]
    if failed:
        change = "start it, or CLUSTER FORGET it on all others"
        return fail(f"{found}; failed: {', '.join(hosts)}", change)
    if lonely:
        change = (
            "CLUSTER REPLICATE: if such a master fails, its locks are lost and its slots are down"
        )
        return warn(f"{found}; without replica: {', '.join(hosts)}", change)
    return ok(f"{found}, each with a replica")


def source(server: Server) -> Answer:
    """Ask whether a URL of one node is used for a Cluster."""
    if not server.cluster or "+cluster" in server.scheme:
        return []
    found = "a node of a Cluster, and this URL reaches this node only"
    return warn(found, "use redis+cluster://host:port: it finds the node of each lock")


# -- Sentinel --------------------------------------------------------------------------------------


def agreement(server: Server) -> Answer:
    """Ask how many Sentinels answer, and whether they agree on the master."""
    service = server.session.operator.sentinels
    if service is None:
        return []
    said = run_inline(survey(BlockingDialer(), service, now() + SENTINEL_SECONDS))
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
