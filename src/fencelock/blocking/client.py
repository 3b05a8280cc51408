"""The client for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from fencelock._core.keys import LockKeys
from fencelock._handles.decorator import OnceSettings, RunningCalls, nested_call_error
from fencelock._handles.lock import OPTION_DEFAULTS, Defaults, Holds, Settings
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.select_blocking import port_for
from fencelock._runtime import process
from fencelock._runtime.hints import Deferred, published
from fencelock._runtime.process import thread_unit
from fencelock.blocking.lease import BlockingHold, Lease
from fencelock.blocking.lock import Lock, RLock
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
from fencelock.options import Acknowledgement, Source

if TYPE_CHECKING:
    from fencelock._core.objects.election import ElectionKeys
    from fencelock._handles.name_template import DecoratedCall, NameTemplate
    from fencelock.blocking.barrier import Barrier  # noqa: F401 - named in a base, as text
    from fencelock.blocking.condition import Condition  # noqa: F401 - likewise
    from fencelock.blocking.election import Election
    from fencelock.blocking.event_latch import Event, Latch  # noqa: F401 - likewise
    from fencelock.blocking.multi import MultiLease, MultiLock
    from fencelock.blocking.once import Once
    from fencelock.blocking.rwlock import ReadLock, RWLock, WriteLock  # noqa: F401 - in a base
    from fencelock.blocking.semaphore import BoundedSemaphore, Semaphore  # noqa: F401 - likewise

    P = ParamSpec("P")
    T = TypeVar("T")
    Function = TypeVar("Function", bound=Callable[..., Any])

    class Decorator(Protocol):
        """Decorates a function that keeps its type."""

        def __call__(self, function: Function, /) -> Function:
            """Decorate a function."""

    class DecoratorWithLease(Protocol):
        """Decorates a function that is given the lease by fencelock, and not by its callers."""

        def __call__(self, function: Callable[..., T], /) -> Callable[..., T]:
            """Decorate a function."""

    class SkippingDecorator(Protocol):
        """Decorates a function whose calls return None when the lock is held."""

        def __call__(self, function: Callable[P, T], /) -> Callable[P, T | None]:
            """Decorate a function."""

    class SkippingDecoratorWithLease(Protocol):
        """Decorates a function that is given the lease, and whose calls may return None."""

        def __call__(self, function: Callable[..., T], /) -> Callable[..., T | None]:
            """Decorate a function."""


# The types as users see them; as text, because some of the classes are imported when first used.
OnLost: TypeAlias = "Callable[[Lease], object]"
OnAnyLost: TypeAlias = "Callable[[MultiLease], object]"
Part: TypeAlias = "Lock | ReadLock | WriteLock | Semaphore"


@published(OPTION_DEFAULTS)
class Client(
    ClientOptions["Source"],
    LockFactory[Lock, RLock, OnLost],
    SemaphoreFactory["Semaphore", "BoundedSemaphore", "RWLock", OnLost],
    StateFactory["Event", "Latch", "Barrier", "Condition", "Lock | RLock"],
    MultiFactory["MultiLock", Part, OnAnyLost],
    ElectionFactory["Election", Lease, OnLost],
    LockedFactory[
        Lock,
        OnLost,
        "Decorator",
        "DecoratorWithLease",
        "SkippingDecorator",
        "SkippingDecoratorWithLease",
    ],
    OnceFactory[OnLost, "Once[None]", "Once[Lease]", "Once[Any]"],
):
    """Make locks over one server, for threads.

    ``source`` is a URL, a blocking client of redis-py or valkey-py, a list of them for a quorum, or
    None for the default; ``__init__`` describes it with the other options.

    Use it as a context manager, or call ``close()``. A client may be used by many threads; after a
    fork the child's copy holds nothing and opens its own connections.
    """

    _asynchronous = False
    _port: BlockingPort
    _hold_type = BlockingHold
    _lock = Lock
    _rlock = RLock
    _semaphore: Any = Deferred("Semaphore")
    _bounded_semaphore: Any = Deferred("BoundedSemaphore")
    _rwlock: Any = Deferred("RWLock")
    _event: Any = Deferred("Event")
    _latch: Any = Deferred("Latch")
    _barrier: Any = Deferred("Barrier")
    _condition: Any = Deferred("Condition")
    _of_condition = (Lock, RLock)

    @property
    def _parts(self) -> tuple[type, ...]:
        from fencelock.blocking.rwlock import ReadLock, WriteLock  # noqa: PLC0415 - for a multi
        from fencelock.blocking.semaphore import Semaphore  # noqa: PLC0415 - likewise

        return Lock, ReadLock, WriteLock, Semaphore

    def _open(
        self,
        source: Source | None,
        given: Defaults,
        *,
        node_timeout: float,
        replicas: Acknowledgement | None,
    ) -> tuple[bool, str]:
        self._port = port_for(
            source,
            prefix=given.key_prefix,
            server_timeout=given.server_timeout,
            node_timeout=node_timeout,
            replicas=replicas,
        )
        return bool(self._port.nodes), self._port.label

    def _lock_of_condition(self, name: str) -> RLock:
        return self.rlock(name)

    def _multi(self, parts: list[LockKeys | Holds], chosen: Settings) -> MultiLock:
        from fencelock.blocking.multi import MultiLock  # noqa: PLC0415 - few programs use it

        return MultiLock(self._port, parts, chosen)

    def _election(
        self,
        keys: ElectionKeys,
        chosen: Settings,
        candidate: str,
        on_elected: Callable[[Lease], object] | None,
    ) -> Election:
        from fencelock.blocking.election import Election  # noqa: PLC0415 - few programs use it

        return Election(self._port, keys, chosen, candidate=candidate, on_elected=on_elected)

    def _once(self, name: str, chosen: Settings, terms: OnceSettings) -> Once[Any]:
        from fencelock.blocking.once import Once  # noqa: PLC0415 - it needs templates

        return Once(self._port, self._defaults.key_prefix, name, chosen, terms)

    def _guarded(
        self,
        plan: NameTemplate,
        handle: Callable[[str], Lock],
        on_busy: str,
    ) -> Callable[..., Any]:
        from fencelock._handles.name_template import refuse_coroutine  # noqa: PLC0415 - inspect is slow

        def guarded(*args: Any, **kwargs: Any) -> Any:
            result = self._call_locked(plan.call(args, kwargs), handle, on_busy)
            return refuse_coroutine(result, plan.function)

        return guarded

    def _call_locked(self, call: DecoratedCall, handle: Callable[[str], Lock], on_busy: str) -> Any:
        lock = handle(call.name)
        me = (process.generation, thread_unit(), self._keys(call.name).lock)
        mark, began = RunningCalls(self._within, me), False
        try:
            if mark.found:
                raise nested_call_error(call.name, self._defaults.server)
            with lock as lease:
                began = True
                try:
                    mark.put()
                    return call.into(lease)
                finally:
                    mark.clear()
        except NotAcquired:
            if began or on_busy != "skip":
                raise
            return None

    def close(self) -> None:
        """Close idle connections; leases that are still held end by their ttl.

        Waits up to 1 s for clean-ups that are under way. Using the client's locks afterwards
        raises ClientClosed.
        """
        self._port.shut()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def __repr__(self) -> str:
        """Show the source, without passwords."""
        return f"<fencelock.Client of {self._port.source.label}>"
