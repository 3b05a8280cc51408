"""What ``async with`` can enter, for asyncio."""

from __future__ import annotations

from collections.abc import Callable

from fencelock._core.lock.hold import Hold
from fencelock._handles.body import UNSURE, Body, from_first_instruction, raise_release_error
from fencelock._io.port_asyncio import AioPort
from fencelock._runtime.hints import unnamed
from fencelock._runtime.mutex import undo
from fencelock._runtime.process import ProcessBound
from fencelock._runtime.typed import Any
from fencelock.aio.caller import caller, was_stopped, watch
from fencelock.aio.lease import AsyncLease
from fencelock.errors import FencelockError


@unnamed
class AsyncEntered(ProcessBound):
    """What ``async with`` enters: it acquires as a body begins, and gives back at its end."""

    __slots__ = ("_holds", "_port")

    _port: Callable[[], AioPort]
    _holds: Any

    async def __aenter__(self) -> AsyncLease:
        """Acquire within the handle's ``timeout`` and return the lease.

        Raises:
            AcquireTimeout: it was not granted in time; and all that ``acquire`` raises, or
                ``campaign`` of an election.
        """
        body = Body(caller(), id(self))
        try:
            lease = self._begun(body, await self._enter(body, self._holds.options.timeout))
            return lease  # type: ignore[no-any-return]  # it was given its type when it was made
        except BaseException:
            self._undo(body)
            raise

    @from_first_instruction
    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give back what the body holds, as ``release`` or ``resign`` does.

        Raises:
            NotHeld: several bodies of this handle are open, and which one ends is unknown.
            LeaseLost: the lease had ended before; and all that ``release`` or ``resign`` raises.
                When the body raised, its error goes on and this one is logged.
        """
        try:
            body = self._holds.bodies.ending(id(self), caller())
            await self._end(body, error)
        except BaseException:
            known = locals()  # it may have been raised before the body was looked for
            looked = "body" in known
            self._undo(known["body"] if looked else self._holds.bodies.ending(id(self), caller()))
            raise

    async def _enter(self, body: Body, seconds: float | None) -> Hold | None:
        """Acquire; the frame that called undoes it after an interrupt. See the subclasses."""
        raise NotImplementedError

    def _begun(self, body: Body, hold: Hold | None) -> Any:
        """Return the lease for a body that begins; a loss may cancel the body from here on."""
        if hold is None:
            raise self._holds.not_granted(body.attempt)
        self._holds.bodies.begin(body)
        if hold.terms.options.on_lost == "cancel" and hold.body is None:
            watch(body)
        return hold

    async def _end(self, body: Body | None, error: BaseException | None) -> None:
        """End a body; the error of the body goes first."""
        stopped = False
        try:
            if body is UNSURE:
                raise self._holds.unsure()
            if body is not None and body.held.body is not None:
                watched = self._holds.watched(body)
                stopped = watched is not None and was_stopped(watched, error)
            await self._end_body(body)
        except FencelockError as trouble:
            what = f"release of {self._holds.title!r}"
            raise_release_error(trouble, error, what, stopped=stopped)

    async def _end_body(self, body: Body | None) -> None:
        """Give back what a body held; see the subclasses. Without a body, as ``release`` does."""
        raise NotImplementedError

    def _undo(self, body: Body | None) -> None:
        """Take back what a body holds, or an acquire whose caller never got it."""
        # Each acquire calls it itself: in threads a signal may come while a helper returns.
        if body is not None:
            undo(self._port(), type(self)._take_back, self, body)  # noqa: SLF001 - bound, it needs memory

    def _take_back(self, body: Body) -> None:
        port, attempt = self._port(), body.attempt
        if isinstance(attempt, Hold) and not (attempt.held and self._holds.keeps(attempt)):
            attempt.undo(port)
        with port.mutex:
            left = self._holds.take_back(body)
        for hold in left:  # if this is interrupted, no other call finds them
            undo(port, type(hold).release_in_background, hold, port)
