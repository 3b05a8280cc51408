"""The questions to a server alone: its version, its connections, its memory, its clock.

Whether it answers all clients in time, whether it evicts grants, what restarts and power losses
make it forget, and whether its clock runs evenly.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from fencelock._io.connect import OLDEST
from fencelock.cli.doctor.report import Answer, fail, ok, unknown, warn
from fencelock.cli.doctor.server import EMBEDDED, NODE, Sample, Server, literal, number
from fencelock.cli.output import human

_NEARLY: Final = 0.8
_SILENT_MS: Final = 5000
_FORK_MICROS: Final = 200_000
_CONNECTIONS: Final = "raise maxclients, or find clients that leave connections open (CLIENT LIST)"
_FENCE: Final = "or let resources check the fencing token: it grows even then"
_NO_VOTE: Final = "; after that it has no vote until the longest ttl has passed"
# What each appendfsync loses in a power failure. A killed server loses nothing: the kernel has
# what it wrote.
_LOST: Final = {
    "everysec": "; a power failure may lose the last second or two",
    "no": "; a power failure may lose the last half minute",
}

_DISTANCE_SECONDS: Final = 1.0
# Two clocks may drift apart by this rate, and one sample may be this coarse.
_DRIFT: Final = 0.01
_SLACK_SECONDS: Final = 0.001
_SLOW_SECONDS: Final = 0.05
_RECORDS_MAX: Final = 20
_SCANNED: Final = b"1000"

# What can be done about an error code that concerns the whole server.
TROUBLE: Final = {
    "BUSY": "SCRIPT KILL ends a script that has not written yet; else wait, or SHUTDOWN NOSAVE",
    "LOADING": "wait until it has read its data; until then it refuses all commands",
    "MAXCLIENTS": _CONNECTIONS,
    "NOAUTH": "put the user and password into the URL: redis://user:password@host:6379/0",
    "WRONGPASS": "correct the user or password in the URL; ACL LIST on the server lists the users",
    "CLUSTERDOWN": "CLUSTER INFO and CLUSTER NODES show which slots no node serves",
    "MOVED": "redis+cluster://host:port finds the node of each lock; this URL leads to one node",
    "MASTERDOWN": "this replica lost its master: point fencelock at the master",
}


def version(server: Server) -> Answer:
    """Ask for kind and version."""
    kinds = (kind for kind in ("Valkey", "Redict") if f"{kind.lower()}_version" in server.info)
    name = next(kinds, "Redis")
    release = server.info.get(f"{name.lower()}_version")
    if release is None:
        server.command(b"TIME")  # a server that refuses every command raises here
        return unknown("+info")
    numbers = tuple(int(part) for part in release.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST.get(name.lower(), ()):
        return fail(f"{name} {release} is too old", "upgrade: Redis 6.2 or Valkey 7.2 is needed")
    return ok(f"{name} {release}")


def clients(server: Server) -> Answer:
    """Ask whether it has connections left."""
    used = number(server.info, "connected_clients")
    limit = server.info.get("maxclients") or server.setting("maxclients")
    if not limit.isdecimal() or not int(limit):
        return unknown("+info +config|get")
    found = f"{used} of {limit} connections used"
    refused = number(server.info, "rejected_connections")
    if refused:
        return warn(f"{found}; {refused} refused since the start", _CONNECTIONS)
    return warn(found, _CONNECTIONS) if used > _NEARLY * int(limit) else ok(found)


def stalls(server: Server) -> Answer:
    """Ask what blocks all clients: long scripts, and forks of a large server."""
    limit = server.setting("lua-time-limit")
    fork = number(server.info, "latest_fork_usec")
    if limit.isdecimal() and not 0 < int(limit) <= _SILENT_MS:
        shown = "never" if limit == "0" else f"after {int(limit) / 1000:g} s"
        return warn(
            f"a script that runs too long is reported {shown} (lua-time-limit {limit})",
            "CONFIG SET lua-time-limit 5000: before that limit the server answers no client",
        )
    if fork > _FORK_MICROS:
        return warn(
            f"its last snapshot blocked all clients for {fork / 1e6:.1f} s (fork)",
            "use a separate server for locks: a small server forks at once",
        )
    if not limit:
        return unknown("+config|get")
    return ok(f"a script that runs too long is reported after {int(limit)} ms")


# -- memory, and what is kept ---------------------------------------------------------------------


def eviction(server: Server) -> Answer:
    """Ask whether a full memory evicts locks."""
    policy = server.info.get("maxmemory_policy") or server.setting("maxmemory-policy")
    if not policy:
        return unknown("+config|get")
    if policy == "noeviction":
        return ok("noeviction: no lock is evicted when memory is full")
    change = "CONFIG SET maxmemory-policy noeviction, or use a separate server for locks"
    found = f"{policy}: a lock can be evicted, and then has two holders"
    if policy.startswith("volatile"):
        found += "; it evicts locks first, because each has a ttl"
    evicted = number(server.info, "evicted_keys")
    if evicted:
        return fail(f"{found}; {evicted} keys were evicted since the start", change)
    if not number(server.info, "maxmemory"):
        return warn(f"{found}, once maxmemory is set", change)
    return fail(found, change)


def memory(server: Server) -> Answer:
    """Ask whether memory is left."""
    used, limit = number(server.info, "used_memory"), number(server.info, "maxmemory")
    machine = number(server.info, "total_system_memory")
    found = (
        f"{_size(used)} of {_size(limit)} used" if limit else f"{_size(used)} used, no maxmemory"
    )
    if limit and used > limit:
        found += ": new locks are refused with OOM"
        return fail(found, "raise maxmemory, or remove other data")
    if limit and used > _NEARLY * limit:
        change = "raise maxmemory: when memory is full, new locks are refused, or old ones evicted"
        return warn(found, change)
    if machine and not limit and used > _NEARLY * machine:
        found += f", of {_size(machine)} in the machine"
        change = (
            "set maxmemory below the machine's memory: otherwise the kernel may kill the server"
        )
        return warn(found, change)
    return ok(found)


def _size(octets: int) -> str:
    size = float(octets)
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - a thousand of a unit is one of the next
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def persistence(server: Server) -> Answer:
    """Ask what a crash or a power failure loses, and what that means for a server in this role."""
    if server.info.get("aof_enabled") == "1":
        return _append_only(server)
    snapshots = server.setting("save")
    if server.info.get("rdb_last_bgsave_status") == "err":
        return fail(
            "the last snapshot failed; by default all writes are then refused (MISCONF)",
            "see its log: the disk is full or not writable, or there is too little memory to fork",
        )
    found = "none: a restart forgets all holders"
    if snapshots:
        ago = human(max(0.0, time.time() - number(server.info, "rdb_last_save_time")))
        found = f"snapshots only, the last {ago} ago: a crash forgets all grants since"
    followed = number(server.info, "connected_slaves")
    if followed or server.role != NODE:
        found += ", and then a lock may have two holders"
    if followed:
        found += "; if it restarts before a failover, its replicas lose their data too"
    if server.role == NODE:
        return ok(found + _NO_VOTE)
    return warn(found, f"CONFIG SET appendonly yes, {_FENCE}")


def _append_only(server: Server) -> Answer:
    sync = server.setting("appendfsync") or "unknown"
    found = f"append-only file, appendfsync {sync}"
    if server.info.get("aof_last_write_status") == "err":
        change = "see its log: the disk is full or not writable"
        return fail(f"{found}; the last write to it failed", change)
    if sync == "always":
        return ok(f"{found}: nothing is lost; each write waits for the disk")
    lost = f"{found}{_LOST.get(sync, '')}"
    change = f"set appendfsync always (some ms more for each command), {_FENCE}"
    if sync == "everysec":
        return ok(lost, change)
    if server.role == NODE:
        return ok(lost + _NO_VOTE)
    if server.role == EMBEDDED:
        down = "data is lost only if this machine goes down, which stops all holders too"
        return ok(f"{found}: {down}")
    return warn(lost, change)


# -- the clock -------------------------------------------------------------------------------------
#
# Leases end by the server's wall clock. One that jumps ends them early or late; one that is merely
# far from this host's does no harm. The server answered TIME between the request and the arrival of
# the reply. This file relies on nothing else, so a slow network only makes it less sure.


def reachable(server: Server) -> Answer:
    """Ask how fast the server answers."""
    server.sample()
    trips = sorted(each.trip for each in server.samples)
    found = f"answers in {trips[0] * 1000:.2f} ms, {trips[-1] * 1000:.2f} ms at worst"
    if trips[0] > _SLOW_SECONDS:
        return warn(found, "choose a ttl of a hundred round trips or more")
    return ok(found)


def distance(server: Server) -> Answer:
    """Ask how far the clock is from this host's, a while after the first samples."""
    server.sample()
    best = min(server.samples, key=lambda each: each.trip)
    ahead = best.server - best.wall
    way = "ahead of" if ahead > 0 else "behind"
    if abs(ahead) < _DISTANCE_SECONDS:
        return ok(f"the server is {abs(ahead) * 1000:.1f} ms {way} this host")
    return warn(
        f"the server is {human(abs(ahead))} {way} this host",
        "locks do not depend on it, but logs do: run NTP on both",
    )


def jumps(server: Server) -> Answer:
    """Ask whether the clock ran evenly between the samples."""
    moved = jump(server.samples)
    if not moved:
        seconds = server.samples[-1].answered - server.samples[0].asked
        return ok(f"none during {seconds * 1000:.0f} ms")
    return fail(
        f"the server's clock moved by {moved:+.3f} s against this host's during the check",
        "leases end by that clock: let NTP slew it, never step it (chronyd: no makestep)",
    )


def jump(samples: Sequence[Sample]) -> float:
    """Return by how much the server's clock certainly moved against ours; 0 if it may not have.

    Each sample bounds the distance between the clocks. Clocks that run evenly have one distance
    that fits all bounds.
    """
    began, worst = samples[0].asked, 0.0
    for place, one in enumerate(samples):
        for other in samples[:place]:
            slack = _SLACK_SECONDS + _DRIFT * (one.answered - began)
            most = (one.server - one.asked) - (other.server - other.answered)
            least = (one.server - one.answered) - (other.server - other.asked)
            if least > slack:
                worst = max(worst, least, key=abs)
            elif most < -slack:
                worst = max(worst, most, key=abs)
    return worst


def set_back(server: Server) -> Answer:
    """Ask whether grants come from the server's future: then its clock was set back."""
    match = f"{literal(server.session.prefix)}*~record*".encode()
    scanned = server.optional(b"SCAN", b"0", b"MATCH", match, b"COUNT", _SCANNED)
    last = server.samples[-1]
    ahead = 0.0
    for key in scanned[1][:_RECORDS_MAX] if scanned else ():
        fence = (server.optional(b"GET", key) or b"").partition(b" ")[0]
        if fence.isdigit():
            ahead = max(ahead, int(fence) / 1e6 - last.server)
    if ahead <= _SLACK_SECONDS + last.trip:
        return []
    return warn(
        f"a lock was granted {human(ahead)} in the server's future: its clock was set back,"
        " or that of the server before it was ahead",
        "fences go on from the last one while its record exists, ten minutes; run NTP",
    )
