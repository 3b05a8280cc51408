# Generated from aio/lock.py by generate_blocking.py: change that, and run the script.
"""Lock and RLock, for threads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from fencelock import options
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.release import release_for_owner
from fencelock._core.lock.renew import renew_now
from fencelock._handles.body import Body
from fencelock._handles.handle import DropFinalizer, Holds
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.threads import run_blocking
from fencelock._runtime import process
from fencelock._runtime.hints import (
    FENCE,
    RENEW,
    Elsewhere,
    made_by_clients,
    refuse_options,
    unnamed,
)
from fencelock._runtime.mutex import undo
from fencelock._runtime.typed import TYPE_CHECKING, Any, Never
from fencelock.blocking.caller import (
    home_of,
)
from fencelock.blocking.entered import Entered
from fencelock.blocking.lease import Lease


@unnamed
class Holder(Entered):
    """What all handles share that hold leases."""

    __slots__ = ("__weakref__", "_finalizer")

    if not TYPE_CHECKING:
        fence = Elsewhere(FENCE)

    @made_by_clients
    def __init__(self, port: BlockingPort, holds: Any) -> None:
        self._port = port
        self._holds = holds

    def _give_back(self, *, only_own: bool = False) -> int:
        port, thread = self._port, process.here.unit
        if port.elsewhere:
            port = home_of(self._holds.lease_for(thread), port)
        take = partial(self._holds.take, thread, only_own=only_own)
        return port.release(self, take) or 0

    def __repr__(self) -> str:
        """Show name, state and fence, as this process knows them."""
        return self._holds.show(self)  # type: ignore[no-any-return]  # of any kind of holds

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        """Stop renewing holds that no code can release any more.

        Not at the end of the interpreter: the modules that it needs may be gone then. Python drops
        what a signal handler raises in here, so that what holds nothing calls nothing.
        """
        try:
            held = self._holds.held
        except AttributeError:  # an interrupt came while it was made
            return
        if held and not _ending():
            self._finalizer = DropFinalizer(self._holds.dropped)


@unnamed
class Handle(Holder):
    """What a lock and several locks share: what is taken for a body is released at its end."""

    __slots__ = ()

    if not TYPE_CHECKING:
        extend = Elsewhere(RENEW)
        reacquire = Elsewhere(RENEW)
        refresh = Elsewhere(RENEW)

    def acquire(self, blocking: bool = True, timeout: options.Seconds = -1, **other: Never) -> bool:
        """Acquire it, or enter it once more; True when granted, False when not in time.

        Waits in line for ever, or for ``timeout`` seconds; ``blocking=False`` tries once. To enter
        again sends nothing while the lease is renewed by itself, and keeps the fence. However it
        ends without what it asked for, it leaves no place in line and nothing held behind.

        Raises:
            NotAcquired: this thread would wait for itself; see the class.
            LeaseLost: this thread entered before, or holds another side, and that lease is lost.
            ServerUnsuitable: a name is in use as another kind of object, or with another limit.
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses (permission, kind of key, memory, read-only).
            ValueError, OverflowError: a timeout that cannot be, as in ``threading``.
        """
        if other:
            refuse_options(self, other, "blocking", "timeout")
        seconds = options.acquire_timeout(timeout, blocking=blocking)
        if self._holds.options.lone_timeout:
            self._holds.doubt_timeout()
        body = Body(process.here.unit)
        try:
            hold = self._enter(body, seconds)
            return hold is not None
        except BaseException:
            self._undo(body)
            raise


@unnamed
class LockBase(Handle):
    """What ``Lock`` and ``RLock`` share."""

    __slots__ = ()

    _holds: Holds

    def __shared__(self) -> tuple[BlockingPort, Holds]:
        """Return its port and its holds, for what else this client makes of the handle."""
        return self._port, self._holds

    @property
    def name(self) -> str:
        """Return the lock's name, without the prefix."""
        return self._holds.keys.name

    @property
    def lease(self) -> Lease | None:
        """Return this thread's lease of this handle, else the newest of any thread, else None."""
        return self._holds.lease_for(process.here.unit)  # type: ignore[return-value]  # they are of this type

    def locked(self) -> bool:
        """Ask the server whether any client holds the lock now.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return run_blocking(self._holds.is_busy(self._port))

    def owned(self) -> bool:
        """Ask the server whether this handle holds the lock now: is it me?

        Sends nothing, and is False, when this handle holds nothing.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return run_blocking(self._holds.is_owned(self._port))

    def _leave(self) -> int:
        """Leave once what this thread entered; the last time gives it back."""
        hold = self._holds.of(process.here.unit)
        if hold is not None and hold.count > 1:
            hold.count -= 1
            hold.check()
            return hold.count
        return self._give_back(only_own=True)

    def _enter(self, body: Body, seconds: float | None) -> Hold | None:
        """Acquire, or enter once more; the frame that called undoes it after an interrupt."""
        holds, port, unit = self._holds, self._port, body.unit
        hold = holds.again(unit)
        if hold is None:
            attempt = body.attempt = holds.attempt(port, unit)
            hold = body.held = port.acquire(attempt, seconds)
            holds.answered(port, attempt, hold)
            return hold
        if not hold.terms.options.renew:
            run_blocking(renew_now(port, hold, None))
        # Together: a signal handler may run between any two calls.
        hold.count, body.held = hold.count + 1, hold
        return hold

    def _end_body(self, body: Body | None) -> None:
        """Release what a body held, or leave it once."""
        holds = self._holds
        if body is None:
            if holds.newest() is None and holds.bodies.of_parent(process.here.unit):
                raise holds.not_held()
            self.release()
            return
        hold = holds.of_body(body)
        if holds.counts and hold.count > 1:
            hold.count, body.held = hold.count - 1, None
            holds.bodies.discard(body)
            hold.check()
        else:
            port = self._port
            if port.elsewhere:
                port = home_of(hold, port)
            port.release(self, holds.take_of_body, body)

    def release(self) -> int | None:
        """Release; see the subclasses."""
        raise NotImplementedError


class Lock(LockBase):
    """An exclusive lock, as ``threading.Lock`` but for all processes of all hosts.

    Made by ``Client.lock``. Acquiring again in the thread that holds it waits, as in
    ``threading``; with ``strict=True`` it raises. Many threads may use one handle: each
    acquisition is a hold of its own. Any thread may release.
    """

    __slots__ = ()

    def acquire(self, blocking: bool = True, timeout: options.Seconds = -1, **other: Never) -> bool:
        """Acquire the lock; True when granted, False when it was not granted in time.

        Waits in line for ever, or for ``timeout`` seconds; ``blocking=False`` tries once. Returns
        by the timeout plus 100 ms whatever the server does. When it ends without the lock, by
        timeout, error or Ctrl-C, it leaves no place in line and no grant behind.

        Raises:
            NotAcquired: a strict handle is held by this thread already.
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses (permission, kind of key, memory, read-only).
            ValueError, OverflowError: a timeout that cannot be, as in ``threading``.
        """
        if other:
            refuse_options(self, other, "blocking", "timeout")
        seconds = None
        if blocking is not True or timeout != -1:
            seconds = options.acquire_timeout(timeout, blocking=blocking)
        if self._holds.options.lone_timeout:
            self._holds.doubt_timeout()
        port, holds, unit = self._port, self._holds, process.here.unit
        if holds.options.strict:
            holds.again(unit)
        attempt = holds.attempt(port, unit)
        try:
            return port.acquire(attempt, seconds) is not None
        except BaseException:  # a signal's exception may come when the flow had ended
            undo(port, type(attempt).undo, attempt, port)
            raise

    def release(self) -> None:
        """Release this thread's hold, or the newest one when this thread has none.

        Hands the lock to the next in line. Ends within ``server_timeout``.

        Raises:
            NotHeld: it is not held through this handle.
            LeaseLost: the lease had ended before; another client may hold the lock.
            OutcomeUnknown, ServerUnreachable: no answer came; the release is repeated in the
                background, and the lease ends by its ttl at the latest.
        """
        port, holds, thread = self._port, self._holds, process.here.unit
        if port.elsewhere:
            port = home_of(holds.lease_for(thread), port)
        port.release(self, holds.take, thread)


class RLock(LockBase):
    """A reentrant lock, as ``threading.RLock`` but for all processes of all hosts.

    Made by ``Client.rlock``. The thread owns it, or, with ``owner``, all handles with that
    id. Each acquire needs a release. Re-entry by a thread sends nothing while the lease is renewed.
    """

    __slots__ = ()

    def release(self) -> int:
        """Leave the lock once; return how many holds are left (0: released).

        Raises:
            NotHeld: this thread does not hold it; with an owner id: that owner does not.
            LeaseLost: the lease had ended before; another client may hold the lock.
            OutcomeUnknown, ServerUnreachable: no answer came; see ``Lock.release``.
        """
        if self._holds.options.owner is None:
            return self._leave()
        if self._holds.newest() is not None:
            return self._give_back()
        # The owner id travelled here: another handle or process acquired.
        attempt = self._holds.attempt(self._port, process.here.unit)
        left = run_blocking(release_for_owner(self._port, attempt))
        if left is None:
            raise self._holds.not_held()
        return left
