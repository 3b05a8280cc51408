"""Barriers in both faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from fencelock import errors, options
from fencelock._core.barrier import Crossing, change, cross
from fencelock.hints import made_by_clients, unnamed
from fencelock.process import Rooted


@unnamed
class BaseBarrier(Rooted):
    """What ``Barrier`` and ``AsyncBarrier`` share."""

    __slots__ = ("__weakref__", "_action", "_crossing", "_port", "_seen", "_timeout")

    _error: ClassVar[type[errors.BarrierBroken]]  # a face's own: also a BrokenBarrierError

    @made_by_clients
    def __init__(
        self,
        port: Any,
        crossing: Crossing,
        action: Callable[[], object] | None,
        timeout: float | None,
    ) -> None:
        self._port = port
        self._crossing = crossing
        self._action = action
        self._timeout = timeout
        self._seen = (0, "")

    @property
    def name(self) -> str:
        """Return the barrier's name, without the prefix."""
        return self._crossing.name

    @property
    def parties(self) -> int:
        """Return how many must come for all to go on."""
        return self._crossing.parties

    async def _crossed(self, port: Any, timeout: options.Seconds | None) -> int:
        patience = self._timeout if timeout is None else options.patience_of_wait(timeout)
        action = None if self._action is None else self._act
        try:
            index = await cross(port, self._crossing, patience, self._error, action)
        except errors.BarrierBroken as broken:
            self._seen = (0, broken.reason)
            raise
        self._seen = (0, "")
        return index

    async def _act(self) -> None:
        """Run the action, as the last party to come."""
        raise NotImplementedError

    async def _changed(self, port: Any, what: bytes) -> tuple[int, str]:
        self._seen = await change(port, self._crossing, what)
        return self._seen

    async def _waiting(self, port: Any) -> int:
        return (await self._changed(port, b"look"))[0]

    async def _is_broken(self, port: Any) -> bool:
        return bool((await self._changed(port, b"look"))[1])

    def __repr__(self) -> str:
        """Show the name and the state as this handle saw it last."""
        waiting, why = self._seen
        kind, state = type(self).__name__, "broken" if why else f"waiters={waiting}/{self.parties}"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: {state}>"
