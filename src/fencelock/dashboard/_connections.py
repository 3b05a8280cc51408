"""The connections of the dashboard: a slow client, or one with many, keeps no other out.

Rules:

- From its first byte on, a request has a time until its answer was taken. A connection that brings
  none has as long. So neither heads nor bodies nor readers can be slow for ever.
- There is a bound for all connections, and one for those of an address. Beyond it, the newest is
  let in and another one is closed: of the address that has most, the one that waited longest, and
  one whose answer is being made last of all.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 30.0
CONNECTIONS_MAX: Final = 200
ADDRESS_CONNECTIONS_MAX: Final = 100


class BoundedConnection(H11Protocol):
    """One connection, which is closed when it is too slow, or when others need its place."""

    _began = 0.0  # when it was opened, or its last request began
    _answered = False  # no request has begun since the last answer
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Let it in, in place of another one if there are too many."""
        super().connection_made(transport)
        self._begin()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take what was sent; the first byte after an answer begins a request."""
        if self._answered and not self.transport.get_write_buffer_size():
            self._begin()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Note that an answer was made, before the next request in line is looked at."""
        self._answered = True
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._answered, self._began = False, time.monotonic()
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._end_if_slow)

    def _end_if_slow(self) -> None:
        if not self._answered or self.transport.get_write_buffer_size():
            self.transport.abort()

    def _make_room(self) -> None:
        everybody = [each for each in self.connections if isinstance(each, BoundedConnection)]
        count = Counter(each.address for each in everybody)
        if count[self.address] > ADDRESS_CONNECTIONS_MAX:
            most = count[self.address]
        elif len(everybody) > CONNECTIONS_MAX:
            most = max(count.values())
        else:
            return
        crowd = [each for each in everybody if count[each.address] >= most]
        min(crowd, key=lambda each: each.waiting).give_way()

    @property
    def address(self) -> str:
        """Return the address that it comes from."""
        return self.client[0] if self.client else ""

    @property
    def waiting(self) -> tuple[bool, float]:
        """Return whether its answer is being made, and since when it waits."""
        cycle = self.cycle
        asked = cycle is not None and not cycle.more_body and not cycle.response_complete
        return asked, self._began

    def give_way(self) -> None:
        """Close it at once; it counts no more."""
        self.connections.discard(self)
        self.transport.abort()
