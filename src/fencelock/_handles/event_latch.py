"""Events and latches in both faces."""

from __future__ import annotations

from typing import Any

from fencelock import options
from fencelock._core.objects.event_latch import (
    EventSpec,
    change_event,
    change_latch,
    wait_until_open,
)
from fencelock._runtime.hints import made_by_clients, unnamed
from fencelock._runtime.process import ProcessBound


@unnamed
class BaseEvent(ProcessBound):
    """What ``Event`` and ``AsyncEvent`` share."""

    __slots__ = ("__weakref__", "_answered", "_port", "_seen", "_spec")

    @made_by_clients
    def __init__(self, port: Any, spec: EventSpec) -> None:
        self._port = port
        self._spec = spec
        self._seen = False
        self._answered: list[bytes] = []  # requests that the server may forget

    @property
    def name(self) -> str:
        """Return the event's name, without the prefix."""
        return self._spec.keys.name

    async def _changed(self, port: Any, what: bytes) -> bool:
        self._seen = await change_event(port, self._spec, what, self._answered)
        return self._seen

    async def _passed(self, port: Any, timeout: options.Seconds | None) -> bool:
        self._seen = await wait_until_open(port, self._spec, options.wait_timeout(timeout))
        return self._seen

    def __repr__(self) -> str:
        """Show the name and the state as this handle saw it last."""
        kind, state = type(self).__name__, "set" if self._seen else "unset"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: {state}>"


@unnamed
class BaseLatch(ProcessBound):
    """What ``Latch`` and ``AsyncLatch`` share."""

    __slots__ = ("__weakref__", "_answered", "_port", "_seen", "_spec")

    @made_by_clients
    def __init__(self, port: Any, spec: EventSpec) -> None:
        self._port = port
        self._spec = spec
        self._seen = spec.of
        self._answered: list[bytes] = []  # requests that the server may forget

    @property
    def name(self) -> str:
        """Return the latch's name, without the prefix."""
        return self._spec.keys.name

    async def _changed(self, port: Any, what: bytes, by: int = 0) -> int:
        self._seen = await change_latch(port, self._spec, what, by, self._answered)
        return self._seen

    async def _passed(self, port: Any, timeout: options.Seconds | None) -> bool:
        opened = await wait_until_open(port, self._spec, options.wait_timeout(timeout))
        self._seen = 0 if opened else self._seen
        return opened

    def __repr__(self) -> str:
        """Show the name and the count as this handle saw it last."""
        kind, left = type(self).__name__, f"{self._seen}/{self._spec.of}"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: left={left}>"
