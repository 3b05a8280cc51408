"""Random bits, taken from the system in blocks: a call for each id would cost more than the id."""

from __future__ import annotations

import os

IDS_PER_BLOCK = 128
_BITS = 1 << 32


class RandomIds:
    """Ids and jitter of one port. A child process must have its own: else it repeats our ids."""

    __slots__ = ("_ids", "_jitter")

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._jitter = int.from_bytes(os.urandom(4), "big")

    def new_id(self) -> bytes:
        """Return 128 random bits in hexadecimal: no shell takes that for an option."""
        try:
            return self._ids.pop()  # one step, so threads need no lock
        except IndexError:
            block = os.urandom(16 * IDS_PER_BLOCK).hex().encode()
            fresh = [block[at : at + 32] for at in range(0, len(block), 32)]
            mine = fresh.pop()
            self._ids.extend(fresh)
            return mine

    def jitter(self) -> float:
        """Return a number in [0, 1) that differs from client to client; not for secrets."""
        self._jitter = state = (self._jitter * 1664525 + 1013904223) % _BITS  # Numerical Recipes
        return state / _BITS
