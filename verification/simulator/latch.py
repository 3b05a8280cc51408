"""What simulated flows wait for until another one opens it, and the clock that they go by."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from verification.simulator.network import State, Task
from verification.simulator.port import SimulatedPort


class SimulatedLatch:
    """Implements ``_topology.io.Latch``."""

    def __init__(self, port: SimulatedPort) -> None:
        self._port = port
        self._waiting: list[Task] = []
        self.is_open = False

    def open(self) -> None:
        """Let all flows pass that wait, now and later."""
        self.is_open = True
        for task in self._waiting:
            if not task.done and task.state is not None:
                task.ready = ("value", None)

    async def wait_until(self, until: float) -> bool:
        """Wait until it opens, or until the instant; return True if it is open."""
        task = self._port.world.running
        if not self.is_open and task is not None and until > self._port.now():
            self._waiting.append(task)
            try:
                await self._port.suspend(State("latch", self._port.client.world_us(until)))
            finally:
                self._waiting.remove(task)
        return self.is_open


class SimulatedIo:
    """What ``_topology.io.Io`` is to one simulated process, whatever it connects to."""

    def __init__(self, port: SimulatedPort) -> None:
        self._port = port

    def now(self) -> float:
        """Return the process's monotonic clock."""
        return self._port.now()

    def mutex(self) -> AbstractContextManager[Any]:
        """Guard nothing: between two awaits a flow is alone here."""
        return self._port.mutex

    def latch(self) -> SimulatedLatch:
        """Return a new latch."""
        return SimulatedLatch(self._port)
