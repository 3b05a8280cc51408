"""Whether the server keeps its grants: memory and eviction, restarts and power loss."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from fencelock.cli.doctor.probe import Facts, Probe, number
from fencelock.cli.doctor.report import FAIL, OK, WARN, Finding, unknown
from fencelock.cli.output import human

_NEARLY: Final = 0.8
# The roles of a server; what it may forget depends on them.
ALONE: Final = "alone"
NODE: Final = "a node of a quorum"
EMBEDDED: Final = "embedded"
_TWO: Final = ", and then a lock may have two holders"
_FENCE: Final = "or let resources check the fencing token: it grows even then"


def persistence(probe: Probe, info: Facts, role: str) -> Iterator[Finding]:
    """Check what can make the server lose a lock."""
    if not info:
        for what in ("eviction", "memory", "persistence"):
            yield unknown(what, "+info")
        return
    yield _eviction(probe, info)
    yield _memory(info)
    yield _forgiven(_persistence(probe, info), info, role)


def _eviction(probe: Probe, info: Facts) -> Finding:
    policy = info.get("maxmemory_policy") or probe.setting("maxmemory-policy")
    if not policy:
        return unknown("eviction", "+config|get")
    if policy == "noeviction":
        return Finding(OK, "eviction", "noeviction: no lock is evicted when memory is full")
    change = "CONFIG SET maxmemory-policy noeviction, or use a separate server for locks"
    found = f"{policy}: a lock can be evicted, and then has two holders"
    if policy.startswith("volatile"):
        found += "; it evicts locks first, because each has a ttl"
    evicted = number(info, "evicted_keys")
    if evicted:
        return Finding(
            FAIL, "eviction", f"{found}; {evicted} keys were evicted since the start", change
        )
    if number(info, "maxmemory") == 0:
        return Finding(WARN, "eviction", f"{found}, once maxmemory is set", change)
    return Finding(FAIL, "eviction", found, change)


def _memory(info: Facts) -> Finding:
    used, limit = number(info, "used_memory"), number(info, "maxmemory")
    if not limit:
        machine = number(info, "total_system_memory")
        found = f"{_size(used)} used, no maxmemory"
        if machine and used > _NEARLY * machine:
            change = (
                "set maxmemory below the machine's memory: otherwise the kernel may kill the server"
            )
            return Finding(WARN, "memory", f"{found}, of {_size(machine)} in the machine", change)
        return Finding(OK, "memory", found)
    found = f"{_size(used)} of {_size(limit)} used"
    if used > limit:
        change = "raise maxmemory, or remove other data"
        return Finding(FAIL, "memory", f"{found}: new locks are refused with OOM", change)
    if used > _NEARLY * limit:
        change = "raise maxmemory: when memory is full, new locks are refused, or old ones evicted"
        return Finding(WARN, "memory", found, change)
    return Finding(OK, "memory", found)


def _size(octets: int) -> str:
    size = float(octets)
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - a thousand of a unit is one of the next
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


# -- persistence -----------------------------------------------------------------------------------

# What each appendfsync loses in a power failure. A killed server loses nothing: the kernel has
# what it wrote.
_LOST: Final = {
    "everysec": "a power failure may lose the last second or two",
    "no": "a power failure may lose the last half minute",
}


def _persistence(probe: Probe, info: Facts) -> Finding:
    if info.get("aof_enabled") == "1":
        return _append_only(probe, info)
    snapshots = probe.setting("save")
    if info.get("rdb_last_bgsave_status") == "err":
        change = (
            "see its log: the disk is full or not writable, or there is too little memory to fork"
        )
        found = "the last snapshot failed; by default all writes are then refused (MISCONF)"
        return Finding(FAIL, "persistence", found, change)
    if snapshots:
        ago = human(max(0.0, time.time() - number(info, "rdb_last_save_time")))
        found = f"snapshots only, the last {ago} ago: a crash forgets all grants since"
    else:
        found = "none: a restart forgets all holders"
    found += _TWO
    if number(info, "connected_slaves"):
        found += "; if it restarts before a failover, its replicas lose their data too"
    return Finding(WARN, "persistence", found, f"CONFIG SET appendonly yes, {_FENCE}")


def _forgiven(found: Finding, info: Facts, role: str) -> Finding:
    """Return the finding, or an OK where it does no harm in this role."""
    if found.level == WARN and role == NODE:
        what = found.found.removesuffix(_TWO)
        harmless = f"{what}; after that it has no vote until the longest ttl has passed"
    elif found.level == WARN and role == EMBEDDED and info.get("aof_enabled") == "1":
        what = found.found.partition(";")[0]
        harmless = (
            f"{what}: data is lost only if this machine goes down, which stops all holders too"
        )
    else:
        return found
    return Finding(OK, found.what, harmless)


def _append_only(probe: Probe, info: Facts) -> Finding:
    sync = probe.setting("appendfsync") or "unknown"
    found = f"append-only file, appendfsync {sync}"
    if info.get("aof_last_write_status") == "err":
        change = "see its log: the disk is full or not writable"
        return Finding(FAIL, "persistence", f"{found}; the last write to it failed", change)
    if sync == "always":
        return Finding(
            OK, "persistence", f"{found}: nothing is lost; each write waits for the disk"
        )
    lost = _LOST.get(sync)
    level = OK if sync == "everysec" else WARN
    change = f"set appendfsync always (some ms more for each command), {_FENCE}"
    return Finding(level, "persistence", f"{found}; {lost}" if lost else found, change)
