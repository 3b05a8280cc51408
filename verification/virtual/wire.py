"""The network and the server of virtual time: bytes in, bytes out, late, lost or never.

Rules of this file:

- A connection delivers in order, each way, or breaks; the server runs what reached it.
- Who is cut off hears nothing, and nobody is told: its peers find out by their own means.
- What a fault does is decided by one seeded random generator, in the order of the events.
- It reads and writes the protocol by itself: an error in the package's parser must not hide here.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter, deque
from typing import Any

from fencelock import scripts
from fencelock._io.wire import INCOMPLETE, reader
from verification.simulator.commands import Keyspace
from verification.simulator.keyspace import CommandError, Status
from verification.simulator.scripting import Program
from verification.virtual.loop import VirtualLoop

EPOCH_US = 1_700_000_000_000_000
TRIP_SECONDS = 0.0002


class Server:
    """The keyspace, the shipping scripts and who listens; its clock runs at its own rate."""

    def __init__(self, loop: VirtualLoop, dice: random.Random) -> None:
        self.loop = loop
        self.dice = dice
        self.space = Keyspace(publish=self._publish, listeners=self._listeners)
        self.programs = {each.digest: Program(each.source, each.name) for each in scripts.ALL}
        self.names = {each.digest: each.name for each in scripts.ALL}
        self.known: set[bytes] = set()
        self.dead: set[str] = set()  # hosts whose process was killed
        self.wires: dict[Wire, set[bytes]] = {}
        self.runs = True
        self.frozen_until = 0.0
        self.rate = 1.0
        self._set_at, self._set_us = loop.time(), float(EPOCH_US)
        self.served: Counter[str] = Counter()
        self.trace = hashlib.sha256()

    # -- life -----------------------------------------------------------------------------------

    def connect(self, protocol: Any, host: str, _port: int) -> asyncio.Transport:
        """Take a connection, or refuse it while the server is down; ``host`` is the client's."""
        if not self.runs or host in self.dead:
            raise ConnectionRefusedError("the server is down")
        wire = Wire(self, protocol, host)
        self.wires[wire] = set()
        protocol.connection_made(wire)
        return wire

    def stop(self) -> None:
        """Go down: every connection ends; the keys stay, as with a log that is synced."""
        self.runs = False
        self.known.clear()
        for wire in list(self.wires):
            wire.drop()

    def start(self) -> None:
        """Come up again."""
        self.runs = True

    def freeze(self, seconds: float) -> None:
        """Run nothing for a while; requests and new connections wait."""
        self.frozen_until = max(self.frozen_until, self.loop.time() + seconds)

    def drift(self, rate: float) -> None:
        """Let the server's clock run at another rate from now on."""
        self._set_us = self.now_us()
        self._set_at, self.rate = self.loop.time(), rate

    def now_us(self) -> float:
        """Return the server's clock."""
        return self._set_us + (self.loop.time() - self._set_at) * 1e6 * self.rate

    # -- requests -------------------------------------------------------------------------------

    def run(self, wire: Wire, words: list[bytes]) -> bytes:
        """Run one request; return its reply as bytes."""
        self.space.now_us = int(self.now_us())
        self.trace.update(b"%.6f %b" % (self.loop.time(), b" ".join(words)))
        try:
            reply = encoded(self._reply(wire, words))
        except CommandError as error:
            reply = b"-%b\r\n" % str(error).encode()
        self.trace.update(reply)
        return reply

    def _reply(self, wire: Wire, words: list[bytes]) -> Any:
        name = words[0].upper()
        self.served[name.decode()] += 1
        if name == b"HELLO":
            return {b"server": b"valkey", b"version": b"9.1.2"}
        if name == b"SUBSCRIBE":
            self.wires[wire].add(words[1])
            return Pushed([b"subscribe", words[1], len(self.wires[wire])])
        if name in {b"EVALSHA", b"EVAL"}:
            return self._script(name, words)
        return self.space.command(*words)

    def _script(self, name: bytes, words: list[bytes]) -> Any:
        digest = words[1]
        if name == b"EVAL":
            digest = hashlib.sha1(words[1], usedforsecurity=False).hexdigest().encode()
            self.known.add(digest)
        elif digest not in self.known:
            raise CommandError("NOSCRIPT No matching script.")
        self.served[self.names[digest]] += 1
        keys = int(words[2])
        return self.programs[digest].run(self.space, words[3 : 3 + keys], words[3 + keys :])

    def _listeners(self, channel: bytes) -> int:
        return sum(channel in heard for heard in self.wires.values())

    def _publish(self, channel: bytes, message: bytes) -> int:
        hearing = [wire for wire, heard in self.wires.items() if channel in heard]
        for wire in hearing:
            wire.push(encoded(Pushed([b"message", channel, message])))
        return len(hearing)


class Wire(asyncio.Transport):
    """One connection: the client's transport, and the server's end of it."""

    def __init__(self, server: Server, protocol: Any, host: str) -> None:
        super().__init__()
        self.server = server
        self.host = host
        self.loop = server.loop
        self.protocol = protocol
        self.reader = reader()
        self.cut = False  # nothing passes any more, and nobody is told
        self.closing = False
        self._up_at = self._down_at = 0.0
        # Timers of one instant run in any order: each takes the oldest that is under way.
        self._up: deque[bytes] = deque()
        self._down: deque[bytes] = deque()

    # -- the client's end -----------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Send bytes to the server."""
        if not (self.cut or self.closing):
            self._up_at = self._instant(self._up_at)
            self._up.append(bytes(data))
            self.loop.call_at(self._up_at, self._arrived)

    def is_closing(self) -> bool:
        """Return True if the client has closed it."""
        return self.closing

    def abort(self) -> None:
        """Close at once."""
        self.close()

    def close(self) -> None:
        """Close; what is under way to the server still reaches it."""
        if not self.closing:
            self.closing = True
            self.loop.call_at(self._instant(self._up_at), self._gone)
            self.loop.call_soon(self.protocol.connection_lost, None)

    # -- what happens to it ---------------------------------------------------------------------

    def drop(self) -> None:
        """Break: the client is told, what was under way is lost."""
        self._gone()
        if not self.closing:
            self.closing = self.cut = True
            self.loop.call_soon(self.protocol.connection_lost, ConnectionResetError("reset"))

    def delay(self, seconds: float) -> None:
        """Hold up both directions."""
        later = self.loop.time() + seconds
        self._up_at, self._down_at = max(self._up_at, later), max(self._down_at, later)

    # -- the server's end -----------------------------------------------------------------------

    def push(self, message: bytes) -> None:
        """Send bytes to the client."""
        self._down_at = self._instant(self._down_at)
        self._down.append(message)
        self.loop.call_at(self._down_at, self._heard)

    def _arrived(self) -> None:
        if self not in self.server.wires or self.cut:
            return
        if self.loop.time() < self.server.frozen_until:
            self.loop.call_at(self.server.frozen_until, self._arrived)
            return
        self.reader.feed(self._up.popleft())
        while (words := self.reader.gets()) is not INCOMPLETE:
            self.push(self.server.run(self, words))

    def _heard(self) -> None:
        data = self._down.popleft()
        if self.closing or self.cut:
            return
        buffer = self.protocol.get_buffer(-1)
        for at in range(0, len(data), len(buffer)):
            part = data[at : at + len(buffer)]
            buffer[: len(part)] = part
            self.protocol.buffer_updated(len(part))

    def _gone(self) -> None:
        self.server.wires.pop(self, None)

    def _instant(self, before: float) -> float:
        """Return when what is sent now arrives: never before what was sent earlier."""
        trip = TRIP_SECONDS * (0.5 + self.server.dice.random())
        return max(before, self.loop.time() + trip)


class Pushed(list[Any]):
    """A push message."""


def encoded(value: Any) -> bytes:
    """Return a reply in RESP3."""
    match value:
        case None:
            return b"_\r\n"
        case bool() | int():
            return b":%d\r\n" % value
        case Status():
            return b"+%b\r\n" % bytes(value)
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
        case dict():
            parts = [encoded(part) for pair in value.items() for part in pair]
            return b"%%%d\r\n" % len(value) + b"".join(parts)
        case Pushed():
            return b">%d\r\n" % len(value) + b"".join(map(encoded, value))
        case list() | tuple():
            return b"*%d\r\n" % len(value) + b"".join(map(encoded, value))
    raise TypeError(f"no reply: {value!r}")
