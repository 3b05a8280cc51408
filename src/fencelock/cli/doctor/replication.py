"""Replicas, Sentinels and Clusters: which server follows which, and what a failover does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fencelock.cli.doctor.probe import Facts, Probe, info_fields, number
from fencelock.cli.doctor.report import FAIL, OK, WARN, Finding, unknown

_LAG_SECONDS: Final = 5
_MAJORITY: Final = 3  # Sentinels, so that one may be missing
_SLOTS: Final = 16384
_HELLO: Final = b"__sentinel__:hello"


def replication(probe: Probe, info: Facts, url: str) -> Iterator[Finding]:
    """Check the role, the replicas, and what performs a failover."""
    if not info:
        yield unknown("role", "+info")
        return
    if info.get("role") == "slave":
        yield _replica(info)
    else:
        yield _master(info)
        yield from _replicas(probe, info)
    if info.get("cluster_enabled") == "1":
        yield from _cluster(probe, url)
    else:
        yield from _watched(probe, url)


def _replica(info: Facts) -> Finding:
    master = f"{info.get('master_host')}:{info.get('master_port')}"
    link = "" if info.get("master_link_status") == "up" else ", which it cannot reach"
    change = f"point fencelock at {master}, or at the Sentinels or Cluster that know the master"
    return Finding(FAIL, "role", f"a replica of {master}{link}", change)


def _master(info: Facts) -> Finding:
    replicas = number(info, "connected_slaves")
    if not replicas:
        return Finding(OK, "role", "a single master")
    found = f"a master with {replicas} replica(s), which follow asynchronously"
    change = (
        "a failover may lose the last grants: use Client(replicas=n), which waits for n replicas,"
    )
    return Finding(WARN, "role", found, f"{change} and let resources check the fencing token")


def _replicas(probe: Probe, info: Facts) -> Iterator[Finding]:
    lines = [value for name, value in info.items() if _is_replica(name)]
    for line in lines:
        yield _one_replica(line, number(info, "master_repl_offset"))
    wanted = probe.setting("min-replicas-to-write")
    if wanted not in {"", "0"} and int(wanted) > number(info, "min_slaves_good_slaves"):
        good = info.get("min_slaves_good_slaves", "0")
        found = f"writes need {wanted} replicas, {good} follow: all locks are refused (NOREPLICAS)"
        change = "bring the replicas back, or lower min-replicas-to-write with CONFIG SET"
        yield Finding(FAIL, "min-replicas", found, change)
    elif lines and wanted == "0":
        found = "min-replicas-to-write 0: a master that is cut off goes on granting"
        change = "CONFIG SET min-replicas-to-write 1 stops that after min-replicas-max-lag"
        yield Finding(WARN, "min-replicas", found, change)
    elif lines and wanted:
        lag = probe.setting("min-replicas-max-lag")
        found = f"a master without {wanted} replica(s) stops granting after {lag} s"
        yield Finding(OK, "min-replicas", found)


def _is_replica(name: str) -> bool:
    return name.startswith("slave") and name.removeprefix("slave").isdecimal()


def _one_replica(line: str, offset: int) -> Finding:
    known = dict(pair.split("=", 1) for pair in line.split(",") if "=" in pair)
    lag, behind = number(known, "lag"), offset - number(known, "offset")
    where = f"{known.get('ip')}:{known.get('port')}"
    found = (
        f"{where} is {known.get('state')}, heard from {lag} s ago, {max(0, behind)} bytes behind"
    )
    if known.get("state") != "online":
        return Finding(
            WARN,
            "replica",
            found,
            "wait until it has copied the data; see the logs of both servers",
        )
    if lag > _LAG_SECONDS:
        change = f"check {where} and its network: a failover loses the data that it lacks"
        return Finding(WARN, "replica", found, change)
    return Finding(OK, "replica", found)


# -- Sentinel --------------------------------------------------------------------------------------


def _watched(probe: Probe, url: str) -> Iterator[Finding]:
    """Report Sentinels that the URL does not use: all subscribe to a hello channel."""
    if "+sentinel" in url.partition("://")[0]:
        return
    heard = probe.optional(b"PUBSUB", b"NUMSUB", _HELLO)
    sentinels = int(heard[1]) if heard else 0
    if not sentinels:
        return
    found = f"{sentinels} Sentinel(s) watch this server, and this URL does not ask them"
    change = "redis+sentinel://host1,host2,host3/SERVICE/0 follows a failover, this URL does not"
    yield Finding(WARN, "sentinels", found, change)


def sentinel(probe: Probe) -> Iterator[Finding]:
    """Check a Sentinel, and the masters that it watches."""
    masters = [_mapped(each) for each in probe.optional(b"SENTINEL", b"MASTERS") or []]
    names = ", ".join(each.get("name", "?") for each in masters) or "no master"
    change = (
        "use redis+sentinel://host1,host2,host3/SERVICE/0 with all Sentinels and the master's name"
    )
    yield Finding(FAIL, "role", f"a Sentinel, which holds no locks; it watches {names}", change)
    for each in masters:
        yield _one_master(probe, each)


def _mapped(reply: Any) -> Facts:
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {key.decode(): value.decode(errors="replace") for key, value in pairs}


def _one_master(probe: Probe, known: Facts) -> Finding:
    name, flags = known.get("name", ""), known.get("flags", "")
    sentinels = number(known, "num-other-sentinels") + 1
    replicas, span = number(known, "num-slaves"), number(known, "down-after-milliseconds")
    what = f"master {name}"
    found = (
        f"{known.get('ip')}:{known.get('port')}, {flags}; {replicas} replica(s), {sentinels}"
        f" Sentinel(s), quorum {known.get('quorum')}, down after {span} ms"
    )
    if "down" in flags:
        return Finding(
            FAIL, what, found, "start it, or see in the Sentinels' logs why no replica was promoted"
        )
    if probe.refusal(b"SENTINEL", b"CKQUORUM", name.encode()) == "NOQUORUM":
        change = "start the missing Sentinels: too few are left to agree on a failover"
        return Finding(FAIL, what, found, change)
    if not replicas:
        return Finding(FAIL, what, found, "add a replica: without one no failover is possible")
    if sentinels < _MAJORITY:
        return Finding(WARN, what, found, "run three Sentinels, on three machines")
    return Finding(OK, what, found)


# -- Cluster ---------------------------------------------------------------------------------------


def _cluster(probe: Probe, url: str) -> Iterator[Finding]:
    known = info_fields(probe.optional(b"CLUSTER", b"INFO"))
    if not known:
        yield unknown("cluster", "+cluster|info +cluster|nodes")
        return
    state = known.get("cluster_state", "").strip()
    assigned = number(known, "cluster_slots_assigned")
    failing = number(known, "cluster_slots_fail") + number(known, "cluster_slots_pfail")
    found = f"state {state}, {assigned} of {_SLOTS} slots assigned"
    if state != "ok" or failing or assigned < _SLOTS:
        found += f", {failing} failing" if failing else ""
        change = "CLUSTER NODES shows what is down: start it; CLUSTER ADDSLOTS for free slots"
        yield Finding(FAIL, "cluster", found, change)
    else:
        yield Finding(OK, "cluster", found)
    yield from _nodes(probe)
    if "+cluster" not in url.partition("://")[0]:
        found = "a node of a Cluster, and this URL reaches this node only"
        change = "use redis+cluster://host:port: it finds the node of each lock"
        yield Finding(WARN, "source", found, change)


def _nodes(probe: Probe) -> Iterator[Finding]:
    lines = [
        each.split() for each in (probe.optional(b"CLUSTER", b"NODES") or b"").decode().splitlines()
    ]
    if not lines:
        yield unknown("nodes", "+cluster|nodes")
        return
    flags = {words[0]: set(words[2].split(",")) for words in lines}
    masters = {words[0]: words for words in lines if "master" in words[2] and words[8:]}
    followed = {words[3] for words in lines if not flags[words[0]] & {"fail", "fail?"}}
    lonely = [words[1].partition("@")[0] for one, words in masters.items() if one not in followed]
    failed = [words[1].partition("@")[0] for words in lines if flags[words[0]] & {"fail", "fail?"}]
    moving = sum(word.startswith("[") for words in masters.values() for word in words[8:])
    found = f"{len(masters)} masters with slots, of {len(lines)} nodes"
    found += f", {moving} slots are moving" if moving else ""
    if failed:
        change = "start it, or CLUSTER FORGET it on all others"
        yield Finding(FAIL, "nodes", f"{found}; failed: {', '.join(failed)}", change)
    elif lonely:
        found += f"; without replica: {', '.join(lonely)}"
        change = (
            "CLUSTER REPLICATE: if such a master fails, its locks are lost and its slots are down"
        )
        yield Finding(WARN, "nodes", found, change)
    else:
        yield Finding(OK, "nodes", f"{found}, each with a replica")
