"""Several locks at once, for asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fencelock._core.lock.hold import Hold
from fencelock._core.objects.multi import acquire_all, release_all
from fencelock._handles.body import Body
from fencelock._handles.multi import MultiHolds
from fencelock._io.tasks import run_release
from fencelock.aio.caller import (
    by_caller,
    caller,
    task_now,
)
from fencelock.aio.lease import AsyncMultiLease
from fencelock.aio.lock import AsyncHandle


class AsyncMultiLock(AsyncHandle):
    """Several locks that are taken and given back together; ``AsyncClient.multi`` makes it.

    If all are plain locks, free and without waiters, one command takes them. Otherwise it waits in
    line for one after the other, in the order of their keys, and keeps those that it has: so two
    of them never wait for each other.

    Parts may also be sides of reader/writer locks and permits of semaphores. Acquiring again in
    the task that holds them waits. Many tasks may use one handle. Any task may release. A
    plain ``AsyncLock`` of one of the names is excluded, and excludes.
    """

    __slots__ = ()

    _holds: MultiHolds

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the locks, without the prefix, in the order they were given."""
        return self._holds.names

    @property
    def lease(self) -> AsyncMultiLease | None:
        """Return this task's lease of this handle, else the newest of any task, else None."""
        hold = self._holds.lease_for(task_now())
        return None if hold is None else hold.joint

    @by_caller
    async def release(self) -> None:
        """Release all that this task holds by this handle, or else the newest of any task.

        Hands each lock to the next in line, all in one command. Cancelled, it is still carried
        out, in the background.

        Raises:
            NotHeld: they are not held through this handle.
            LeaseLost: one of the leases had ended before; the others are given back.
            OutcomeUnknown, ServerUnreachable: no answer came; the release is repeated in the
                background, and the leases end by their ttl at the latest.
        """
        port, task = self._port(), caller()
        await run_release(release_all(port, partial(self._holds.take, task)), self, port)

    async def locked(self) -> bool:
        """Ask the server whether any of them would have to be waited for now; one command each.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        port = self._port()
        busy = [await part.is_busy(port) for part in self._holds.parts.values()]
        return any(busy)

    async def owned(self) -> bool:
        """Ask the server whether this handle holds all of the locks now; one command each.

        Sends nothing, and is False, when this handle holds nothing.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        port = self._port()
        owned = [await part.is_owned(port) for part in self._holds.parts.values()]
        return all(owned)

    async def _enter(self, body: Body, seconds: float | None) -> Hold | None:
        """Acquire all; the frame that called undoes it after an interrupt."""
        holds, port, unit = self._holds, self._port(), body.unit
        asked = body.attempt = list[Hold]()

        def attempts() -> Sequence[Hold]:
            asked[:] = [part.attempt(port, unit) for part in holds.parts.values()]
            return asked[:]

        granted = await acquire_all(port, attempts, seconds)
        body.held = None if granted is None else holds.join(granted)
        return body.held  # type: ignore[no-any-return]  # see above

    async def __aenter__(self) -> AsyncMultiLease:  # type: ignore[override]  # of all of them
        """Acquire all within the handle's ``timeout`` and return the lease.

        Raises:
            AcquireTimeout: not all were granted in time; and all that ``acquire`` raises.
        """
        body = Body(caller(), id(self))
        try:
            hold = self._begun(body, await self._enter(body, self._holds.options.timeout))
            return hold.joint  # type: ignore[no-any-return]  # it was made with our type
        except BaseException:
            self._undo(body)
            raise

    async def _end_body(self, body: Body | None) -> None:
        """Release all that a body held."""
        holds, port, task = self._holds, self._port(), caller()
        take = partial(holds.take_of_body, body) if body else partial(holds.take, task)
        await run_release(release_all(port, take), self, port)

    def __repr__(self) -> str:
        """Show names and state, as this process knows them."""
        return self._holds.show(self)
