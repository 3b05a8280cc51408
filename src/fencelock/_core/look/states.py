"""Show events, latches and barriers to an operator."""

from __future__ import annotations

from collections.abc import Iterable

from fencelock import options
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import RESERVED, SignalKeys
from fencelock._core.look.show import chosen_names, matches, scan
from fencelock._core.port import Port
from fencelock._core.retry import ask
from fencelock.scripts import SIGNAL_SHOW
from fencelock.status import SignalStatus

KINDS = frozenset({"event", "latch", "barrier"})


@describes_errors
async def signals(
    port: Port, prefix: str, match: str, given: Iterable[str] | None
) -> list[SignalStatus]:
    """Return the events, latches and barriers of these names, or those that match, by name."""
    chosen = chosen_names(match, given)
    if port.needed > 1:  # a quorum has none
        return []
    if chosen is None:
        pattern = options.text("match", match)
        keys = await scan(port, prefix, b"TYPE", b"hash")
        found = {key[len(prefix.encode()) :].decode(errors="replace") for key in keys}
        chosen = sorted(
            name
            for name in found
            if name and not name.encode().endswith(RESERVED) and matches(name, pattern)
        )
    shown = [await _show(port, SignalKeys(prefix, name)) for name in chosen]
    return [status for status in shown if status is not None]


@describes_errors
async def _show(port: Port, keys: SignalKeys) -> SignalStatus | None:
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
    return SignalStatus(keys.name, told, state, count, of, why.decode(), waiting, pttl / 1000)
