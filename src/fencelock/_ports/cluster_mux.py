"""How a multiplexed connection to a node of a Cluster is asked, also after ASKING."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from fencelock._core.types import Reply
from fencelock._transport.mux import Mux
from fencelock._transport.wire import pack, with_source

ASKING = pack((b"ASKING",))


class Ask(Protocol):
    """Asks on a connection until an instant; with ``asking``, after ASKING."""

    def __call__(self, mux: Mux, until: float, *, asking: bool) -> Coroutine[Any, Any, Reply]:
        """Return the reply; ends like ``Mux.call``."""


def scripted(packed: bytes) -> Ask:
    """Return how to run a packed script call: with its source after ASKING, which counts once."""

    async def ask(mux: Mux, until: float, *, asking: bool) -> Reply:
        if not asking:
            return await mux.run(packed, until)
        ask_next(mux, until)
        return await mux.run(with_source(packed), until)

    return ask


def ask_next(mux: Mux, until: float) -> None:
    """Send ASKING; whether it arrives is seen from what goes right behind it."""
    mux.request(ASKING, until).add_done_callback(lambda answer: answer.exception())


def plain(args: Sequence[bytes | int]) -> Ask:
    """Return how to run a plain command."""

    async def ask(mux: Mux, until: float, *, asking: bool) -> Reply:
        if asking:
            ask_next(mux, until)
        return await mux.command(args, until)

    return ask
