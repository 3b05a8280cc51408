"""Whether fencelock supports the server, and whether it answers all clients in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencelock._io.connect import OLDEST
from fencelock.cli.doctor.probe import Facts, Probe, number
from fencelock.cli.doctor.report import FAIL, OK, WARN, Finding, unknown

_NEARLY: Final = 0.8
_SILENT_MS: Final = 5000
_FORK_MICROS: Final = 200_000

# What can be done about an error code that concerns the whole server.
TROUBLE: Final = {
    "BUSY": "SCRIPT KILL ends a script that has not written yet; else wait, or SHUTDOWN NOSAVE",
    "LOADING": "wait until it has read its data; until then it refuses all commands",
    "MAXCLIENTS": "raise maxclients, or find clients that leave connections open (CLIENT LIST)",
    "NOAUTH": "put the user and password into the URL: redis://user:password@host:6379/0",
    "WRONGPASS": "correct the user or password in the URL; ACL LIST on the server lists the users",
    "CLUSTERDOWN": "CLUSTER INFO and CLUSTER NODES show which slots no node serves",
    "MOVED": "redis+cluster://host:port finds the node of each lock; this URL leads to one node",
    "MASTERDOWN": "this replica lost its master: point fencelock at the master",
}


def version(info: Facts) -> Finding:
    """Return kind and version; FAIL for one that is too old."""
    name = "Valkey" if "valkey_version" in info else "Redis"
    release = info.get(f"{name.lower()}_version")
    if release is None:
        return unknown("server", "+info")
    least = OLDEST[name.lower()]
    numbers = tuple(int(part) for part in release.split(".")[:2] if part.isdecimal())
    if numbers < least:
        change = "upgrade: Redis 6.2 or Valkey 7.2 is needed"
        return Finding(FAIL, "server", f"{name} {release} is too old", change)
    return Finding(OK, "server", f"{name} {release}")


def health(probe: Probe, info: Facts) -> Iterator[Finding]:
    """Check what can keep the server from answering."""
    yield _clients(probe, info)
    yield _stalls(probe, info)


def _clients(probe: Probe, info: Facts) -> Finding:
    used = number(info, "connected_clients")
    limit = number(info, "maxclients") or number({"n": probe.setting("maxclients")}, "n")
    if not limit:
        return unknown("clients", "+info +config|get")
    found = f"{used} of {limit} connections used"
    refused = number(info, "rejected_connections")
    change = "raise maxclients, or find clients that leave connections open (CLIENT LIST)"
    if refused:
        return Finding(WARN, "clients", f"{found}; {refused} refused since the start", change)
    if used > _NEARLY * limit:
        return Finding(WARN, "clients", found, change)
    return Finding(OK, "clients", found)


def _stalls(probe: Probe, info: Facts) -> Finding:
    """Check what blocks all clients: long scripts, and forks of a large server."""
    limit = probe.setting("lua-time-limit")
    fork = number(info, "latest_fork_usec")
    if limit.isdecimal() and not 0 < int(limit) <= _SILENT_MS:
        shown = "never" if limit == "0" else f"after {int(limit) / 1000:g} s"
        found = f"a script that runs too long is reported {shown} (lua-time-limit {limit})"
        change = "CONFIG SET lua-time-limit 5000: before that limit the server answers no client"
        return Finding(WARN, "stalls", found, change)
    if fork > _FORK_MICROS:
        found = f"its last snapshot blocked all clients for {fork / 1e6:.1f} s (fork)"
        change = "use a separate server for locks: a small server forks at once"
        return Finding(WARN, "stalls", found, change)
    if not limit:
        return unknown("stalls", "+config|get")
    return Finding(OK, "stalls", f"a script that runs too long is reported after {int(limit)} ms")
