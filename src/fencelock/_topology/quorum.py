"""The ports of a quorum's nodes, and how a node identifies itself.

Rules of this file:

- A node identifies itself each time a connection to it is opened: its run id is new after a
  restart.
- A node that refuses connections is not retried: there are others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fencelock._core.engine import Engine
from fencelock._core.quorum.engine import Identified
from fencelock._core.quorum.membership import FIRST_FACTOR, run_id_of
from fencelock._core.round_trips import RoundTrips
from fencelock._core.types import NoReply
from fencelock._runtime.clock import now


class NodePortRules(Engine):
    """What the real ports of a quorum's nodes have in common."""

    is_node = True
    most: float  # how long a connection may take to open
    given: Any

    @property
    def server_timeout(self) -> float:
        """Return how long it may take to answer, if it is the first node."""
        return self.trips.within(self.given.node_timeout * FIRST_FACTOR)

    @server_timeout.setter
    def server_timeout(self, seconds: float) -> None:
        self.most = seconds

    def _keep_pace(self, trips: RoundTrips) -> None:
        """Leave ``most`` as it is: ``server_timeout`` follows by itself."""


async def identify(
    connection: Any,
    command: Callable[[Sequence[bytes], float], Awaitable[Any]],
    until: float,
    saw: Identified,
) -> None:
    """Ask a node for its identity, on a connection that has just been opened.

    Without an answer the connection is closed: the actual request was not sent on it.
    """
    asked_at = now()
    try:
        info = await command((b"INFO", b"server"), until)
    except BaseException as error:
        connection.close()
        if isinstance(error, NoReply):
            raise NoReply(str(error), sent=False) from error.__cause__
        raise
    saw(run_id_of(info), asked_at)
