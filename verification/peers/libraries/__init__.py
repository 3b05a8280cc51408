"""One file per library: how its users use it.

Rules of these files:

- Documented use only, with the library's defaults, but for what `Use` asks for.
- `acquire` gives True or False as the library told it, or raises what the library raised.
- `says` is what the library says *without asking the server*: True or False; None when it has no
  word on it. `asks` is what its own call says that asks the server.
- How the clients are made is taken from `benchmarks/peers` wherever it is the default use there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

SHARE_OF_TTL = 1 / 3  # after which a user who extends by hand does so


class Use(NamedTuple):
    """How a lock is used. ``ttl`` None: the library's default; ``timeout`` None: a single try."""

    ttl: float | None = 60
    timeout: float | None = None
    renew: bool = True


class Lock:
    """One lock as one user has it; the methods of an asyncio library give awaitables."""

    # How it is kept beyond its ttl: "itself" (the library renews), "extend" (a call), or neither.
    renews: ClassVar[str] = ""

    def __init__(self, library: Any, name: str, use: Use, told: Callable[[], None]) -> None:
        self.library = library
        self.name = name
        self.use = use
        self.told = told  # to be called when the library tells by itself that the lock is lost
        self.make()

    def make(self) -> None:
        """Make the library's object."""

    def acquire(self) -> Any:
        raise NotImplementedError

    def release(self) -> Any:
        raise NotImplementedError

    def extend(self) -> Any:
        """Extend by the ttl; False, or an error, says that it was not ours any more."""
        raise NotImplementedError

    def says(self) -> bool | None:
        return None

    def asks(self) -> Any:
        return None


def tries(seconds: float | None) -> int:
    """Return how many tries last about that long, for libraries that count tries.

    They pause 0.1 to 0.3 s between two, and make three by default.
    """
    return 3 if seconds is None else max(3, int(seconds / 0.2))
