"""A real server whose clock can be set while it runs; needs a C compiler."""

from tests import servers
from verification.runs.shims import Clock, library


class ShiftedServer(servers.Server):
    """A server with a clock of its own."""

    def __init__(self, binary: servers.ServerBinary | None = None) -> None:
        super().__init__(binary)
        self._clock, self._offset_us = Clock(self.directory), 0
        self._environment |= {"LD_PRELOAD": str(library("clock")), **self._clock.environment}

    def shift(self, offset_us: int) -> None:
        """Set its clock ahead by so much."""
        self._clock.jump((offset_us - self._offset_us) / 1e6)
        self._offset_us = offset_us

    def close(self) -> None:
        """End it, and give its clock back."""
        super().close()
        self._clock.close()
