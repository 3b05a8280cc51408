"""Wait until one of several sockets can be read: ``select.poll``, or its like on Windows."""

from __future__ import annotations

import select
from typing import Any, Final, Protocol

POLLIN: Final[int] = getattr(select, "POLLIN", 1)


class Poller(Protocol):
    """What is used of ``select.poll``."""

    def register(self, sock: Any, events: int, /) -> None:
        """Watch a socket, or the number of its descriptor."""

    def unregister(self, sock: Any, /) -> None:
        """Watch it no longer."""

    def poll(self, milliseconds: float, /) -> list[tuple[int, int]]:
        """Return the numbers of those that can be read, once there is one or the time is up."""


class SelectPoller:
    """Implements ``Poller`` where the system has no ``poll``; it watches sockets only."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()

    def register(self, sock: Any, _events: int = POLLIN, /) -> None:
        """See ``Poller``."""
        self._numbers.add(_number(sock))

    def unregister(self, sock: Any, /) -> None:
        """See ``Poller``."""
        self._numbers.remove(_number(sock))

    def poll(self, milliseconds: float, /) -> list[tuple[int, int]]:
        """See ``Poller``."""
        ready, _, _ = select.select(self._numbers, (), (), milliseconds / 1000)
        return [(number, POLLIN) for number in ready]


def _number(sock: Any) -> int:
    return sock if isinstance(sock, int) else int(sock.fileno())


def poller() -> Poller:
    """Return a new poller; ``select.poll`` is looked up each time, as gevent may replace it."""
    return select.poll() if hasattr(select, "poll") else SelectPoller()
