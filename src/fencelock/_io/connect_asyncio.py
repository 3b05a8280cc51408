"""Open a multiplexed connection: directly to a plain address, otherwise through a user's client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from fencelock._core.types import NoReply
from fencelock._io.bounded_call import Work, WorkClaim, under_way
from fencelock._io.connect import RESOLVER, Found, greet, open_socket, refused
from fencelock._io.connection_asyncio import AsyncConnection, Pushed, set_done
from fencelock._io.sources.kinds import Bridged, Cloned, Direct, One, instead_of, silence
from fencelock._io.sources.url import GREETING
from fencelock._runtime.clock import now

Make = Callable[..., AsyncConnection]
T = TypeVar("T")


async def dial(
    source: One, pushed: Pushed, until: float, *, stall: float, make: Make = AsyncConnection
) -> AsyncConnection:
    """Return a greeted connection; raises NoReply or a ServerError when there is none."""
    mux = make(asyncio.get_running_loop(), pushed, stall=stall)
    source = instead_of(source, asynchronous=True)
    try:
        async with asyncio.timeout(max(0.001, until - now())):
            if isinstance(source, Direct):
                await _direct(source, mux, until)
            elif isinstance(source, Bridged):
                from fencelock._io.sources import bridge  # noqa: PLC0415 - seldom needed

                await bridge.adopt(source, mux)
                await greet(mux.command, [GREETING], source.label, until)
            else:
                await _adopted(source, mux, until)
    except TimeoutError as error:
        mux.close()
        raise NoReply(silence(source), sent=False) from error
    except BaseException:
        mux.close()
        raise
    return mux


class AsyncioSockets:
    """Implements ``connect.Sockets`` for the tasks of a loop."""

    async def look_up(
        self, until: float, key: Hashable, function: Callable[[], list[Found]]
    ) -> list[Found]:
        """Wait for a thread that resolves the name."""
        return await _within(until, key, function, name=RESOLVER)

    async def connect(self, sock: socket.socket, where: Any, seconds: float) -> None:
        """Connect, watched by the loop."""
        sock.settimeout(0)
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(sock, where)


SOCKETS = AsyncioSockets()


async def _direct(source: Direct, mux: AsyncConnection, until: float) -> None:
    loop = mux.loop
    if source.label == "the embedded server":  # off the loop: it may have to be started
        address = await loop.run_in_executor(None, source.locate, until)
    else:
        address = source.locate(until)
    sock = await open_socket(SOCKETS, address, until)
    adopt = loop.create_unix_connection if address.path else loop.create_connection
    try:
        await adopt(lambda: mux, sock=sock)
    except OSError as error:  # it was lost meanwhile
        raise refused(address, error) from error
    await greet(mux.command, address.handshake(), str(address), until)


async def _adopted(source: Cloned, mux: AsyncConnection, until: float) -> None:
    """Let the client's class connect and authenticate, then take its transport over."""
    from fencelock._io.sources import client as cloned  # noqa: PLC0415 - only for clients that need it

    settings = cloned.private_settings(source, until)
    provider = settings.get("credential_provider")
    if provider is not None:
        settings["credential_provider"] = Credentials(provider, until)
    theirs: Any = source.connection_class(**settings)
    cloned.quiet(theirs)
    try:
        await theirs.connect()
        writer = _taken(theirs)
    except BaseException as error:
        if (left := _taken(theirs)) is not None:  # after a cancellation it stays open
            left.transport.abort()
        if isinstance(error, Exception):
            raise cloned.failure(source, error) from error
        raise
    # Ours from here on. The writer must live as long as the transport: its finalizer closes it.
    mux.keepsake, transport = writer, writer.transport
    transport.set_protocol(mux)
    mux.connection_made(transport)
    transport.resume_reading()
    await greet(mux.command, [GREETING], source.label, until)


def _taken(theirs: Any) -> Any:
    """Take the stream out of a client's connection, which would close it; no public API does that.

    None when it has none.
    """
    writer = getattr(theirs, "_writer", None)
    for name in ("_reader", "_writer"):  # slots: not in the object's ``__dict__``
        setattr(theirs, name, None)
    return writer


class Credentials:
    """A credential provider for asyncio that holds up no other task.

    redis-py calls the blocking ``get_credentials`` of those that have no method for asyncio.
    """

    def __init__(self, provider: Any, until: float) -> None:
        self._provider = provider
        self._until = until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def get_credentials_async(self) -> Any:
        """Return what the provider says; TimeoutError when it is too slow."""
        provider = self._provider
        own = getattr(type(provider), "get_credentials_async", None)
        if own is not None and own.__qualname__ != "CredentialProvider.get_credentials_async":
            return await provider.get_credentials_async()
        key = ("credentials", id(provider))
        ask = provider.get_credentials
        return await _within(self._until, key, ask, name="fencelock-credentials")


async def _within(until: float, key: Hashable, function: Callable[[], T], *, name: str) -> T:
    """Do what ``bounded_call.within`` does, for a task.

    The loop's own thread pool is not used: a loop that ends waits for all its threads.
    """
    loop = asyncio.get_running_loop()
    bell: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(set_done, bell)

    claim: WorkClaim[T] = WorkClaim(ring)
    try:
        under_way.claim(key, lambda: Work(function, None), name, claim)
        async with asyncio.timeout(max(0.001, until - now())):
            await bell
    except BaseException:
        under_way.leave(key, claim, name)
        raise
    try:
        return claim.result()
    finally:
        del claim
