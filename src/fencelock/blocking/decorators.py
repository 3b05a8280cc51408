# Generated from aio/decorators.py by generate_blocking.py: change that, and run the script.
"""``locked`` and ``once``, for threads."""
# ruff: noqa: PLC0415 - few programs decorate, and each start pays for a module

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._handles.handle import Holds, options_of
from fencelock._runtime import process
from fencelock._runtime.dates import datetime
from fencelock._runtime.later import Later
from fencelock._runtime.process import here
from fencelock.blocking.caller import ASYNCHRONOUS, result_of
from fencelock.blocking.factories import Factories
from fencelock.blocking.lease import BlockingHold, Lease
from fencelock.blocking.lock import Lock
from fencelock.errors import NotAcquired
from fencelock.options import Cohort, LockedOptions, OnceOptions, Queue, Seconds, Wait

if TYPE_CHECKING:
    from fencelock._handles.name_template import DecoratedCall, NameTemplate
    from fencelock.blocking.decorator_types import (
        Decorator,
        DecoratorWithLease,
        SkippingDecorator,
        SkippingDecoratorWithLease,
    )
    from fencelock.blocking.once import Once
else:
    _types = "fencelock.blocking.decorator_types"
    Decorator = Later(_types, "Decorator")
    DecoratorWithLease = Later(_types, "DecoratorWithLease")
    SkippingDecorator = Later(_types, "SkippingDecorator")
    SkippingDecoratorWithLease = Later(_types, "SkippingDecoratorWithLease")
    Once = Later("fencelock.blocking.once", "Once")

OnLost = Callable[[Lease], object]


class Decorators(Factories):
    """The decorators of a client."""

    # The calls of decorated functions that are under way.
    _within: set[tuple[object, ...]]

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: None = None,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> Decorator: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: str,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> DecoratorWithLease: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: None = None,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> SkippingDecorator: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: str,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> SkippingDecoratorWithLease: ...

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
        template: str | None = None,
        cohort: Cohort | None = options.CLIENT_DEFAULT,
        linger: Seconds | None = None,
        deadlock_after: Seconds | None = options.CLIENT_DEFAULT,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function so that each call holds a lock; sends nothing itself.

        ``name`` is a template in the form of ``str.format``: ``"order:{order_id}"`` takes the
        value from the call's arguments, by name, defaults included; ``{self.id}``, ``{days[0]}``
        and ``{day:%Y-%m-%d}`` work, private attributes do not. It is checked here, against the
        function's parameters. ``lease`` names a parameter that is given the lease; callers do not
        pass it. The other options are those of ``lock``; the default of ``template`` is ``name``.

        ``on_busy`` says what a call does when the lock is held: ``"wait"`` waits in line, for
        ``timeout`` seconds at most; ``"skip"`` returns None at once, without a call; ``"raise"``
        raises NotAcquired at once. A call from within itself, with the same name and in the same
        thread or task, would wait for itself for ever: it is busy at once, and raises or skips.

        Methods work. A ``Client`` decorates functions that are not async, an ``AsyncClient`` only
        coroutine functions. Generators are refused, as they run on after the call has returned.

        Raises:
            TypeError, ValueError: the template, the function or an option cannot work.
        """
        from fencelock._handles.decorator import HANDLES_KEPT, decorated_options
        from fencelock._handles.name_template import NameTemplate, template_of

        pattern = template_of(name)
        given = options_of(locals())
        chosen = decorated_options(self._defaults, on_busy, pattern, cancels=ASYNCHRONOUS, **given)

        # Handles are kept for names that come again: making one costs as much as taking the lock.
        @lru_cache(maxsize=HANDLES_KEPT)
        def handle(name: str) -> Lock:
            keys = LockKeys(self._prefix, name)
            return Lock(self._port, Holds(keys, chosen, BlockingHold))

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            plan = NameTemplate(pattern, function, lease=lease, asynchronous=ASYNCHRONOUS)

            def guarded(*args: Any, **kwargs: Any) -> Any:
                return self._call_locked(plan, plan.call(args, kwargs), handle, on_busy)

            return plan.dress(guarded)

        return decorate

    def _call_locked(
        self,
        plan: NameTemplate,
        call: DecoratedCall,
        handle: Callable[[str], Lock],
        on_busy: str,
    ) -> Any:
        """Call the function while the lock is held."""
        from fencelock._handles.decorator import RunningCalls, nested_call_error

        lock = handle(call.name)
        me = (process.generation, here.unit, self._keys(call.name).lock)
        mark, began = RunningCalls(self._within, me), False
        try:
            if mark.found:
                raise nested_call_error(call.name, self._defaults.server)
            with lock as lease:
                began = True
                try:
                    mark.put()
                    return result_of(call.into(lease), plan.function)
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
        lease: None = None,
        **given: Unpack[OnceOptions[OnLost]],
    ) -> Once[None]: ...

    @overload
    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: str,
        **given: Unpack[OnceOptions[OnLost]],
    ) -> Once[Lease]: ...

    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: str | None = None,
        ttl: Seconds | None = None,
        renew: bool = True,
        max_hold: Seconds | None = None,
        timeout: Seconds | None = None,
        on_lost: Callable[[Lease], object] | None = None,
        label: str | None = None,
        template: str | None = None,
    ) -> Once[Any]:
        """Return what runs a function in one of many processes, once a period; sends nothing.

        ``name`` says what is run, best with the period in it: ``"draw:2026-11-21"``. Its result is
        kept for ``within`` seconds from the start of the run, and for a tenth of that, at most
        10 s, after its end: until then it is not run again, however quickly it ended. Choose
        ``within`` longer than the clocks of your hosts are apart, and shorter than the period of a
        name that stays the same.

        While it runs it holds the lock ``name``, with a lease of ``ttl`` that is renewed. Others
        return at once; with ``wait`` they wait for its result, at most ``timeout`` seconds, and
        run it themselves when it fails. ``lease`` names a parameter of the function that is given
        the lease. The other options are those of ``lock``.

        Raises:
            TypeError, ValueError: an option that cannot work; nothing was sent.
        """
        from fencelock._handles.decorator import once_settings

        options.refuse_over_quorum(self._defaults.quorum, "once")
        given = options_of(locals())
        chosen, run_settings = once_settings(
            self._defaults, self._within, within=within, lease=lease, cancels=ASYNCHRONOUS, **given
        )
        title = options.lock_name(name)
        return Once(self._port, self._prefix, title, chosen, run_settings)
