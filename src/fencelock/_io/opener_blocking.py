"""Open blocking connections to a source."""

from __future__ import annotations

from collections.abc import Callable

from fencelock._io.connect_blocking import Pushed
from fencelock._io.connection_blocking import Connection
from fencelock._io.open_blocking import open_one
from fencelock._io.sources.kinds import One, Source
from fencelock._io.threads import run_inline

Opener = Callable[[float, Pushed], Connection]


def opener(source: Source) -> Opener:
    """Return ``open(deadline, pushed)`` for this source.

    Raises NoReply or a ServerError when there is no connection.
    """
    if isinstance(source, One):
        return lambda until, pushed: open_one(source, until, pushed)
    # Only for Sentinels:
    from fencelock._io.dial_blocking import BlockingDialer  # noqa: PLC0415 - as said above
    from fencelock._topology.master_monitor import MasterMonitor  # noqa: PLC0415 - as said above

    monitor = MasterMonitor(source, BlockingDialer())
    return lambda until, pushed: run_inline(monitor.connect(until, pushed))
