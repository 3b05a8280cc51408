"""Events and latches in both faces."""

from __future__ import annotations

from typing import Any

from fencelock import options
from fencelock._core.signals import Gate, change_event, change_latch, passes
from fencelock.hints import made_by_clients, unnamed
from fencelock.process import Rooted


@unnamed
class BaseEvent(Rooted):
    """What ``Event`` and ``AsyncEvent`` share."""

    __slots__ = ("__weakref__", "_answered", "_gate", "_port", "_seen")

    @made_by_clients
    def __init__(self, port: Any, gate: Gate) -> None:
        self._port = port
        self._gate = gate
        self._seen = False
        self._answered: list[bytes] = []  # requests that the server may forget

    @property
    def name(self) -> str:
        """Return the event's name, without the prefix."""
        return self._gate.name

    async def _changed(self, port: Any, what: bytes) -> bool:
        self._seen = await change_event(port, self._gate, what, self._answered)
        return self._seen

    async def _passed(self, port: Any, timeout: options.Seconds | None) -> bool:
        self._seen = await passes(port, self._gate, options.patience_of_wait(timeout))
        return self._seen

    def __repr__(self) -> str:
        """Show the name and the state as this handle saw it last."""
        kind, state = type(self).__name__, "set" if self._seen else "unset"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: {state}>"


@unnamed
class BaseLatch(Rooted):
    """What ``Latch`` and ``AsyncLatch`` share."""

    __slots__ = ("__weakref__", "_answered", "_gate", "_port", "_seen")

    @made_by_clients
    def __init__(self, port: Any, gate: Gate) -> None:
        self._port = port
        self._gate = gate
        self._seen = gate.of
        self._answered: list[bytes] = []  # requests that the server may forget

    @property
    def name(self) -> str:
        """Return the latch's name, without the prefix."""
        return self._gate.name

    async def _changed(self, port: Any, what: bytes, by: int = 0) -> int:
        self._seen = await change_latch(port, self._gate, what, by, self._answered)
        return self._seen

    async def _passed(self, port: Any, timeout: options.Seconds | None) -> bool:
        opened = await passes(port, self._gate, options.patience_of_wait(timeout))
        self._seen = 0 if opened else self._seen
        return opened

    def __repr__(self) -> str:
        """Show the name and the count as this handle saw it last."""
        kind, left = type(self).__name__, f"{self._seen}/{self._gate.of}"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: left={left}>"
