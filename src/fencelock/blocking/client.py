"""The client for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._handles import introspection
from fencelock._handles.lock import OPTION_DEFAULTS, Defaults, Holds, Settings
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.run_blocking import run_blocking
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
from fencelock.options import Acknowledgement, Seconds, Source

if TYPE_CHECKING:
    from fencelock._core.objects.election import ElectionKeys
    from fencelock._handles.decorator import OnceSettings
    from fencelock._handles.name_template import DecoratedCall, NameTemplate
    from fencelock.blocking.barrier import Barrier  # noqa: F401 - named in a base, as text
    from fencelock.blocking.condition import Condition  # noqa: F401 - likewise
    from fencelock.blocking.election import Election
    from fencelock.blocking.event_latch import Event, Latch  # noqa: F401 - likewise
    from fencelock.blocking.multi import MultiLease, MultiLock
    from fencelock.blocking.once import Once
    from fencelock.blocking.rwlock import ReadLock, RWLock, WriteLock  # noqa: F401 - in a base
    from fencelock.blocking.semaphore import BoundedSemaphore, Semaphore  # noqa: F401 - likewise
    from fencelock.status import HistoryEntry, LockStatus, SignalStatus

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
        if self._recorder is not None:
            self._recorder.add(self._port)
        return bool(self._port.nodes), self._port.label

    @staticmethod
    def _later(_port: Any, seconds: float, call: Callable[[], None]) -> bool:
        from fencelock._io.timer_blocking import later  # noqa: PLC0415 - only with a history

        return later(seconds, call)

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

    def _once(self, name: str, chosen: Settings, run_settings: OnceSettings) -> Once[Any]:
        from fencelock.blocking.once import Once  # noqa: PLC0415 - it needs templates

        return Once(self._port, self._defaults.key_prefix, name, chosen, run_settings)

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
        from fencelock._handles.decorator import RunningCalls, nested_call_error  # noqa: PLC0415 - few programs decorate

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

    # -- looking into locks -------------------------------------------------------------------

    def locks(
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
        return run_blocking(
            introspection.locks(
                self._port,
                self._defaults.key_prefix,
                match,
                names,
                waiters=waiters,
                recent=recent,
            )
        )

    def status(self, name: str, *, waiters: int = introspection.LISTED) -> LockStatus:
        """Return who holds the lock, semaphore or reader/writer lock ``name``, and who waits.

        Up to ``waiters`` waiters, and holders of permits, are listed; the numbers are complete. It
        is true for one moment: do not ask whether a lock is free before acquiring it.

        Raises:
            TypeError, ValueError: an argument that cannot work; nothing was sent.
            ServerError: as from acquiring.
            QuorumNotReached: too few nodes answered.
        """
        prefix = self._defaults.key_prefix
        return run_blocking(introspection.status(self._port, prefix, name, waiters))

    def revoke(
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
        return run_blocking(introspection.revoke(self._port, prefix, name, reason, only))

    def signals(
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
            self._port, given.key_prefix, match, names, quorum=given.quorum
        )
        return run_blocking(flow)

    def history(
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
        return run_blocking(introspection.history(self._port, prefix, name, within, limit))

    def close(self, *, release: bool = False, timeout: Seconds = options.SHUTDOWN) -> None:
        """Close idle connections; leases that are still held end by their ttl.

        Waits up to 1 s for answers that are due, and gives back what they grant. Using the
        client's locks afterwards raises ClientClosed, as do the calls that wait for one now.

        With ``release`` the leases are given back, to the next in line: the latest acquired first,
        an election to the next candidate. Their holders lose them before that. It ends within
        ``timeout`` seconds, 5 by default: less than the 10 s after which Docker and others kill a
        process. What was not given back by then is named in the log, and ends by its ttl.

        Raises:
            ValueError: a timeout that is not positive.
        """
        if self._recorder is not None:
            self._recorder.drop(self._port)
        if release:
            self._port.shut(options.positive("timeout", timeout), release=True)
        else:
            self._port.shut()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def __repr__(self) -> str:
        """Show the source, without passwords."""
        port = getattr(self, "_port", None)  # none: its options were refused
        return f"<fencelock.Client of {'nothing' if port is None else port.source.label}>"
