"""A real server whose clock can be set while it runs; needs a C compiler."""

from typing import Self

from tests import servers
from verification.runs.shims import Clock, library


class ShiftedServer(servers.Server):
    """A server with a clock of its own."""

    def start(self) -> Self:
        """Start it with what sets its clock preloaded."""
        self._clock, self._offset_us = Clock(self.directory), 0
        self._environment |= {"LD_PRELOAD": str(library("clock")), **self._clock.environment}
        return super().start()

    def shift(self, offset_us: int) -> None:
        """Set its clock ahead by so much."""
        self._clock.jump((offset_us - self._offset_us) / 1e6)
        self._offset_us = offset_us
