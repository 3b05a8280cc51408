"""Lock and RLock, for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._core.lock.acquire import acquire
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.inspect import holder_of
from fencelock._core.lock.release import (
    release_for_owner,
    release_in_background,
    retire,
    take_and_release,
)
from fencelock._core.lock.renew import renew_now
from fencelock._core.lock.request import AcquireRequest
from fencelock._handles.exit_errors import raise_release_error
from fencelock._handles.lock import DropFinalizer, Holds, Settings, bound
from fencelock._io.port_asyncio import AioPort, run_release
from fencelock._runtime.hints import RENEW, Elsewhere, made_by_clients, unnamed
from fencelock._runtime.process import ProcessBound
from fencelock.aio.caller import by_caller, caller, home_of, task_now, was_stopped, watch
from fencelock.aio.lease import AsyncHold, AsyncLease
from fencelock.errors import FencelockError


@unnamed
class AsyncLockBase(ProcessBound):
    """What ``AsyncLock`` and ``AsyncRLock`` share."""

    __slots__ = ("__weakref__", "_finalizer", "_holds", "_port")

    if not TYPE_CHECKING:
        extend = Elsewhere(RENEW)
        reacquire = Elsewhere(RENEW)
        refresh = Elsewhere(RENEW)

    @made_by_clients
    def __init__(self, port: Callable[[], AioPort], keys: LockKeys, settings: Settings) -> None:
        self._port = port
        self._holds = Holds(keys, settings, AsyncHold)

    def __shared__(self) -> tuple[Callable[[], AioPort], Holds]:
        """Return its port and its holds, for what else this client makes of the handle."""
        return self._port, self._holds

    @property
    def name(self) -> str:
        """Return the lock's name, without the prefix."""
        return self._holds.keys.name

    @property
    def lease(self) -> AsyncLease | None:
        """Return this task's lease of this handle, else the newest of any task, else None."""
        return self._holds.lease_for(task_now())  # type: ignore[return-value]  # they are of this type

    async def locked(self) -> bool:
        """Ask the server whether any client holds the lock now.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        return await holder_of(self._port(), self._holds.keys) is not None

    async def owned(self) -> bool:
        """Ask the server whether this handle holds the lock now: is it me?

        Sends nothing, and is False, when this handle holds nothing.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        mine = self._holds.holder_ids()
        return bool(mine) and await holder_of(self._port(), self._holds.keys) in mine

    async def _obtain(
        self, seconds: float | None, request: AcquireRequest | None = None
    ) -> Hold | None:
        port, holds, unit = self._port(), self._holds, caller()
        if request is None:
            request = holds.request(port, unit)
        try:
            return await acquire(port, request, seconds, holds, unit)
        except BaseException:  # a signal's exception may come when the flow had ended
            for hold in holds.made_by(request):
                self._withdraw(hold)
            raise

    def _withdraw(self, hold: Hold) -> None:
        """Release a hold that never reached the caller."""
        if self._holds.remove(hold):
            port = self._port()
            retire(port, hold)
            release_in_background(port, hold)

    async def _give_back(self, *, only_own: bool = False) -> int:
        port, task = self._port(), caller()
        if port.elsewhere:
            port = home_of(self._holds.lease_for(task), port)
        flow = take_and_release(
            port, lambda taken: self._holds.take(task, taken, only_own=only_own)
        )
        return await run_release(port, self, flow) or 0

    def _entered(self, hold: Hold | None) -> AsyncLease:
        """Return the lease for a body that begins; a loss may cancel the body from here on."""
        if hold is None:
            raise self._holds.not_granted()
        self._holds.bodies.begin(hold)
        if hold.request.options.on_lost == "cancel" and hold.body is None:
            watch(hold)
        return hold  # type: ignore[return-value]  # acquire() was given its type

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Release, as ``release`` does.

        Raises:
            LeaseLost: the lease had ended before; and all that ``release`` raises. When the body
                raised, its error goes on and this one is logged.
        """
        bodies = self._holds.bodies
        held = bodies.end(caller())
        last = held is not None and not bodies.hold(held)
        stopped = last and held.body is not None and was_stopped(held, error)
        try:
            if held is None:
                await self.release()
            else:
                await self._end_body(held)
        except FencelockError as trouble:
            raise_release_error(trouble, error, f"release of {self.name!r}", stopped=stopped)

    async def _end_body(self, held: Hold) -> None:
        """Release what a body held, or leave it once."""
        holds = self._holds
        hold = holds.of_body(held)
        if hold.count > 1:
            hold.count -= 1
            hold.check()
        else:
            port = self._port()
            if port.elsewhere:
                port = home_of(hold, port)
            flow = take_and_release(port, lambda taken: holds.take_of_body(held, taken))
            await run_release(port, self, flow)

    async def release(self) -> int | None:
        """Release; see the subclasses."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show name, state and fence, as this process knows them."""
        return self._holds.show(self)

    def __del__(self) -> None:
        """Stop renewing holds that no code can release any more."""
        holds = getattr(self, "_holds", None)  # none after an interrupt while it was made
        if holds is not None and holds.newest() is not None:
            self._finalizer = DropFinalizer(holds)


class AsyncLock(AsyncLockBase):
    """An exclusive lock, as ``asyncio.Lock`` but for all processes of all hosts.

    Made by ``AsyncClient.lock``. Acquiring again in the task that holds it waits, as in
    ``asyncio``; with ``strict=True`` it raises. Many tasks may use one handle: each
    acquisition is a hold of its own. Any task may release.
    """

    __slots__ = ()

    @by_caller
    async def acquire(self, blocking: bool = True, timeout: options.Seconds = -1) -> bool:
        """Acquire the lock; True when granted, False when it was not granted in time.

        Waits in line for ever, or for ``timeout`` seconds; ``blocking=False`` tries once. Returns
        by the timeout plus 100 ms whatever the server does. When it ends without the lock, by
        timeout, error or cancellation, it leaves no place in line and no grant behind.

        Raises:
            NotAcquired: a strict handle is held by this task already.
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses (permission, kind of key, memory, read-only).
            ValueError, OverflowError: a timeout that cannot be, as in ``threading``.
        """
        usual = blocking is True and timeout == -1
        seconds = None if usual else options.acquire_timeout(timeout, blocking=blocking)
        if self._holds.settings.lone_timeout:
            self._holds.doubt_timeout()
        if self._holds.settings.strict:
            self._holds.refuse_second(caller())
        return await self._obtain(seconds) is not None

    @by_caller
    async def release(self) -> None:
        """Release this task's hold, or the newest one when this task has none.

        Hands the lock to the next in line. Ends within ``server_timeout``. Cancelled, it is still
        carried out, in the background.

        Raises:
            NotHeld: it is not held through this handle.
            LeaseLost: the lease had ended before; another client may hold the lock.
            OutcomeUnknown, ServerUnreachable: no answer came; the release is repeated in the
                background, and the lease ends by its ttl at the latest.
        """
        await self._give_back()

    async def __aenter__(self) -> AsyncLease:
        """Acquire within the handle's ``timeout`` and return the lease.

        Raises:
            AcquireTimeout: it was not granted in time; and all that ``acquire`` raises.
        """
        if self._holds.settings.strict:
            self._holds.refuse_second(caller())
        return self._entered(await self._obtain(self._holds.settings.timeout))


class AsyncRLock(AsyncLockBase):
    """A reentrant lock, as ``threading.RLock`` but for all processes of all hosts.

    Made by ``AsyncClient.rlock``. The task owns it, or, with ``owner``, all handles with that
    id. Each acquire needs a release. Re-entry by a task sends nothing while the lease is renewed.
    """

    __slots__ = ()

    @by_caller
    async def acquire(self, blocking: bool = True, timeout: options.Seconds = -1) -> bool:
        """Acquire the lock, or enter it once more; otherwise as ``AsyncLock.acquire``.

        Re-entry keeps the fence, and renews a lease that is not renewed by itself.

        Raises:
            LeaseLost: this task entered before, and that lease is lost.
            ServerError, OutcomeUnknown, ValueError, OverflowError: as ``AsyncLock.acquire``.
        """
        seconds = options.acquire_timeout(timeout, blocking=blocking)
        if self._holds.settings.lone_timeout:
            self._holds.doubt_timeout()
        return await self._enter(seconds) is not None

    @by_caller
    async def release(self) -> int:
        """Leave the lock once; return how many holds are left (0: released).

        Raises:
            NotHeld: this task does not hold it; with an owner id: that owner does not.
            LeaseLost: the lease had ended before; another client may hold the lock.
            OutcomeUnknown, ServerUnreachable: no answer came; see ``AsyncLock.release``.
        """
        task = caller()
        hold = self._holds.of(task)
        if hold is not None and hold.count > 1:
            hold.count -= 1
            hold.check()
            return hold.count
        if self._holds.settings.owner is None:
            return await self._give_back(only_own=True)
        if self._holds.newest() is not None:
            return await self._give_back()
        # The owner id travelled here: another handle or process acquired.
        request = self._holds.request(self._port(), caller())
        left = await release_for_owner(self._port(), request)
        if left is None:
            raise self._holds.not_held()
        return left

    async def _enter(self, seconds: float | None) -> Hold | None:
        hold = None if self._holds.settings.owner else self._holds.of(caller())
        if hold is None:
            return bound(self._holds, await self._obtain(seconds))
        hold.check()
        if not hold.request.options.renew:
            await renew_now(self._port(), hold, None, shortens=False)
        hold.count += 1
        return hold

    async def __aenter__(self) -> AsyncLease:
        """Enter within the handle's ``timeout`` and return the lease; see ``AsyncLock``."""
        return self._entered(await self._enter(self._holds.settings.timeout))
