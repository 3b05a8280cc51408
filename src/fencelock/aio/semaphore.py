"""Semaphore and BoundedSemaphore, for asyncio."""

from __future__ import annotations

from typing import Never

from fencelock import options
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.semaphore_rwlock import release_permits, set_limit
from fencelock._handles.body import Body
from fencelock._handles.semaphore import SemaphoreHolds
from fencelock._io.tasks import run_release
from fencelock._runtime.hints import refuse_options
from fencelock.aio.caller import by_caller, caller
from fencelock.aio.entered import AsyncEntered
from fencelock.aio.lock import AsyncLockBase
from fencelock.errors import ServerUnsuitable


class AsyncSemaphore(AsyncLockBase):
    """A semaphore, as ``asyncio.Semaphore`` but for all processes of all hosts.

    Made by ``AsyncClient.semaphore``. At most ``limit`` permits are out at any time. Each
    acquisition is a lease of its own: renewed while it is held, and back by its ttl when its holder
    dies. Waiting is in line: a request for many permits is not overtaken by smaller ones. Many
    tasks may use one handle, and any task may release. Unlike ``asyncio``'s, a release cannot
    raise the value above the limit: permits have owners.
    """

    __slots__ = ()

    _holds: SemaphoreHolds

    @property
    def limit(self) -> int:
        """Return how many permits there are, as this handle asks for it."""
        return self._holds.limit

    @by_caller
    async def acquire(
        self,
        blocking: bool = True,
        timeout: options.Seconds | None = None,
        *,
        permits: int = 1,
        **other: Never,
    ) -> bool:
        """Acquire ``permits`` at once; True when granted, False when not granted in time.

        Waits in line for ever, or for ``timeout`` seconds; ``blocking=False`` tries once, and
        overtakes no waiter. Returns by the timeout plus 100 ms whatever the server does. When
        it ends without permits, by timeout, error or cancellation, it leaves no place in line and
        no grant behind.

        Raises:
            ValueError: more permits than the limit, or a timeout without blocking.
            ServerUnsuitable: the semaphore is in use with another limit, or the name is another
                kind of object.
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses (permission, memory, read-only).
            OverflowError: a timeout that cannot be, as in ``threading``.
        """
        if other:
            refuse_options(self, other, "blocking", "timeout", "permits")
        seconds = options.semaphore_timeout(timeout, blocking=blocking)
        body = Body(caller())
        try:
            hold = await self.__take__(body, seconds, permits)
            return hold is not None
        except BaseException:
            self._undo(body)
            raise

    @by_caller
    async def release(self, n: int = 1) -> None:
        """Release ``n`` permits: this task's, the newest first, then those of any other.

        All of them or, when this handle has fewer, none. Hands them to the next in line. Ends
        within ``server_timeout`` for each acquisition that they belong to. Cancelled, it is still
        carried out, in the background.

        Raises:
            NotHeld: this handle has fewer permits; of a bounded semaphore OverReleased, which is
                a ValueError too.
            LeaseLost: a lease had ended before; the other permits are released all the same.
            OutcomeUnknown, ServerUnreachable: no answer came; the release is repeated in the
                background, and the leases end by their ttl at the latest.
        """
        port, task = self._port(), caller()
        flow = release_permits(port, lambda taken: self._holds.take_permits(task, n, taken))
        await run_release(flow, self, port)

    async def locked(self) -> bool:
        """Ask the server whether a permit would have to be waited for now.

        Raises:
            ServerUnsuitable: the name is in use as another kind of object.
            ServerError: the server cannot tell, or no answer came.
        """
        return await self._holds.is_busy(self._port())

    async def owned(self) -> bool:
        """Ask the server whether this handle holds a permit now.

        Sends nothing, and is False, when this handle holds nothing.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return await self._holds.is_owned(self._port())

    async def available(self) -> int:
        """Ask the server how many permits are free now; others may be faster.

        Raises:
            ServerUnsuitable: the name is in use as another kind of object.
            ServerError: the server cannot tell, or no answer came.
        """
        now = await self._holds.state(self._port())
        return max(0, now.limit - now.taken)

    async def set_limit(self, limit: int) -> None:
        """Change the limit for all clients, and grant to every waiter that now fits.

        Every client that may acquire may do so. Raising it lets waiters in at once. Lowering it
        takes no permits away: no waiter is granted until enough are released, and a waiter that
        wants more than the new limit gets ServerUnsuitable. Handles that name the old limit still
        work. It is in force while the semaphore is in use and ten minutes after.

        Raises:
            ValueError: a limit below 1.
            ServerUnsuitable: the name is another kind of object.
            ServerError, OutcomeUnknown: the server refuses, or no answer came; call it again.
        """
        wanted = options.count("limit", limit)
        port = self._port()
        agreed = await set_limit(port, self._holds.terms(port), wanted)
        self._holds.changed_limit(wanted, agreed)

    async def _end_body(self, body: Body | None) -> None:
        """Give back the permit of a body."""
        if body is None:
            await self.release()
            return
        port, holds = self._port(), self._holds
        flow = release_permits(port, lambda taken: holds.take_permits_of_body(body, taken))
        await run_release(flow, self, port)

    def permits(self, n: int) -> AsyncPermitsContext:
        """Return a context manager for ``n`` permits, acquired at once and as one lease.

        It may be entered again and again, by any task. It sends nothing before that.

        Raises:
            ValueError: fewer than 1.
        """
        return AsyncPermitsContext(self, options.count("n", n))

    async def __take__(self, body: Body, seconds: float | None, permits: int) -> Hold | None:
        """Acquire permits; the frame that called undoes it after an interrupt."""
        holds, port, unit = self._holds, self._port(), body.unit
        attempt = body.attempt = holds.attempt(port, unit, permits)
        try:
            body.held = await port.acquire(attempt, seconds)
        except ServerUnsuitable as refused:
            holds.refuse_too_many(permits, refused)
            raise
        return body.held  # type: ignore[no-any-return]  # acquire() returned it


class AsyncPermitsContext(AsyncEntered):
    """What an ``async with`` acquires several permits by; made by ``AsyncSemaphore.permits``."""

    __slots__ = ("_permits", "_semaphore")

    def __init__(self, semaphore: AsyncSemaphore, permits: int) -> None:
        self._semaphore = semaphore
        self._port, self._holds = semaphore.__shared__()
        self._permits = permits

    async def _enter(self, body: Body, seconds: float | None) -> Hold | None:
        """Acquire the permits."""
        return await self._semaphore.__take__(body, seconds, self._permits)

    async def _end_body(self, body: Body | None) -> None:
        """Release the permits that the body still holds."""
        if body is None:
            raise self._holds.not_held()
        port, holds = self._port(), self._holds
        flow = release_permits(port, lambda taken: holds.take_rest(body, taken))
        await run_release(flow, self._semaphore, port)


class AsyncBoundedSemaphore(AsyncSemaphore):
    """A semaphore whose release of more than is held is a ValueError, as in ``asyncio``.

    Made by ``AsyncClient.bounded_semaphore``; otherwise as ``AsyncSemaphore``, and the same object
    on the server.
    """

    __slots__ = ()
