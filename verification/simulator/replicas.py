"""Simulated replicas: they acknowledge when a request for it is served, or not in time.

A failover lets a server take over that has what was acknowledged last, and nothing else: the worst
that may happen to what was written since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencelock._core.seat import Seat
from fencelock._core.types import NoReply
from fencelock._io.replicas_blocking import refused
from fencelock.errors import ServerError
from verification.simulator.network import Link
from verification.simulator.server import ACKNOWLEDGE, Request

if TYPE_CHECKING:
    from verification.simulator.port import SimulatedPort

# An answer may come this much later than the count was asked for.
ANSWER_US = 25_000
# Another connection takes its time, in which another server may take over.
DIAL_SECONDS = 0.001


class SimulatedReplicas:
    """Implements ``_core.wire.Replicas`` for one simulated process, as both real ports do.

    ``careless`` does not ask whether the connection for it leads to the server that granted: a
    fault to be found.
    """

    wanted = 1

    def __init__(
        self, port: SimulatedPort, *, timeout: float = 1.0, careless: bool = False
    ) -> None:
        self.timeout = timeout
        self.careless = careless
        self._port = port
        self._apart: Link | None = None

    async def acknowledge(self, waiter: Seat, until: float) -> int:
        """Ask on the waiter's connection, or on one for all tasks of the process."""
        if until <= self._port.now():
            return 0
        link = await self._link(waiter)
        if link.generation != waiter.origin.generation and not self.careless:
            raise NoReply("another server answers by now", sent=True)
        try:
            asked = Request(ACKNOWLEDGE, (), (waiter.id,))
            count: int = await self._port.ask_on(link, asked, until + ANSWER_US / 1e6)
        except ServerError as error:
            raise refused(error) from error
        except NoReply as broken:
            if broken.undo_connection is None:
                raise
            return 0
        return count

    async def _link(self, waiter: Seat) -> Link:
        if not self._port.shared:
            if not isinstance(waiter.connection, Link) or not waiter.connection.sound:
                raise NoReply("the waiter's connection is gone", sent=False)
            return waiter.connection
        if self._apart is None or not self._apart.sound:
            await self._port.sleep(self._port.now() + DIAL_SECONDS)
            self._apart = self._port.dial()
            self._apart.apart = True
        return self._apart
