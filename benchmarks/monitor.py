"""Which commands clients send, by MONITOR: it tells them from those that scripts call.

``INFO commandstats`` counts both alike. Watching costs the server, so nothing is timed meanwhile.
"""

from __future__ import annotations

import ast
import re
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from wire import Address, Line, dial, pack

KEPT = 16
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LINE = re.compile(rb'^\+[\d.]+ \[\d+ (\S+)[^\]]*\] "([^"]+)"')
# The benchmark's own questions, and what a connection says when it is opened.
OWN = frozenset(
    {"config", "info", "monitor", "echo", "keys"}
    | {"hello", "auth", "select", "client", "script", "subscribe"}
)
# Peers whose commands are mostly such.
UNCOUNTED = {"portalocker": "a pair opens and closes a connection, and these are not counted"}
_END = "benchmark:end"


@dataclass
class Seen:
    """Commands by name: ``sent`` by clients, ``nested`` in scripts."""

    sent: Counter[str] = field(default_factory=Counter)
    nested: Counter[str] = field(default_factory=Counter)
    _latest: deque[bytes] = field(default_factory=lambda: deque(maxlen=KEPT))  # of those sent

    def latest(self) -> list[bytes]:
        """Return the latest commands that clients sent, packed again."""
        return [
            pack(*(ast.literal_eval(f"b{word.decode()}") for word in _WORD.findall(line)))
            for line in self._latest
        ]

    def count(self, line: bytes) -> None:
        match = _LINE.match(line)
        if match is None:
            return
        name = match[2].decode().lower().partition("|")[0]
        if name in OWN:
            return
        if match[1].startswith(b"lua"):
            self.nested[name] += 1
        else:
            self.sent[name] += 1
            self._latest.append(line)


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
