"""Barriers in both faces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from fencelock import errors, options
from fencelock._core.objects.barrier import BarrierSpec, change, wait_at
from fencelock._runtime.hints import made_by_clients, unnamed
from fencelock._runtime.process import ProcessBound


@unnamed
class BaseBarrier(ProcessBound):
    """What ``Barrier`` and ``AsyncBarrier`` share."""

    __slots__ = ("__weakref__", "_action", "_port", "_seen", "_spec", "_timeout")

    _error: ClassVar[type[errors.BarrierBroken]]  # a face's own: also a BrokenBarrierError
    _asynchronous: ClassVar[bool]  # an action may be a coroutine function

    @made_by_clients
    def __init__(
        self,
        port: Any,
        spec: BarrierSpec,
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
        return self._spec.parties

    async def _crossed(self, port: Any, timeout: options.Seconds | None) -> int:
        timeout = self._timeout if timeout is None else options.wait_timeout(timeout)
        action = None if self._action is None else self._act
        try:
            index = await wait_at(port, self._spec, timeout, self._error, action)
        except errors.BarrierBroken as broken:
            self._seen = (0, broken.reason)
            raise
        self._seen = (0, "")
        return index

    async def _act(self) -> None:
        """Run the action, as the last party to arrive."""
        if self._action is not None:
            result = self._action()
            if self._asynchronous and isinstance(result, Awaitable):
                await result

    async def _changed(self, port: Any, what: bytes) -> tuple[int, str]:
        self._seen = await change(port, self._spec, what)
        return self._seen

    def __repr__(self) -> str:
        """Show the name and the state as this handle saw it last."""
        waiting, why = self._seen
        kind, state = type(self).__name__, "broken" if why else f"waiters={waiting}/{self.parties}"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: {state}>"
