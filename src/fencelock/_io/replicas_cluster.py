"""The asyncio port for a Cluster whose replicas must acknowledge; see replicas_asyncio.py."""

from __future__ import annotations

from fencelock._io.cluster_asyncio import AsyncioClusterPort
from fencelock._io.replicas_asyncio import PortWithRounds


class AcknowledgedClusterPort(PortWithRounds, AsyncioClusterPort):
    """An asyncio port for a Cluster whose grants replicas acknowledge."""
