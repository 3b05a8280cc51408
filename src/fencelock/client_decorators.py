"""``locked`` and ``once``, written once for both clients.

A client's own part is the call of a decorated function: it blocks a thread, or is awaited.
``client_base`` says how the classes of a face come into the signatures, and why some imports are
inside functions.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Unpack, overload

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._handles.lock import Settings
from fencelock._handles.quorum_limits import refuse
from fencelock.client_base import ClientBase, LockT, OnLost
from fencelock.options import LockedOptions, OnceOptions, Seconds

if TYPE_CHECKING:
    from fencelock._handles.decorator import OnceSettings
    from fencelock._handles.name_template import NameTemplate

# What ``locked`` returns: with ``lease=`` or without, and with ``on_busy="skip"`` or without.
AnyDecorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
PlainT = TypeVar("PlainT", bound=AnyDecorator)
WithLeaseT = TypeVar("WithLeaseT", bound=AnyDecorator)
SkippingT = TypeVar("SkippingT", bound=AnyDecorator)
SkippingWithLeaseT = TypeVar("SkippingWithLeaseT", bound=AnyDecorator)
# What ``once`` returns: without a lease, with one, and either.
OnceT = TypeVar("OnceT")
OnceWithLeaseT = TypeVar("OnceWithLeaseT")
AnyOnceT = TypeVar("AnyOnceT")


class LockedFactory(
    ClientBase, Generic[LockT, OnLost, PlainT, WithLeaseT, SkippingT, SkippingWithLeaseT]
):
    """The decorator ``locked``."""

    _lock: Callable[[Any, LockKeys, Settings], LockT]

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: None = None,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> PlainT: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "raise"] = "wait",
        lease: str,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> WithLeaseT: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: None = None,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> SkippingT: ...

    @overload
    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["skip"],
        lease: str,
        **given: Unpack[LockedOptions[OnLost]],
    ) -> SkippingWithLeaseT: ...

    def locked(
        self,
        name: str,
        *,
        on_busy: Literal["wait", "skip", "raise"] = "wait",
        lease: str | None = None,
        **given: Unpack[LockedOptions[OnLost]],
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
        from fencelock._handles.decorator import HANDLES_KEPT, decorated_settings
        from fencelock._handles.name_template import NameTemplate, template_of

        template = template_of(name)
        cancels = self._asynchronous
        chosen = decorated_settings(self._defaults, on_busy, template, cancels=cancels, **given)

        # Handles are kept for names that come again: making one costs as much as taking the lock.
        @lru_cache(maxsize=HANDLES_KEPT)
        def handle(name: str) -> LockT:
            return self._lock(self._port, LockKeys(self._defaults.key_prefix, name), chosen)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            plan = NameTemplate(template, function, lease=lease, asynchronous=self._asynchronous)
            return plan.dress(self._guarded(plan, handle, on_busy))

        return decorate

    def _guarded(
        self,
        plan: NameTemplate,
        handle: Callable[[str], LockT],
        on_busy: str,
    ) -> Callable[..., Any]:
        """Return what runs instead of the function: it holds the lock during the call."""
        raise NotImplementedError


class OnceFactory(ClientBase, Generic[OnLost, OnceT, OnceWithLeaseT, AnyOnceT]):
    """The factory of what runs once."""

    @overload
    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: None = None,
        **given: Unpack[OnceOptions[OnLost]],
    ) -> OnceT: ...

    @overload
    def once(
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: str,
        **given: Unpack[OnceOptions[OnLost]],
    ) -> OnceWithLeaseT: ...

    def once(  # type: ignore[misc]  # a client's AnyOnceT is both OnceT and OnceWithLeaseT
        self,
        name: str,
        *,
        within: Seconds,
        wait: bool = False,
        lease: str | None = None,
        **given: Unpack[OnceOptions[OnLost]],
    ) -> AnyOnceT:
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

        refuse(self._defaults.quorum, "once")
        chosen, run_settings = once_settings(
            self._defaults,
            self._within,
            within=within,
            wait=wait,
            lease=lease,
            cancels=self._asynchronous,
            **given,
        )
        return self._once(options.lock_name(name), chosen, run_settings)

    def _once(self, name: str, chosen: Settings, run_settings: OnceSettings) -> AnyOnceT:
        raise NotImplementedError
