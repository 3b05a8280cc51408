"""Conditions in both faces."""

from __future__ import annotations

from typing import Any

from fencelock import options
from fencelock._core.objects import condition as core
from fencelock._handles.lock import Caller
from fencelock._runtime.hints import made_by_clients, unnamed
from fencelock._runtime.process import ProcessBound


@unnamed
class BaseCondition(ProcessBound):
    """What ``Condition`` and ``AsyncCondition`` share."""

    __slots__ = ("__weakref__", "_place", "lock")

    _reentrant: type  # a face's own class of locks that only the owner may release
    lock: Any

    @made_by_clients
    def __init__(self, lock: Any, place: core.ConditionId) -> None:
        self.lock = lock
        self._place = place

    @property
    def name(self) -> str:
        """Return the condition's name; empty when it has none."""
        return self._place.title

    @property
    def _owned(self) -> bool:
        """Return True if only the thread or task that holds the lock may release it."""
        return isinstance(self.lock, self._reentrant)

    async def _waited(
        self, port: Any, unit: object, caller: Caller, timeout: options.Seconds | None
    ) -> bool:
        _, holds = self.lock.__shared__()
        return await core.wait(
            port,
            self._place,
            lambda taken: holds.take(unit, taken, only_own=self._owned),
            options.wait_timeout(timeout),
            core.Reacquirer(lambda: holds.request(port, caller), holds),
        )

    async def _notified(self, port: Any, unit: object, n: int) -> None:
        _, holds = self.lock.__shared__()
        hold = holds.of(unit) or (None if self._owned else holds.newest())
        if hold is None:
            raise holds.not_held()
        await core.notify(port, self._place, hold, n)

    def __repr__(self) -> str:
        """Show the name and the lock, as this process knows it."""
        return f"<fencelock.{type(self).__name__} {self.name!r} of {self.lock!r}>"
