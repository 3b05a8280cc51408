"""Servers that speak Redis's protocol and are neither Redis nor Valkey: what is known of each.

This table is the one place for it. ``fencelock doctor`` reads it, and docs/reference/servers.md
shows it. A row says only what the named documents say, or what was run.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fencelock.cli.doctor.report import Answer, ok, warn
from fencelock.cli.doctor.server import Server

PAGE: Final = "docs/reference/servers.md"
_ELASTICACHE: Final = "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg"


class Relative(NamedTuple):
    """A server of another maker; ``sign`` is a fact of INFO or, with a dot, a part of its address.

    ``tested`` is the version that the conformance tests pass on. ``parts``, if an address has
    them in common with another row, are what tells it apart.
    """

    name: str
    sign: str
    known: str
    unknown: str
    sources: tuple[str, ...]
    tested: str = ""
    parts: str = ""

    @property
    def shown_sign(self) -> str:
        """Return how it is recognised, in words."""
        if "." not in self.sign:
            return f"`{self.sign}` in INFO"
        inside = f", with `{self.parts}`" if self.parts else ""
        return f"an address that ends in `{self.sign}`{inside}"

    @property
    def open_questions(self) -> str:
        """Return what is not known; empty when it is tested."""
        return "" if self.tested else f"No test has run on it. {self.unknown}".rstrip()

    @property
    def shown(self) -> str:
        """Return what is known, with what was tested."""
        return f"{self.known} The tests pass on {self.tested}." if self.tested else self.known

    def matches(self, info: dict[str, str], hosts: list[str]) -> bool:
        """Return True if a server with these facts at one of these addresses is one."""
        if "." not in self.sign:
            return self.sign in info
        return any(host.endswith(self.sign) and self.parts in host for host in hosts)


# The first that matches counts.
RELATIVES: Final = (
    Relative(
        "Redict",
        "redict_version",
        "A fork of Redis 7.2.4. It also serves as the embedded server.",
        "",
        ("https://redict.io/",),
        tested="7.3.6",
    ),
    Relative(
        "KeyDB",
        "mvcc_depth",
        "A fork of Redis 6 that promises its protocol and the atomicity of its scripts. With"
        " `active-replica` two servers take writes, so that both grant one lock: do not use that."
        " A script writes although `min-replicas-to-write` is not met.",
        "",
        (
            "https://docs.keydb.dev/docs/compatibility",
            "https://github.com/Snapchat/KeyDB/blob/main/README.md",
            "https://github.com/Snapchat/KeyDB/blob/main/src/scripting.cpp",
        ),
    ),
    Relative(
        "Dragonfly",
        "dragonfly_version",
        "It lists all commands that fencelock sends, but for WAIT, which `replicas` needs. Scripts"
        " run in Lua 5.4, and may use declared keys only, as fencelock's do.",
        "Whether all of fencelock's scripts run there is not known: they are written for Lua 5.1.",
        (
            "https://www.dragonflydb.io/docs/command-reference/compatibility",
            "https://www.dragonflydb.io/docs/managing-dragonfly/scripting",
        ),
    ),
    Relative(
        "Kvrocks",
        "kvrocks_version",
        "RESP3, which fencelock needs for notifications, is off unless `resp3-enabled yes` is set."
        " A script may not call PUBSUB, so in a Cluster a waiter that is gone is found by its"
        " missing heartbeat only.",
        "",
        (
            "https://github.com/apache/kvrocks/blob/unstable/kvrocks.conf",
            "https://github.com/apache/kvrocks/blob/unstable/src/commands/cmd_pubsub.cc",
        ),
    ),
    Relative(
        "Garnet",
        "garnet_version",
        "Scripts are off unless it is started with `--lua`. They lock their keys only with"
        " `--lua-transaction-mode`: without it two clients may be granted one lock. It has no WAIT"
        " and no PUBSUB SHARDNUMSUB.",
        "",
        (
            "https://microsoft.github.io/garnet/docs/getting-started/configuration",
            "https://microsoft.github.io/garnet/docs/commands/api-compatibility",
        ),
    ),
    Relative(
        "ElastiCache Serverless",
        ".cache.amazonaws.com",
        "It is always a Cluster, of one node that has all slots: use a `rediss+cluster://` URL. Its"
        " settings cannot be changed or read. A script is stopped after 5 s.",
        "Whether it evicts locks when it is full, and what a failover loses, is not known.",
        (f"{_ELASTICACHE}/RedisConfiguration.html",),
        parts=".serverless.",
    ),
    Relative(
        "ElastiCache",
        ".cache.amazonaws.com",
        "Valkey or Redis, without CONFIG, DEBUG and SAVE: `doctor` cannot read its settings.",
        "What a failover loses is not known.",
        (f"{_ELASTICACHE}/ClientConfig.RestrictedCommands.html",),
    ),
    Relative(
        "MemoryDB",
        ".amazonaws.com",
        "A write is in a log in several zones before it is answered, and a failover keeps it."
        " It has no CONFIG: `doctor` cannot read its settings.",
        "",
        (
            "https://docs.aws.amazon.com/memorydb/latest/devguide/consistency.html",
            "https://docs.aws.amazon.com/memorydb/latest/devguide/restrictedcommands.html",
        ),
        parts=".memorydb.",
    ),
    Relative(
        "Upstash",
        ".upstash.io",
        "It lists the commands that fencelock sends. It replicates asynchronously, and after"
        " a partition the last writer wins: a lock may have two holders, so let resources check"
        " the fencing token. Eviction is off unless it is switched on.",
        "Whether a script is atomic while a leader is elected is not known.",
        (
            "https://upstash.com/docs/redis/overall/compatibility",
            "https://upstash.com/docs/redis/features/consistency",
            "https://upstash.com/docs/redis/features/eviction",
        ),
    ),
)


def relative_of(info: dict[str, str], url: str) -> Relative | None:
    """Return the row of a server, by what INFO says of it or by its address."""
    places = urlsplit(url).netloc.rpartition("@")[2].split(",")
    hosts = [place.partition(":")[0].lower() for place in places]
    return next((each for each in RELATIVES if each.matches(info, hosts)), None)


def kind(server: Server) -> Answer:
    """Ask whether it is of another maker, and say what is known of those."""
    found = relative_of(server.info, server.session.url())
    if found is None:
        return []
    version = server.info.get(found.sign, "") if found.sign.endswith("_version") else ""
    text = f"{found.name} {version}".rstrip() + f": {found.shown}"
    if found.tested:
        return ok(text)
    return warn(text, f"{found.open_questions} {PAGE} names the sources")
