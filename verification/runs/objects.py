"""What the clients use: some objects of each kind, with the limits that the checks know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from verification.runs.checker import WRITER

SHARED_LIMIT = 3
SHORT, USUAL, LONG = TTLS = (0.4, 0.8, 1.5)


@dataclass(frozen=True)
class Kind:
    """One way to hold one object."""

    on: str
    make: str  # the factory of a face
    limit: int
    often: int  # how often it is chosen, among all
    writes: bool = False  # it guards what the fenced register stands for
    tries: bool = False  # is never waited for, so that a refusal says that it is held
    weights: tuple[int, ...] = (1,)

    def handle(self, face: Any, ttl: float, *, renew: bool) -> Any:
        """Return a handle of it."""
        match self.make:
            case "rlock":
                return face.rlock(self.on, ttl=ttl, renew=renew)
            case "semaphore":
                return face.semaphore(self.on, limit=self.limit, ttl=ttl, renew=renew)
            case "read":
                return face.read(self.on, read_ttl=ttl, renew=renew)
            case "write":
                return face.write(self.on, write_ttl=ttl, renew=renew)
        return face.lock(self.on, ttl=ttl, renew=renew)

    def how(self, weight: int, timeout: float | None) -> dict[str, Any]:
        """Return what to acquire it with: within the timeout or, without one, in one try."""
        how: dict[str, Any] = {"blocking": False} if timeout is None else {"timeout": timeout}
        if self.make == "semaphore":
            how["permits"] = weight
        return how

    def release(self, handle: Any, weight: int) -> None:
        """Release all of it."""
        if self.make == "semaphore":
            handle.release(weight)
        else:
            handle.release()


KINDS = (
    Kind("a", "lock", limit=1, often=4, writes=True),
    Kind("b", "lock", limit=1, often=3, writes=True),
    Kind("tried", "lock", limit=1, often=3, writes=True, tries=True),
    Kind("shared", "semaphore", limit=SHARED_LIMIT, often=3, weights=(1, 1, 2)),
    Kind("book", "read", limit=WRITER, often=3),
    Kind("book", "write", limit=WRITER, often=2, writes=True, weights=(WRITER,)),
)
# A quorum has only locks; a reentrant one goes another way there.
QUORUM_KINDS = (
    *(kind for kind in KINDS if kind.make == "lock"),
    Kind("again", "rlock", limit=1, often=3, writes=True),
)
SHARES = {"shared", "book"}  # their state on the server is that of shares


@dataclass(frozen=True)
class Play:
    """What the clients of some servers do, and what the checks may ask of these servers."""

    kinds: tuple[Kind, ...] = KINDS
    # Leases are so many times as long, where a fault takes so many times as long.
    scale: float = 1.0
    # One place decides: who is refused met a holder.
    one_place: bool = True
    # What clients are made with, beside the address.
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def limits(self) -> dict[str, int]:
        """Return the limit of each object."""
        return {kind.on: kind.limit for kind in self.kinds}


# Some leases must outlast a failover, of two to three seconds, or none could be had twice.
# By the name that a client process is told.
PLAYS = {
    "usual": Play(),
    "quorum": Play(QUORUM_KINDS, scale=3.0, one_place=False),
    "failover": Play(scale=8.0),
    "acknowledged": Play(scale=8.0, options=(("replicas", 1),)),
    # Two servers decide while an address moves: one may refuse what the other has free.
    "moved": Play(scale=8.0, one_place=False, options=(("replicas", 1),)),
    "acknowledged by all": Play(scale=8.0, options=(("replicas", 2),)),
}
