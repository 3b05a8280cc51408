# Generated from aio/multi.py by generate_blocking.py: change that, and run the script.
"""Several locks at once, for threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fencelock._core.lock.hold import Hold
from fencelock._core.objects.multi import acquire_all, release_all
from fencelock._handles.body import Body
from fencelock._handles.multi import MultiHolds
from fencelock._io.threads import run_blocking, run_release
from fencelock._runtime import process
from fencelock.blocking.lease import MultiLease
from fencelock.blocking.lock import Handle


class MultiLock(Handle):
    """Several locks that are taken and given back together; ``Client.multi`` makes it.

    If all are plain locks, free and without waiters, one command takes them. Otherwise it waits in
    line for one after the other, in the order of their keys, and keeps those that it has: so two
    of them never wait for each other.

    Parts may also be sides of reader/writer locks and permits of semaphores. Acquiring again in
    the thread that holds them waits. Many threads may use one handle. Any thread may release. A
    plain ``Lock`` of one of the names is excluded, and excludes.
    """

    __slots__ = ()

    _holds: MultiHolds

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the locks, without the prefix, in the order they were given."""
        return self._holds.names

    @property
    def lease(self) -> MultiLease | None:
        """Return this thread's lease of this handle, else the newest of any thread, else None."""
        hold = self._holds.lease_for(process.here.unit)
        return None if hold is None else hold.joint

    def release(self) -> None:
        """Release all that this thread holds by this handle, or else the newest of any thread.

        Hands each lock to the next in line, all in one command.

        Raises:
            NotHeld: they are not held through this handle.
            LeaseLost: one of the leases had ended before; the others are given back.
            OutcomeUnknown, ServerUnreachable: no answer came; the release is repeated in the
                background, and the leases end by their ttl at the latest.
        """
        port, thread = self._port, process.here.unit
        run_release(release_all(port, partial(self._holds.take, thread)), self, port)

    def locked(self) -> bool:
        """Ask the server whether any of them would have to be waited for now; one command each.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        port = self._port
        busy = [run_blocking(part.is_busy(port)) for part in self._holds.parts.values()]
        return any(busy)

    def owned(self) -> bool:
        """Ask the server whether this handle holds all of the locks now; one command each.

        Sends nothing, and is False, when this handle holds nothing.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        port = self._port
        owned = [run_blocking(part.is_owned(port)) for part in self._holds.parts.values()]
        return all(owned)

    def _enter(self, body: Body, seconds: float | None) -> Hold | None:
        """Acquire all; the frame that called undoes it after an interrupt."""
        holds, port, unit = self._holds, self._port, body.unit
        asked = body.attempt = list[Hold]()

        def attempts() -> Sequence[Hold]:
            asked[:] = [part.attempt(port, unit) for part in holds.parts.values()]
            return asked[:]

        granted = run_blocking(acquire_all(port, attempts, seconds))
        body.held = None if granted is None else holds.join(granted)
        return body.held  # type: ignore[no-any-return]  # see above

    def __enter__(self) -> MultiLease:  # type: ignore[override]  # of all of them
        """Acquire all within the handle's ``timeout`` and return the lease.

        Raises:
            AcquireTimeout: not all were granted in time; and all that ``acquire`` raises.
        """
        body = Body(process.here.unit, id(self))
        try:
            hold = self._begun(body, self._enter(body, self._holds.options.timeout))
            return hold.joint  # type: ignore[no-any-return]  # it was made with our type
        except BaseException:
            self._undo(body)
            raise

    def _end_body(self, body: Body | None) -> None:
        """Release all that a body held."""
        holds, port, thread = self._holds, self._port, process.here.unit
        take = partial(holds.take_of_body, body) if body else partial(holds.take, thread)
        run_release(release_all(port, take), self, port)

    def __repr__(self) -> str:
        """Show names and state, as this process knows them."""
        return self._holds.show(self)
