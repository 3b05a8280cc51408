"""Barrier, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fencelock import errors, options
from fencelock._core.objects.barrier import change, wait_at
from fencelock._core.objects.state_wait import StateSpec
from fencelock._io.port_asyncio import AioPort
from fencelock._runtime.hints import made_by_clients
from fencelock._runtime.process import ProcessBound
from fencelock.aio.caller import awaited


class BarrierBroken(errors.BarrierBroken, asyncio.BrokenBarrierError):
    """As ``fencelock.BarrierBroken``, and as ``asyncio``'s."""


class AsyncBarrier(ProcessBound):
    """A barrier, as ``asyncio.Barrier`` but for all processes of all hosts.

    Made by ``AsyncClient.barrier``. When all parties have arrived, all go on, and the
    barrier is ready for the next round. It breaks for all waiting parties when one of them times
    out or dies, or when a client aborts it, and stays broken until ``reset``. A party that dies is
    found after 4 to 6 s, one that is frozen after 7 to 9 s. A barrier that is not used for
    ``idle_ttl`` is forgotten: the next use starts afresh. It has no owner and no lease.

    An outage that is shorter than ``server_timeout`` breaks nothing: afterwards each party has the
    full time again to prove that it lives. One that alone cannot reach the server counts as dead
    after 7 s. While an action runs, all parties have arrived: one that gives up then still counts,
    and one that arrives then waits for the next round. An action may take up to a day; a process
    that is frozen in its action delays the others until their timeouts.
    """

    __slots__ = ("__weakref__", "_action", "_port", "_seen", "_spec", "_timeout")

    @made_by_clients
    def __init__(
        self,
        port: Callable[[], AioPort],
        spec: StateSpec,
        action: Callable[[], object] | None,
        timeout: float | None,
    ) -> None:
        self._port = port
        self._spec = spec
        self._action = action
        self._timeout = timeout
        self._seen = (0, "")

    @property
    def name(self) -> str:
        """Return the barrier's name, without the prefix."""
        return self._spec.keys.name

    @property
    def parties(self) -> int:
        """Return how many parties must arrive for all to go on."""
        return self._spec.of

    @property
    def n_waiting(self) -> Awaitable[int]:
        """Ask the server how many parties wait at the barrier now; to be awaited.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return self._count()

    @property
    def broken(self) -> Awaitable[bool]:
        """Ask the server whether the barrier is broken now; to be awaited.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return self._is_broken()

    async def wait(self, timeout: options.Seconds | None = None) -> int:
        """Wait until all parties have arrived; return this party's index, from 0 to parties - 1.

        Each party has an index of its own; the first to arrive has 0. Waits for ``timeout``
        seconds, by default the barrier's; on a timeout the barrier breaks for all. The last party
        runs the barrier's ``action`` before all go on; if it raises, the barrier breaks, and
        ``wait`` raises that exception there. The action counts in the others' timeouts. A lost
        message costs up to 2 s.

        A cancellation gives the place back and breaks nothing.

        Raises:
            BarrierBroken: it is broken, or breaks; it is an ``asyncio.BrokenBarrierError``, too.
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses; the name holds something else, or a barrier with
                another number of parties, of which some have arrived.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        span = self._timeout if timeout is None else options.wait_timeout(timeout)
        act = self._action
        action = None if act is None else lambda: awaited(act())
        try:
            index = await wait_at(self._port(), self._spec, span, BarrierBroken, action)
        except BarrierBroken as broken:
            self._seen = (0, broken.reason)
            raise
        self._seen = (0, "")
        return index

    async def reset(self) -> None:
        """Make the barrier ready again; it breaks for the parties that wait now.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``.
            ServerError: as ``wait``.
        """
        await self._changed(b"reset")

    async def abort(self) -> None:
        """Break the barrier for waiting parties, and for all that arrive before a ``reset``.

        Raises:
            ServerError, OutcomeUnknown: as ``reset``.
        """
        await self._changed(b"abort")

    async def delete(self) -> None:
        """Delete the barrier, as if it had never been used; it breaks for the parties that wait.

        The next use starts afresh, with any number of parties, and not broken.

        Raises:
            ServerError, OutcomeUnknown: as ``reset``, but for another number of parties.
        """
        await self._changed(b"delete")

    async def _count(self) -> int:
        return (await self._changed(b"look"))[0]

    async def _is_broken(self) -> bool:
        return bool((await self._changed(b"look"))[1])

    async def _changed(self, what: bytes) -> tuple[int, str]:
        self._seen = await change(self._port(), self._spec, what)
        return self._seen

    async def __aenter__(self) -> int:
        """Wait for the others and return the index; see ``wait``."""
        return await self.wait()

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the barrier was passed at the beginning."""

    def __repr__(self) -> str:
        """Show the name and the state as this handle saw it last."""
        waiting, why = self._seen
        kind, state = type(self).__name__, "broken" if why else f"waiters={waiting}/{self.parties}"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: {state}>"
