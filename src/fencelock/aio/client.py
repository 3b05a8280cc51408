"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._handles import introspection
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
from fencelock.options import Acknowledgement, AsyncSource, Seconds
from fencelock.status import HistoryEntry, LockStatus, SignalStatus

if TYPE_CHECKING:
    from fencelock._core.objects.election import ElectionKeys
    from fencelock._handles.decorator import OnceSettings
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


def _recorded(source: Any, recorder: Any) -> Any:
    """Return a source whose ports have a history; it does not keep the client alive."""

    def made() -> AioPort:
        port: AioPort = source.make()
        recorder.add(port)
        return port

    return source._replace(make=made)


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
        made = self._source if self._recorder is None else _recorded(self._source, self._recorder)
        self._ports = LoopPorts(made)
        return self._source.quorum, self._source.label

    @staticmethod
    def _later(port: AioPort, seconds: float, call: Callable[[], None]) -> bool:
        try:
            port.loop.call_soon_threadsafe(port.loop.call_later, seconds, call)
        except RuntimeError:  # the loop is closed
            return False
        return True

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

    def _once(self, name: str, chosen: Settings, run_settings: OnceSettings) -> AsyncOnce[Any]:
        from fencelock.aio.once import AsyncOnce  # noqa: PLC0415 - it needs templates

        return AsyncOnce(self._port, self._defaults.key_prefix, name, chosen, run_settings)

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
        from fencelock._handles.decorator import RunningCalls, nested_call_error  # noqa: PLC0415 - few programs decorate

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

    # -- looking into locks -------------------------------------------------------------------

    async def locks(
        self,
        match: str = "*",
        *,
        names: Iterable[str] | None = None,
        waiters: int = introspection.LISTED,
        recent: bool = False,
    ) -> list[LockStatus]:
        """Return which locks are held, kept or waited for, in any process, sorted by name.

        ``match`` is a pattern as in a shell, such as ``"orders:*"``. With ``names`` it returns
        just these, in this order and in any state; that asks for up to 500 of them by one command
        and needs no SCAN. ``waiters`` is how many waiters, and holders of permits, of each are
        listed; the numbers are complete. ``recent`` adds locks that were released in the last ten
        minutes. Locks that only other programs take, with a plain SET, are found by ``names``.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring; ServerDenied without the permission for SCAN.
            QuorumNotReached: too few nodes answered.
        """
        return await introspection.locks(
            self._port(),
            self._defaults.key_prefix,
            match,
            names,
            waiters=waiters,
            recent=recent,
        )

    async def status(self, name: str, *, waiters: int = introspection.LISTED) -> LockStatus:
        """Return who holds the lock, semaphore or reader/writer lock ``name``, and who waits.

        Up to ``waiters`` waiters, and holders of permits, are listed; the numbers are complete. It
        is true for one moment: do not ask whether a lock is free before acquiring it.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring.
            QuorumNotReached: too few nodes answered.
        """
        prefix = self._defaults.key_prefix
        return await introspection.status(self._port(), prefix, name, waiters)

    async def revoke(
        self, name: str, *, reason: str, only: tuple[str, int] | None = None
    ) -> LockStatus | None:
        """Take a lock away from its holder, in any process; the next waiter is granted it.

        The holder is notified at once, and its LeaseLost carries ``reason``. A semaphore or
        reader/writer lock is taken from all its holders. ``only`` is the host and process id from
        which alone it is taken, such as ``status.holder.process``.
        Returns the status of before, with the holders that it was taken from; None if there were
        none. A holder that is notified works on until its code reacts: only its fence is safe.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerUnsuitable: the key of the name holds something that is not a lock.
            ServerError: as from acquiring.
            OutcomeUnknown: the request may or may not have run; do it again.
            QuorumNotReached: too few nodes answered.
        """
        prefix = self._defaults.key_prefix
        return await introspection.revoke(self._port(), prefix, name, reason, only)

    async def signals(
        self, match: str = "*", *, names: Iterable[str] | None = None
    ) -> list[SignalStatus]:
        """Return the events, latches and barriers of all clients, sorted by name.

        ``match`` is a pattern as in a shell. With ``names`` it returns those of them that are
        events, latches or barriers, and needs no SCAN. A quorum has none.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring; ServerDenied without the permission for SCAN.
        """
        given = self._defaults
        flow = introspection.signals(
            self._port(), given.key_prefix, match, names, quorum=given.quorum
        )
        return await flow

    async def history(
        self, name: str | None = None, *, within: Seconds | None = None, limit: int = 1000
    ) -> list[HistoryEntry]:
        """Return what clients with the option ``history`` kept, of all names or one, by time.

        The newest ``limit`` entries are returned; with ``within`` only those of the last so many
        seconds. Without a client with that option it is empty.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring; ServerDenied without the permission for XREVRANGE.
            QuorumNotReached: too few nodes answered.
        """
        prefix = self._defaults.key_prefix
        return await introspection.history(self._port(), prefix, name, within, limit)

    async def aclose(self, *, release: bool = False, timeout: Seconds = options.SHUTDOWN) -> None:
        """Close this loop's connection; leases that are still held end by their ttl.

        Waits up to 1 s for answers that are due, and gives back what they grant. Using the
        client's locks in this loop afterwards raises ClientClosed, as do the calls that wait for
        one now. Other loops' connections stay.

        With ``release`` the leases are given back, to the next in line: the latest acquired first,
        an election to the next candidate. Their holders lose them before that. It ends within
        ``timeout`` seconds, 5 by default: less than the 10 s after which Docker and others kill a
        process. What was not given back by then is named in the log, and ends by its ttl.

        Raises:
            ValueError: a timeout that is not positive.
        """
        port = self._port()  # one that was never used is closed, too
        if self._recorder is not None:
            self._recorder.drop(port)
        if release:
            await port.shut(options.positive("timeout", timeout), release=True)
        else:
            await port.shut()

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.aclose()

    def __repr__(self) -> str:
        """Show the source, without passwords."""
        source = getattr(self, "_source", None)  # none: its options were refused
        return f"<fencelock.AsyncClient of {'nothing' if source is None else source.label}>"
