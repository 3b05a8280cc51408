"""Event and Latch, for asyncio: the names and results of the blocking ones, with ``await``."""

from __future__ import annotations

from collections.abc import Callable

from fencelock import options
from fencelock._core.signals import Gate, change_event, change_latch, passes
from fencelock._ports.aio import AioPort
from fencelock.hints import made_by_clients
from fencelock.process import Rooted


class AsyncEvent(Rooted):
    """An event, as ``asyncio.Event`` but for all processes of all hosts.

    Made by ``AsyncClient.event``. It is clear until somebody sets it. An event that nobody uses for
    ``idle_ttl`` is forgotten: it is clear again. Waiting is use. It has no owner and no lease.
    """

    __slots__ = ("__weakref__", "_answered", "_gate", "_port", "_seen")

    @made_by_clients
    def __init__(self, port: Callable[[], AioPort], gate: Gate) -> None:
        self._port = port
        self._gate = gate
        self._seen = False
        self._answered: list[bytes] = []  # requests that the server may forget

    @property
    def name(self) -> str:
        """Return the event's name, without the prefix."""
        return self._gate.name

    async def is_set(self) -> bool:
        """Ask the server whether the event is set now.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        return await self._change(b"look")

    async def set(self) -> None:
        """Set the event: all who wait go on, and nobody waits until it is cleared.

        Costs one command, and one message for each connection behind which somebody waits.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``.
            ServerError: the server refuses, or the name holds something else.
        """
        await self._change(b"set")

    async def clear(self) -> None:
        """Clear the event: who waits from now on waits for the next ``set``.

        Raises:
            ServerError, OutcomeUnknown: as ``set``.
        """
        await self._change(b"clear")

    async def delete(self) -> None:
        """Delete the event, as if nobody had used it: it is clear. Who waits goes on waiting.

        Raises:
            ServerError, OutcomeUnknown: as ``set``.
        """
        await self._change(b"delete")

    async def wait(self, timeout: options.Seconds | None = None) -> bool:
        """Wait until the event is set; True at once when it is, False when it was not in time.

        Waits for ever, or for ``timeout`` seconds; 0 looks once. Whoever waits while it is set
        returns True, even if it is cleared at once. A lost message costs up to 2 s. Returns by
        the timeout plus 100 ms whatever the server does, and leaves nothing behind.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses, or the name holds something else.
            TypeError, ValueError, OverflowError: a timeout that cannot be.
        """
        patience = options.patience_of_wait(timeout)
        self._seen = await passes(self._port(), self._gate, patience)
        return self._seen

    async def _change(self, what: bytes) -> bool:
        self._seen = await change_event(self._port(), self._gate, what, self._answered)
        return self._seen

    def __repr__(self) -> str:
        """Show the name and the state as this handle saw it last."""
        state = "set" if self._seen else "unset"
        return f"<fencelock.AsyncEvent at {id(self):#x} name={self.name!r}: {state}>"


class AsyncLatch(Rooted):
    """A latch: it opens when it was counted down to 0, and stays open.

    Made by ``AsyncClient.latch``. The first to use the name, also by waiting, sets its count: a
    latch that nobody counted down yet is closed. One that nobody uses for ``idle_ttl`` is
    forgotten, open or not: the next use begins anew. Waiting is use. No owner, no lease.
    """

    __slots__ = ("__weakref__", "_answered", "_gate", "_port", "_seen")

    @made_by_clients
    def __init__(self, port: Callable[[], AioPort], gate: Gate) -> None:
        self._port = port
        self._gate = gate
        self._seen = gate.of
        self._answered: list[bytes] = []  # requests that the server may forget

    @property
    def name(self) -> str:
        """Return the latch's name, without the prefix."""
        return self._gate.name

    async def count(self) -> int:
        """Ask the server how much is left to count down; 0 when the latch is open.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        return await self._change(b"look")

    async def count_down(self, n: int = 1) -> int:
        """Count down by ``n``, to 0 at most; return how much is left. At 0 all who wait go on.

        A request that is repeated because its answer was lost counts once.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``; when it is
                unknown, it may have been counted.
            ServerError: the server refuses; the name holds something else, or a latch with
                another count.
            TypeError, ValueError: ``n`` is not a whole number of at least 1.
        """
        return await self._change(b"count_down", options.count("n", n))

    async def reset(self) -> None:
        """Close the latch again, with its full count. Who waits goes on waiting.

        Raises:
            ServerError, OutcomeUnknown: as ``count_down``.
        """
        await self._change(b"reset")

    async def delete(self) -> None:
        """Delete the latch: the next use begins anew, with any count. Who waits goes on waiting.

        Raises:
            ServerError, OutcomeUnknown: as ``count_down``, but for another count.
        """
        await self._change(b"delete")

    async def wait(self, timeout: options.Seconds | None = None) -> bool:
        """Wait until the latch is open; True at once when it is, False when it was not in time.

        Waits for ever, or for ``timeout`` seconds; 0 looks once. A lost message costs up to 2 s.
        Returns by the timeout plus 100 ms whatever the server does, and leaves nothing behind.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: as ``count_down``.
            TypeError, ValueError, OverflowError: a timeout that cannot be.
        """
        patience = options.patience_of_wait(timeout)
        opened = await passes(self._port(), self._gate, patience)
        self._seen = 0 if opened else self._seen
        return opened

    async def _change(self, what: bytes, by: int = 0) -> int:
        port, answered = self._port(), self._answered
        self._seen = await change_latch(port, self._gate, what, by, answered)
        return self._seen

    def __repr__(self) -> str:
        """Show the name and the count as this handle saw it last."""
        left = f"{self._seen}/{self._gate.of}"
        return f"<fencelock.AsyncLatch at {id(self):#x} name={self.name!r}: left={left}>"
