"""All kinds of servers that a run knows, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.servers import ServerBinary
from verification.runs.cluster import Shards
from verification.runs.moving import Address
from verification.runs.quorum import FiveServers
from verification.runs.sentinel import Sentinels
from verification.runs.servers import OneServer

SERVERS: dict[str, Callable[[ServerBinary | None, int], Any]] = {
    "one": OneServer,
    "persistent": partial(OneServer, durability="always"),
    "forgetful": OneServer,
    "everysec": partial(OneServer, durability="everysec"),
    "quorum": FiveServers,
    "sentinel": Sentinels,
    "sentinel acknowledged": partial(Sentinels, acknowledged_by=1),
    "sentinel acknowledged by all": partial(Sentinels, acknowledged_by=2),
    "cluster": Shards,
    "cluster failover": partial(Shards, failover=True),
    "cluster acknowledged": partial(Shards, failover=True, acknowledged=True),
    "address": Address,
}
