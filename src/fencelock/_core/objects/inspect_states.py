"""Show events, latches and barriers to an operator, and break a barrier on request."""

from __future__ import annotations

from typing import NamedTuple

from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import RESERVED, ConditionKeys, LockKeys, SignalKeys
from fencelock._core.lock.inspect import _matches, scan
from fencelock._core.objects.barrier import BarrierSpec, change
from fencelock._core.port import Port
from fencelock._core.retry import ask, command
from fencelock.scripts import SIGNAL_SHOW

KINDS = frozenset({"event", "latch", "barrier"})


class StateInfo(NamedTuple):
    """An event, latch or barrier at one moment, as the server saw it."""

    name: str
    kind: str
    state: str  # set, clear; open, closed; filling, broken
    left: int  # what is left of a latch's count; how many parties have arrived at a barrier
    of: int  # a latch's count; a barrier's parties
    why: str  # why a barrier is broken
    waiting: int  # connections with waiters
    remaining: float  # seconds until it is forgotten, if no client uses it

    @property
    def doing(self) -> str:
        """Return the state in words, for people."""
        if self.kind == "latch":
            return f"{self.state}, {self.left} of {self.of} left"
        if self.kind == "barrier":
            return f"broken: {self.why}" if self.why else f"{self.left} of {self.of} have come"
        return self.state


@describes_errors
async def show_state(port: Port, keys: SignalKeys) -> StateInfo | None:
    """Return the state of an event, latch or barrier; None when the name has none."""
    until = port.now() + port.server_timeout
    kind, is_open, count, of, why, waiting, pttl = await ask(
        port, SIGNAL_SHOW, keys.watch, (), until
    )
    told = kind.decode(errors="replace")
    if told not in KINDS:
        return None
    words = {"event": ("clear", "set"), "latch": ("closed", "open")}.get(told, ("filling",) * 2)
    state = "broken" if why else words[is_open]
    return StateInfo(keys.name, told, state, count, of, why.decode(), waiting, pttl / 1000)


async def states(port: Port, prefix: str, pattern: str = "*") -> list[StateInfo]:
    """Return all events, latches and barriers whose names match, sorted."""
    keys = await scan(port, prefix, b"TYPE", b"hash")
    found = {key[len(prefix.encode()) :].decode(errors="replace") for key in keys}
    chosen = sorted(
        name
        for name in found
        if name and not name.encode().endswith(RESERVED) and _matches(name, pattern)
    )
    infos = [await show_state(port, SignalKeys(prefix, name)) for name in chosen]
    return [info for info in infos if info is not None]


async def parked(port: Port, keys: LockKeys) -> int:
    """Return how many waiters all conditions of a lock have."""
    number: int = await command(port, (b"ZCARD", ConditionKeys(keys).condition), keys.lock)
    return number


async def break_barrier(port: Port, info: StateInfo, keys: SignalKeys) -> None:
    """Abort a barrier: it breaks for waiting parties, and for all that arrive before a reset."""
    spec = BarrierSpec(keys, info.of, info.remaining, server_timeout=port.server_timeout)
    await change(port, spec, b"abort")
