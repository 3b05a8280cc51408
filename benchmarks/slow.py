"""Ours made slower on purpose: every operation first has the server busy for a while.

One extra command with a loop in Lua delays the caller, costs the server time and counts as a
command, so that it moves the ratio of every case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from contestants import TASKS, Pair
from floors_asyncio import Shared, connect
from wire import Address, Line, pack

BUSY = "local stop = os.clock() + ARGV[1] / 1e6 while os.clock() < stop do end"

Call = Callable[[], Any]


def slowed(pair: Pair, face: str, address: Address, microseconds: int) -> Pair:
    """Return the pair with that delay before each operation."""
    if not microseconds:
        return pair
    wrap = _task if face == TASKS else _thread
    return wrap(pair, address, ("EVAL", BUSY, 0, microseconds))


def _thread(pair: Pair, address: Address, command: tuple[object, ...]) -> Pair:
    line = Line(address)

    def after_delay(call: Call) -> Call:
        def run() -> Any:
            line.command(*command)
            return call()

        return run

    return Pair(after_delay(pair.acquire), after_delay(pair.release))


_lines: dict[asyncio.AbstractEventLoop, asyncio.Task[Shared]] = {}


def _task(pair: Pair, address: Address, command: tuple[object, ...]) -> Pair:
    packed = pack(*command)

    def after_delay(call: Call) -> Callable[[], Awaitable[Any]]:
        async def run() -> Any:
            loop = asyncio.get_running_loop()
            if loop not in _lines:
                _lines[loop] = loop.create_task(connect(Shared, address))
            line = await _lines[loop]
            await line.ask(packed)
            return await call()

        return run

    return Pair(after_delay(pair.acquire), after_delay(pair.release))
