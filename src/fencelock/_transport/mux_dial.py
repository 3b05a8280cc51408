"""Open a multiplexed connection: by ourselves for plain addresses, through the client otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from fencelock._core.port import Broken
from fencelock._transport.address import GREETING, Address
from fencelock._transport.dial import check_version, refused
from fencelock._transport.mux import Mux, Pushed
from fencelock._transport.source import Bridged, Cloned, Direct, One, silence
from fencelock.clock import now

Make = Callable[[asyncio.AbstractEventLoop, Pushed, float], Mux]


def _plain(loop: asyncio.AbstractEventLoop, pushed: Pushed, stall: float) -> Mux:
    return Mux(loop, pushed, stall=stall)


async def dial(
    source: One, pushed: Pushed, until: float, *, stall: float, make: Make = _plain
) -> Mux:
    """Return a connection that is greeted and ready; Broken or a ServerError when there is none."""
    loop = asyncio.get_running_loop()
    mux = make(loop, pushed, stall)
    try:
        async with asyncio.timeout(max(0.001, until - now())):
            if isinstance(source, Direct):
                await _direct(source, mux, until)
            elif isinstance(source, Bridged):
                await _bridged(source, mux, until)
            else:
                await _adopted(source, mux, until)
    except TimeoutError as error:
        mux.close()
        raise Broken(silence(source), sent=False) from error
    except BaseException:
        mux.close()
        raise
    return mux


async def _direct(source: Direct, mux: Mux, until: float) -> None:
    address = await _located(source, mux.loop, until)
    try:
        if address.path:
            await mux.loop.create_unix_connection(lambda: mux, address.path)
        else:
            await mux.loop.create_connection(lambda: mux, address.host, address.port)
    except BlockingIOError as error:  # a full queue of a Unix socket: not now
        raise Broken(f"{address}: no connection now", sent=False) from error
    except OSError as error:
        raise refused(address, error) from error
    await _greet(mux, address.handshake(), str(address), until)


async def _greet(
    mux: Mux, handshake: Sequence[tuple[bytes, ...]], where: str, until: float
) -> None:
    """Shake hands; the first command is HELLO."""
    try:
        for number, command in enumerate(handshake):
            reply = await mux.command(command, until)
            if number == 0:
                check_version(reply)
    except Broken as broken:
        raise Broken(f"{where}: {broken}", sent=False) from broken.__cause__


async def _located(source: Direct, loop: asyncio.AbstractEventLoop, until: float) -> Address:
    """Find the address; off the loop when finding it may start a server."""
    if source.label == "the embedded server":
        return await loop.run_in_executor(None, source.locate, until)
    return source.locate(until)


async def _bridged(source: Bridged, mux: Mux, until: float) -> None:
    from fencelock._transport import bridge  # noqa: PLC0415 - seldom needed

    await bridge.adopt(source, mux)
    await _greet(mux, [GREETING], source.label, until)


async def _adopted(source: Cloned, mux: Mux, until: float) -> None:
    """Let the client's class connect and authenticate, then take its transport over."""
    from fencelock._transport import cloned  # noqa: PLC0415 - only for clients that need it

    theirs: Any = source.connection_class(**cloned.private_settings(source, until))
    cloned.quiet(theirs)
    try:
        await theirs.connect()
        transport = theirs._writer.transport
    except Exception as error:
        raise cloned.failure(source, error) from error
    # Ours from here on. The writer must live as long as the transport: its end would close it.
    mux.keepsake = theirs._writer
    theirs._reader = theirs._writer = None
    transport.set_protocol(mux)
    mux.connection_made(transport)
    transport.resume_reading()
    await _greet(mux, [GREETING], source.label, until)
