"""Look at events, latches and barriers from outside, and break a barrier by an operator's word."""

from __future__ import annotations

from typing import NamedTuple

from fencelock._core.ask import ask, command
from fencelock._core.barrier import Crossing, change
from fencelock._core.inspect import _matches, scan
from fencelock._core.keys import RESERVED, ConditionKeys, LockKeys, SignalKeys
from fencelock._core.port import Port
from fencelock._core.trouble import tells_trouble
from fencelock.scripts import SIGNAL_SHOW

KINDS = frozenset({"event", "latch", "barrier"})


class SignalInfo(NamedTuple):
    """An event, latch or barrier at one moment, as the server saw it."""

    name: str
    kind: str
    state: str  # set, clear; open, closed; filling, broken
    left: int  # what is left of a latch's count; how many have come to a barrier
    of: int  # a latch's count; a barrier's parties
    why: str  # why a barrier is broken
    waiting: int  # connections behind which somebody waits
    remaining: float  # seconds until it is forgotten, if nobody uses it

    @property
    def doing(self) -> str:
        """Return the state for people."""
        if self.kind == "latch":
            return f"{self.state}, {self.left} of {self.of} left"
        if self.kind == "barrier":
            return f"broken: {self.why}" if self.why else f"{self.left} of {self.of} have come"
        return self.state


@tells_trouble
async def show_signal(port: Port, keys: SignalKeys) -> SignalInfo | None:
    """Return what the server knows of one; None when the name holds none."""
    until = port.now() + port.patience
    kind, is_open, count, of, why, waiting, pttl = await ask(
        port, SIGNAL_SHOW, keys.watch, (), until
    )
    told = kind.decode(errors="replace")
    if told not in KINDS:
        return None
    words = {"event": ("clear", "set"), "latch": ("closed", "open")}.get(told, ("filling",) * 2)
    state = "broken" if why else words[is_open]
    return SignalInfo(keys.name, told, state, count, of, why.decode(), waiting, pttl / 1000)


async def signals(port: Port, prefix: str, pattern: str = "*") -> list[SignalInfo]:
    """Return all events, latches and barriers whose names match, sorted."""
    keys = await scan(port, prefix, b"TYPE", b"hash")
    found = {key[len(prefix.encode()) :].decode(errors="replace") for key in keys}
    chosen = sorted(
        name
        for name in found
        if name and not name.encode().endswith(RESERVED) and _matches(name, pattern)
    )
    infos = [await show_signal(port, SignalKeys(prefix, name)) for name in chosen]
    return [info for info in infos if info is not None]


async def parked(port: Port, keys: LockKeys) -> int:
    """Return how many wait to be notified, on all conditions of a lock."""
    number: int = await command(port, (b"ZCARD", ConditionKeys(keys).condition), keys.lock)
    return number


async def break_barrier(port: Port, info: SignalInfo, keys: SignalKeys) -> None:
    """Abort a barrier: it breaks for those who wait, and for all who come until a reset."""
    crossing = Crossing(keys, info.of, info.remaining, server_timeout=port.patience)
    await change(port, crossing, b"abort")
