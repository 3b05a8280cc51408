"""Wait until one of several sockets can be used: ``select.poll``, or its like on Windows."""

from __future__ import annotations

import select

from fencelock._runtime.typed import Any, Final, Protocol

POLLIN: Final[int] = getattr(select, "POLLIN", 1)
POLLOUT: Final[int] = getattr(select, "POLLOUT", 4)  # it is connected, or cannot be


class Poller(Protocol):
    """What is used of ``select.poll``."""

    def register(self, sock: Any, events: int, /) -> None:
        """Watch a socket, or the number of its descriptor."""

    def unregister(self, sock: Any, /) -> None:
        """Watch it no longer."""

    def poll(self, milliseconds: float, /) -> list[tuple[int, int]]:
        """Return the numbers of those that can be used, once there is one or the time is up."""


class SelectPoller:
    """Implements ``Poller`` where the system has no ``poll``; it watches sockets only."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def register(self, sock: Any, events: int = POLLIN, /) -> None:
        """See ``Poller``."""
        self._numbers[_number(sock)] = events

    def unregister(self, sock: Any, /) -> None:
        """See ``Poller``."""
        del self._numbers[_number(sock)]

    def poll(self, milliseconds: float, /) -> list[tuple[int, int]]:
        """See ``Poller``; where there is no poll, what cannot be connected is an exception."""
        reads = [number for number, events in self._numbers.items() if events == POLLIN]
        others = [number for number, events in self._numbers.items() if events != POLLIN]
        ready = select.select(reads, others, others, milliseconds / 1000)
        return [(number, self._numbers[number]) for number in {*ready[0], *ready[1], *ready[2]}]


def _number(sock: Any) -> int:
    return sock if isinstance(sock, int) else int(sock.fileno())


def poller() -> Poller:
    """Return a new poller; ``select.poll`` is looked up each time, as gevent may replace it."""
    return select.poll() if hasattr(select, "poll") else SelectPoller()
