"""Virtual time for asyncio: an event loop whose selector moves the clock instead of waiting.

Rules of this file:

- Nothing waits: when nothing can run, the clock jumps to the next timer.
- Nothing comes from outside: clock, random bits and network are functions of the seed, so the same
  seed gives the same run.
- ``install`` comes before the first import of fencelock, which takes its clock when it is imported.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import selectors
import socket
import sys
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

# How far behind a timer's instant the clock jumps: sums of floats may fall short of it, and a timer
# that came early would find that it is not time yet, for ever.
BEHIND = 1e-7


class Clock:
    """The only time there is, in seconds from the beginning."""

    def __init__(self) -> None:
        self.now = 1000.0

    def clock_gettime(self, _kind: int = 0) -> float:
        """Stand in for ``time.clock_gettime``."""
        return self.now


def install(clock: Clock, seed: int) -> None:
    """Give this process the clock, random bits that the seed decides, and always the same id."""
    if "fencelock" in sys.modules:
        raise RuntimeError("the clock must be there before fencelock is imported")
    time.clock_gettime = clock.clock_gettime
    os.urandom = random.Random(f"urandom {seed}").randbytes
    os.getpid = lambda: 1  # requests carry it


def number_objects(module: Any) -> None:
    """Have a module number objects as they come to it: ``id`` is an address, and never the same."""
    numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
    count = itertools.count(1)

    def number(thing: Any) -> int:
        return numbers.get(thing) or numbers.setdefault(thing, next(count))

    module.id = number


class Jumping(selectors.SelectSelector):
    """A selector that lets time pass at once. No socket is ever ready: there are none."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        """Jump to the end of the timeout."""
        if timeout is None:
            raise RuntimeError("everybody waits for what will never come")
        self.clock.now += max(0.0, timeout) + BEHIND
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; ``connect`` makes its connections."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Jumping(clock))
        self.clock = clock
        self._clock_resolution = 0.0
        self._addresses: WeakKeyDictionary[socket.socket, Any] = WeakKeyDictionary()
        self.connect: Callable[[Any, str, int], asyncio.Transport] | None = None

    def time(self) -> float:
        """Return the virtual time."""
        return self.clock.now

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Take the time that a connection takes; the socket itself goes nowhere."""
        self._addresses[sock] = address
        await asyncio.sleep(0.0002)

    async def create_connection(  # type: ignore[override]  # as much of it as a port uses
        self, factory: Callable[[], Any], *, sock: socket.socket
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to the simulated server at the address that the socket was connected to."""
        host, port = self._addresses.pop(sock)
        sock.close()
        if self.connect is None:
            raise ConnectionRefusedError("there is no server")
        protocol = factory()
        return self.connect(protocol, host, port), protocol
