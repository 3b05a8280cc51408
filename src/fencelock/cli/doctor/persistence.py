"""Whether the server keeps its grants: memory and eviction, restarts and power loss."""

from __future__ import annotations

import time
from typing import Final

from fencelock.cli.doctor.report import Answer, fail, ok, unknown, warn
from fencelock.cli.doctor.server import EMBEDDED, NODE, Server, number
from fencelock.cli.output import human

_NEARLY: Final = 0.8
_FENCE: Final = "or let resources check the fencing token: it grows even then"
_NO_VOTE: Final = "; after that it has no vote until the longest ttl has passed"
# What each appendfsync loses in a power failure. A killed server loses nothing: the kernel has
# what it wrote.
_LOST: Final = {
    "everysec": "; a power failure may lose the last second or two",
    "no": "; a power failure may lose the last half minute",
}


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
