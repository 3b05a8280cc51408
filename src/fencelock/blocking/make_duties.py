"""What a client decorates and makes of locks, for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from fencelock import options, process
from fencelock._core.keys import LockKeys
from fencelock._ports.blocking import BlockingPort
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock
from fencelock.decorated import (
    HANDLES_KEPT,
    UnderWay,
    decorated_settings,
    once_settings,
    within_itself,
)
from fencelock.errors import NotAcquired
from fencelock.handles import Defaults, settings
from fencelock.options import Queue, Seconds, Wait
from fencelock.process import thread_unit
from fencelock.quorums import refuse

if TYPE_CHECKING:
    from fencelock.blocking.election import Election
    from fencelock.blocking.multi import MultiLease, MultiLock
    from fencelock.blocking.once import Once
    from fencelock.blocking.rwlock import ReadLock, WriteLock
    from fencelock.blocking.semaphore import Semaphore
    from fencelock.templates import Call

P = ParamSpec("P")
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


class MakesDuties:
    """``Client``'s part: ``locked``, ``once``, ``multi`` and ``election``."""

    _defaults: Defaults
    _port: BlockingPort
    _within: set[tuple[object, ...]]

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: None = None,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = ...,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Callable[[Function], Function]: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: str,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = ...,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Callable[[Callable[..., T]], Callable[..., T]]: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: None = None,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = ...,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Callable[[Callable[P, T]], Callable[P, T | None]]: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: str,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = ...,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Callable[[Callable[..., T]], Callable[..., T | None]]: ...

    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "skip", "raise"] = "wait",
        lease: str | None = None,
        ttl: Seconds | datetime | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        wait: Wait = Queue(),  # noqa: B008 - immutable
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function so that each call holds a lock; sends nothing itself.

        ``name`` is a template in the form of ``str.format``: ``"order:{order_id}"`` takes the
        value from the call's arguments, by name, defaults included; ``{self.id}``, ``{days[0]}``
        and ``{day:%Y-%m-%d}`` work, private attributes do not. It is checked here, against the
        function's parameters. ``lease`` names a parameter that is given the lease; callers do not
        pass it. The other options are those of ``lock``.

        ``on_busy`` says what a call does when the lock is held: ``"wait"`` waits in line, for
        ``timeout`` seconds at most; ``"skip"`` returns None at once, without a call; ``"raise"``
        raises NotAcquired at once. A call from within itself, with the same name and in the same
        thread, would wait for itself for ever: it is busy at once, and raises or skips.

        Methods work. Coroutine functions need ``AsyncClient``. Generators are
        refused, as they run on after the call has returned.

        Raises:
            TypeError, ValueError: the template, the function or an option cannot work.
        """
        from fencelock.templates import Plan, refuse_coroutine, template_of  # noqa: PLC0415 - inspect is slow

        template = template_of(name)
        chosen = decorated_settings(
            self._defaults,
            on_busy,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            max_renewals=max_renewals,
            timeout=timeout,
            wait=wait,
            on_lost=on_lost,
            label=label,
            cancels=False,
        )

        # Handles are kept for names that come again: making one costs as much as taking the lock.
        @lru_cache(maxsize=HANDLES_KEPT)
        def handle(name: str) -> Lock:
            return Lock(self._port, LockKeys(self._defaults.key_prefix, name), chosen)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            plan = Plan(template, function, lease=lease, asynchronous=False)

            def guarded(*args: Any, **kwargs: Any) -> Any:
                result = self._call_locked(plan.call(args, kwargs), handle, on_busy)
                return refuse_coroutine(result, function)

            return plan.dress(guarded)

        return decorate

    def _call_locked(self, call: Call, handle: Callable[[str], Lock], on_busy: str) -> Any:
        lock = handle(call.name)
        me = (process.generation, thread_unit(), lock._holds.keys.lock)
        mark, began = UnderWay(self._within, me), False
        try:
            if mark.found:
                raise within_itself(call.name, self._defaults.server)
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

    @overload
    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        timeout: Seconds | None = None,
        lease: None = None,
        ttl: Seconds | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Once[None]: ...

    @overload
    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        timeout: Seconds | None = None,
        lease: str,
        ttl: Seconds | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Once[Lease]: ...

    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        timeout: Seconds | None = None,
        lease: str | None = None,
        ttl: Seconds | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Once[Any]:
        """Return what runs a function in one of many processes, once a period; sends nothing.

        ``name`` says what is run, best with the period in it: ``"draw:2026-11-21"``. Its result is
        kept for ``within`` seconds from the start of the run, and for a tenth of that, at most
        10 s, after its end: until then nobody runs it again, however quickly it ended. Choose
        ``within`` longer than the clocks of your hosts are apart, and shorter than the period of a
        name that stays the same.

        While it runs it holds the lock ``name``, with a lease of ``ttl`` that is renewed. Others
        return at once; with ``wait`` they wait for its result, at most ``timeout`` seconds, and
        run it themselves when it fails. ``lease`` names a parameter of the function that is given
        the lease. The other options are those of ``lock``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "once")
        from fencelock.blocking.once import Once  # noqa: PLC0415 - it needs templates, as above

        chosen, terms = once_settings(
            self._defaults,
            self._within,
            within=within,
            wait=wait,
            timeout=timeout,
            lease=lease,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            on_lost=on_lost,
            label=label,
            cancels=False,
        )
        prefix = self._defaults.key_prefix
        return Once(self._port, prefix, options.lock_name(name), chosen, terms)

    def multi(
        self,
        names: Iterable[str | Lock | ReadLock | WriteLock | Semaphore],
        *,
        ttl: Seconds | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        max_renewals: int | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[MultiLease], object] | None = None,
        label: str | None = None,
    ) -> MultiLock:
        """Return a handle of several locks that are taken all or none; sends nothing.

        ``names`` are 1 to 100 different names of locks, in any order. A handle of this client may
        stand for its name: a ``Lock``, a side of a reader/writer lock (``rwlock.read``), or a
        semaphore, of which one permit is taken. It says what is taken; its own options do not
        count. ``on_lost`` is called with the lease of all, once, when one of them is lost. The
        other options are those of ``lock``, for each of them; ``timeout`` bounds ``with`` for all
        together. With ``renew=False`` the leases of the first run while the others are waited for.

        Raises:
            TypeError, ValueError: names or an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "multi")
        from fencelock.blocking.multi import MultiLock  # noqa: PLC0415 - few programs use it
        from fencelock.blocking.rwlock import ReadLock, WriteLock  # noqa: PLC0415 - likewise
        from fencelock.blocking.semaphore import Semaphore  # noqa: PLC0415 - likewise
        from fencelock.multihandle import parts_of  # noqa: PLC0415 - likewise

        chosen = settings(
            self._defaults,
            ttl=ttl,
            renew=renew,
            max_hold=max_hold,
            max_renewals=max_renewals,
            timeout=timeout,
            wait=Queue(),
            on_lost=on_lost,
            label=label,
            cancels=False,
        )
        kinds = (Lock, ReadLock, WriteLock, Semaphore)
        prefix = self._defaults.key_prefix
        parts = parts_of(prefix, names, port=self._port, kinds=kinds)
        return MultiLock(self._port, parts, chosen)

    def election(
        self,
        name: str,
        *,
        candidate: str | None = None,
        ttl: Seconds | None = None,
        timeout: Seconds | None = None,
        on_elected: Callable[[Lease], object] | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
    ) -> Election:
        """Return a candidate of the election ``name``; sends nothing.

        ``candidate`` is its name, printable and of at most 128 bytes: ``host:pid`` by default.
        Names should differ; of two that are the same, a hand-over takes the first in line.
        ``on_elected`` is called with the lease, by ``campaign`` before it returns. ``on_lost`` is
        called with it once the leadership is lost, though not when it was given up. The other
        options are those of ``lock``; ``timeout`` bounds ``with``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        refuse(self._defaults.quorum, "election")
        from fencelock._core.election import ElectionKeys  # noqa: PLC0415 - few programs use it
        from fencelock.blocking.election import Election  # noqa: PLC0415 - likewise
        from fencelock.candidacy import candidate_name  # noqa: PLC0415 - likewise

        chosen = settings(
            self._defaults,
            ttl=ttl,
            renew=True,
            max_hold=None,
            max_renewals=None,
            timeout=timeout,
            wait=Queue(),
            on_lost=on_lost,
            label=label,
            cancels=False,
        )
        return Election(
            self._port,
            ElectionKeys(self._defaults.key_prefix, options.lock_name(name)),
            chosen,
            candidate=candidate_name(candidate),
            on_elected=options.callback("on_elected", on_elected, asynchronous=False),
        )
