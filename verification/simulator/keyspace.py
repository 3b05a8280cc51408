"""An in-memory Redis keyspace with its own clock in microseconds.

Rules of this file:

- Values are immutable (bytes, sorted tuple, frozenset), so a whole keyspace can be frozen, compared
  and brought back in the time of a dict copy: an explorer does that between all of its schedules.
- Time passes only by ``advance`` and ``step_clock``. A key ends as in Redis: when the clock, in
  milliseconds, has passed its instant.
- What a command does with them is in ``commands``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# bytes: string; tuple of (score, member), sorted: sorted set; frozenset of bytes: set; Hash.
Value = Any
# A frozen keyspace: hashable, equal when the keys, values and expiry instants are.
Frozen = frozenset[tuple[bytes, tuple[Value, int]]]
Publish = Callable[[bytes, bytes], int]
Listeners = Callable[[bytes], int]

NEVER = -1


class CommandError(Exception):
    """The server's error reply; ``code`` is its first word."""

    @property
    def code(self) -> str:
        """Return the first word of the message: ``WRONGTYPE``, ``ERR``, …."""
        return str(self).partition(" ")[0]


class Status(bytes):
    """A status reply (``+OK``), which Lua sees as a table."""

    __slots__ = ()


def nobody(_channel: bytes, _message: bytes = b"") -> int:
    """Reach no one: the default of a keyspace without clients."""
    return 0


class Values:
    """Keys, values, expiry and a clock: what commands work on.

    ``publish`` is called for each PUBLISH and returns how many clients heard it; ``listeners``
    returns how many listen to a channel. ``node`` is its id, as a node of a Cluster.
    """

    node: bytes = b""

    def __init__(
        self,
        now_us: int = 1_700_000_000_000_000,
        publish: Publish = nobody,
        listeners: Listeners = nobody,
    ) -> None:
        self.now_us: int = now_us
        self.publish = publish
        self.listeners = listeners
        self._entries: dict[bytes, tuple[Value, int]] = {}

    # -- time -----------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Return the clock as expiry sees it."""
        return self.now_us // 1000

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_us += round(seconds * 1_000_000)

    def next_expiry_us(self) -> int | None:
        """Return the instant at which the next key will be gone, or None when none ends."""
        ends = [end for _, end in self._entries.values() if end != NEVER]
        return (min(ends) + 1) * 1000 if ends else None

    # -- values ---------------------------------------------------------------------------------

    def value(self, key: bytes, kind: type = object) -> Value | None:
        """Return the value of a living key, or None; WRONGTYPE when it is of another kind."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[1] != NEVER and self.now_us // 1000 > entry[1]:
            del self._entries[key]
            return None
        if not isinstance(entry[0], kind):
            message = "WRONGTYPE Operation against a key holding the wrong kind of value"
            raise CommandError(message)
        return entry[0]

    def expires_ms(self, key: bytes) -> int:
        """Return the instant until which a living key stays, or NEVER."""
        return self._entries[key][1]

    def store(self, key: bytes, value: Value, expires_ms: int = NEVER) -> None:
        """Set a key; an empty collection is no key."""
        if value or isinstance(value, bytes):
            self._entries[key] = (value, expires_ms)
        else:
            self._entries.pop(key, None)

    def update(self, key: bytes, value: Value) -> None:
        """Change the value of a key and leave its expiry as it is."""
        entry = self._entries.get(key)
        self.store(key, value, NEVER if entry is None else entry[1])

    def remove(self, key: bytes) -> bool:
        """Delete a key; True when it was there."""
        return self.value(key) is not None and self._entries.pop(key) is not None

    def keys(self) -> list[bytes]:
        """Return the living keys."""
        return [key for key in list(self._entries) if self.value(key) is not None]

    # -- states ---------------------------------------------------------------------------------

    def freeze(self) -> Frozen:
        """Return the state without the clock; expired keys are not part of it."""
        self.keys()
        return frozenset(self._entries.items())

    def restore(self, frozen: Frozen) -> None:
        """Bring back a state; the clock stays."""
        self._entries = dict(frozen)

    def clear(self) -> None:
        """Remove everything; the clock stays."""
        self._entries.clear()
