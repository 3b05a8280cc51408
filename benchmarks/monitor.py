"""Which commands clients send, by MONITOR: it tells them from those that scripts call.

``INFO commandstats`` counts both alike. Watching costs the server, so nothing is timed meanwhile.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from wire import Address, Line, dial, pack

_LINE = re.compile(rb'^\+[\d.]+ \[\d+ (\S+)[^\]]*\] "([^"]+)"')
# The benchmark's own questions, and what a connection says when it is opened.
OWN = frozenset(
    {"config", "info", "monitor", "echo", "keys"}
    | {"hello", "auth", "select", "client", "script", "subscribe"}
)
_END = "benchmark:end"


@dataclass
class Seen:
    """Commands by name: ``sent`` by clients, ``nested`` in scripts."""

    sent: Counter[str] = field(default_factory=Counter)
    nested: Counter[str] = field(default_factory=Counter)

    def count(self, line: bytes) -> None:
        match = _LINE.match(line)
        if match is None:
            return
        name = match[2].decode().lower().partition("|")[0]
        if name not in OWN:
            (self.nested if match[1].startswith(b"lua") else self.sent)[name] += 1


@contextmanager
def monitored(address: Address) -> Iterator[Seen]:
    """Count every command of the block; complete when the block has ended."""
    seen = Seen()
    line = dial(address)
    line.sendall(pack("MONITOR"))
    stream = line.makefile("rb")
    stream.readline()  # +OK: from here on nothing is missed

    def read() -> None:
        end = f'"{_END}"'.encode()
        for told in stream:
            if end in told:
                return
            seen.count(told)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        with Line(address) as other:
            other.command("ECHO", _END)
        reader.join()
        stream.close()
        line.close()
