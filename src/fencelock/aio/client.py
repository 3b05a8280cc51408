"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from fencelock._core.keys import LockKeys
from fencelock._handles.decorator import OnceSettings, RunningCalls, nested_call_error
from fencelock._handles.lock import OPTION_DEFAULTS, Defaults, Holds, Settings
from fencelock._io.port_asyncio import AioPort
from fencelock._io.ports_per_loop import LoopPorts
from fencelock._io.select_asyncio import port_maker
from fencelock._runtime import process
from fencelock._runtime.hints import published
from fencelock.aio.barrier import AsyncBarrier
from fencelock.aio.condition import AsyncCondition
from fencelock.aio.event_latch import AsyncEvent, AsyncLatch
from fencelock.aio.lease import AsyncHold, AsyncLease
from fencelock.aio.lock import AsyncLock, AsyncRLock
from fencelock.aio.rwlock import AsyncReadLock, AsyncRWLock, AsyncWriteLock
from fencelock.aio.semaphore import AsyncBoundedSemaphore, AsyncSemaphore
from fencelock.client_base import (
    ClientOptions,
    ElectionFactory,
    LockFactory,
    MultiFactory,
    SemaphoreFactory,
    StateFactory,
)
from fencelock.client_decorators import LockedFactory, OnceFactory
from fencelock.errors import NotAcquired
from fencelock.options import Acknowledgement, AsyncSource

if TYPE_CHECKING:
    from fencelock._core.objects.election import ElectionKeys
    from fencelock._handles.name_template import DecoratedCall, NameTemplate
    from fencelock.aio.election import AsyncElection
    from fencelock.aio.multi import AsyncMultiLease, AsyncMultiLock
    from fencelock.aio.once import AsyncOnce

    P = ParamSpec("P")
    T = TypeVar("T")
    AsyncFunction = TypeVar("AsyncFunction", bound=Callable[..., Coroutine[Any, Any, Any]])

    class AsyncDecorator(Protocol):
        """Decorates a coroutine function that keeps its type."""

        def __call__(self, function: AsyncFunction, /) -> AsyncFunction:
            """Decorate a function."""

    class AsyncDecoratorWithLease(Protocol):
        """Decorates a function that is given the lease by fencelock, and not by its callers."""

        def __call__(
            self, function: Callable[..., Coroutine[Any, Any, T]], /
        ) -> Callable[..., Coroutine[Any, Any, T]]:
            """Decorate a function."""

    class AsyncSkippingDecorator(Protocol):
        """Decorates a function whose calls return None when the lock is held."""

        def __call__(
            self, function: Callable[P, Coroutine[Any, Any, T]], /
        ) -> Callable[P, Coroutine[Any, Any, T | None]]:
            """Decorate a function."""

    class AsyncSkippingDecoratorWithLease(Protocol):
        """Decorates a function that is given the lease, and whose calls may return None."""

        def __call__(
            self, function: Callable[..., Coroutine[Any, Any, T]], /
        ) -> Callable[..., Coroutine[Any, Any, T | None]]:
            """Decorate a function."""


# The types as users see them; as text, because some of the classes are imported when first used.
OnLost: TypeAlias = "Callable[[AsyncLease], Any] | Literal['cancel']"
OnAnyLost: TypeAlias = "Callable[[AsyncMultiLease], Any] | Literal['cancel']"
Part: TypeAlias = "AsyncLock | AsyncReadLock | AsyncWriteLock | AsyncSemaphore"


@published(OPTION_DEFAULTS)
class AsyncClient(
    ClientOptions["AsyncSource"],
    LockFactory[AsyncLock, AsyncRLock, OnLost],
    SemaphoreFactory[AsyncSemaphore, AsyncBoundedSemaphore, AsyncRWLock, OnLost],
    StateFactory[AsyncEvent, AsyncLatch, AsyncBarrier, AsyncCondition, "AsyncLock | AsyncRLock"],
    MultiFactory["AsyncMultiLock", Part, OnAnyLost],
    ElectionFactory["AsyncElection", AsyncLease, OnLost],
    LockedFactory[
        AsyncLock,
        OnLost,
        "AsyncDecorator",
        "AsyncDecoratorWithLease",
        "AsyncSkippingDecorator",
        "AsyncSkippingDecoratorWithLease",
    ],
    OnceFactory[OnLost, "AsyncOnce[None]", "AsyncOnce[AsyncLease]", "AsyncOnce[Any]"],
):
    """Make locks over one server, for asyncio.

    ``source`` is a URL, an asyncio client of redis-py or valkey-py, a list of them for a quorum, or
    None for the default; ``__init__`` describes it with the other options.

    Use it with ``async with``, or call ``aclose()``. A client may be used by many tasks, and in
    several event loops: each loop gets a connection of its own. After a fork the child's copy
    holds nothing and opens its own connections in a loop of the child.
    """

    _asynchronous = True
    _hold_type = AsyncHold
    _lock = AsyncLock
    _rlock = AsyncRLock
    _semaphore = AsyncSemaphore
    _bounded_semaphore = AsyncBoundedSemaphore
    _rwlock = AsyncRWLock
    _event = AsyncEvent
    _latch = AsyncLatch
    _barrier = AsyncBarrier
    _condition = AsyncCondition
    _of_condition = (AsyncLock, AsyncRLock)

    @property
    def _parts(self) -> tuple[type, ...]:
        return AsyncLock, AsyncReadLock, AsyncWriteLock, AsyncSemaphore

    def _open(
        self,
        source: AsyncSource | None,
        given: Defaults,
        *,
        node_timeout: float,
        replicas: Acknowledgement | None,
    ) -> tuple[bool, str]:
        self._source = port_maker(
            source,
            prefix=given.key_prefix,
            server_timeout=given.server_timeout,
            node_timeout=node_timeout,
            replicas=replicas,
        )
        self._ports = LoopPorts(self._source)
        return self._source.quorum, self._source.label

    def _port(self) -> AioPort:
        """Return the running loop's port, made when the loop first asks."""
        return self._ports.of(asyncio.get_running_loop())

    def _lock_of_condition(self, name: str) -> AsyncLock:
        return self.lock(name)

    def _multi(self, parts: list[LockKeys | Holds], chosen: Settings) -> AsyncMultiLock:
        from fencelock.aio.multi import AsyncMultiLock  # noqa: PLC0415 - few programs use it

        return AsyncMultiLock(self._port, parts, chosen)

    def _election(
        self,
        keys: ElectionKeys,
        chosen: Settings,
        candidate: str,
        on_elected: Callable[[AsyncLease], object] | None,
    ) -> AsyncElection:
        from fencelock.aio.election import AsyncElection  # noqa: PLC0415 - few programs use it

        return AsyncElection(self._port, keys, chosen, candidate=candidate, on_elected=on_elected)

    def _once(self, name: str, chosen: Settings, terms: OnceSettings) -> AsyncOnce[Any]:
        from fencelock.aio.once import AsyncOnce  # noqa: PLC0415 - it needs templates

        return AsyncOnce(self._port, self._defaults.key_prefix, name, chosen, terms)

    def _guarded(
        self,
        plan: NameTemplate,
        handle: Callable[[str], AsyncLock],
        on_busy: str,
    ) -> Callable[..., Any]:
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            return await self._call_locked(plan.call(args, kwargs), handle, on_busy)

        return guarded

    async def _call_locked(
        self, call: DecoratedCall, handle: Callable[[str], AsyncLock], on_busy: str
    ) -> Any:
        lock = handle(call.name)
        me = (process.generation, asyncio.current_task(), self._keys(call.name).lock)
        mark, began = RunningCalls(self._within, me), False
        try:
            if mark.found:
                raise nested_call_error(call.name, self._defaults.server)
            async with lock as lease:
                began = True
                try:
                    mark.put()
                    return await call.into(lease)
                finally:
                    mark.clear()
        except NotAcquired:
            if began or on_busy != "skip":
                raise
            return None

    async def aclose(self) -> None:
        """Close this loop's connection; leases that are still held end by their ttl.

        Waits up to 1 s for clean-ups that are under way. Using the client's locks in this loop
        afterwards raises ClientClosed. Other loops' connections stay.
        """
        await self._port().shut()  # one that was never used is closed, too

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.aclose()

    def __repr__(self) -> str:
        """Show the source, without passwords."""
        return f"<fencelock.AsyncClient of {self._source.label}>"
