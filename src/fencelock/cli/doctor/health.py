"""Whether fencelock supports the server, and whether it answers all clients in time."""

from __future__ import annotations

from typing import Final

from fencelock._io.connect import OLDEST
from fencelock.cli.doctor.report import Answer, fail, ok, unknown, warn
from fencelock.cli.doctor.server import Server, number

_NEARLY: Final = 0.8
_SILENT_MS: Final = 5000
_FORK_MICROS: Final = 200_000
_CONNECTIONS: Final = "raise maxclients, or find clients that leave connections open (CLIENT LIST)"

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
    name = "Valkey" if "valkey_version" in server.info else "Redis"
    release = server.info.get(f"{name.lower()}_version")
    if release is None:
        server.command(b"TIME")  # a server that refuses every command raises here
        return unknown("+info")
    numbers = tuple(int(part) for part in release.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST[name.lower()]:
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
