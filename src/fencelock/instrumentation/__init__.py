"""See into locks: hooks that are called with each event, for metrics, logs, traces and checks.

Nothing is reported until ``set_hooks`` is called. Without a hook an operation pays for one check.

The thread or task that acquires, releases or renews calls the hooks, and waits for them. So a hook
should be quick; it must not block, and must not acquire locks.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from fencelock._core import events
from fencelock._core.events import LockEvent

if TYPE_CHECKING:
    from fencelock.instrumentation.order import OrderChecker, OrderReport, OrderViolation
    from fencelock.instrumentation.order_graph import OrderStep

__all__ = [
    "Hook",
    "HookFactory",
    "LockEvent",
    "OrderChecker",
    "OrderReport",
    "OrderStep",
    "OrderViolation",
    "get_hooks",
    "logging_hook",
    "opentelemetry_hook",
    "prometheus_hook",
    "set_hooks",
    "structlog_hook",
]


@runtime_checkable
class Hook(Protocol):
    """A function that is called with each event; its first error is logged."""

    def __call__(self, event: LockEvent, /) -> object:
        """Take note of an event."""


class HookFactory(events.OwnHook):
    """A hook that is made when the first event comes, with the imports that it needs.

    ``make`` returns the hook. Made hooks are kept, so that each is made once. ``trace`` returns the
    id of the trace that a request belongs to, or None: the server keeps it with the holder or
    waiter, and ``fencelock show`` prints it.
    """

    def __init__(
        self, make: Callable[[], Hook], *, trace: Callable[[], str | None] | None = None
    ) -> None:
        if not callable(make):
            raise TypeError(f"make must be a function that returns a hook, not {make!r}")
        if trace is not None and not callable(trace):
            raise TypeError(f"trace must be a function that returns an id, not {trace!r}")
        self._make = make
        self.trace = trace
        self._hook: Hook | None = None
        self._lock = RLock()  # an event in a finalizer may come while the hook is made

    def __call__(self, event: LockEvent, /) -> None:
        """Pass on an event."""
        (self._hook or self.hook())(event)

    def hook(self) -> Hook:
        """Return the hook; make it if there was no event so far."""
        with self._lock:
            if self._hook is None:
                self._hook = self._make()
                events.sort_by_kind()
            return self._hook

    def __ways__(self) -> Mapping[str, events.Way]:
        """Return what is called for each kind: once it is made, the hook itself."""
        if self._hook is None or type(self).__call__ is not HookFactory.__call__:
            return dict.fromkeys(events.KINDS, (self, None))
        return events.ways_of(self._hook)

    def __repr__(self) -> str:
        """Show what is made, or will be."""
        made = self._hook
        return f"<HookFactory of {self._make if made is None else made!r}>"


def __getattr__(name: str) -> Any:
    """Import the checker of orders when it is first used."""
    if name not in {"OrderChecker", "OrderReport", "OrderStep", "OrderViolation"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.order"), name)


def set_hooks(hooks: Iterable[Hook] | None) -> None:
    """Replace all hooks: from now on each event of this process is reported to these.

    An empty iterable removes all hooks, which is the initial state. None takes the ready hooks
    whose packages are installed: ``structlog_hook()``, without structlog ``logging_hook()``, and
    ``prometheus_hook()``. Locks that are held now are not reported, not even when they end.

    Raises:
        TypeError: ``hooks`` is no iterable, or has something that cannot be called.
    """
    if hooks is not None and not isinstance(hooks, Iterable):
        raise TypeError(f"hooks must be a list of hooks or None, not {hooks!r}")
    wanted: list[Any] = _ready() if hooks is None else list(hooks)
    for each in wanted:
        if not callable(each) or isinstance(each, type):
            raise TypeError(f"a hook is called with an event, and {each!r} cannot be")
    # A hook keeps its module's globals, and so handles, until this package's modules are gone.
    atexit.unregister(events.choose)
    atexit.register(events.choose, ())
    traced = [each.trace for each in wanted if isinstance(each, HookFactory) and each.trace]
    events.choose(wanted, traced)


def get_hooks() -> tuple[Hook, ...]:
    """Return the hooks that ``set_hooks`` has set; factories make theirs if need be.

    Raises:
        ImportError: a hook needs a package that is not installed.
    """
    chosen: tuple[Any, ...] = events.chosen()
    return tuple(each.hook() if isinstance(each, HookFactory) else each for each in chosen)


def _ready() -> list[Any]:
    """Return the ready hooks whose packages are installed."""
    ready = [structlog_hook() if _installed("structlog") else logging_hook()]
    return [*ready, prometheus_hook()] if _installed("prometheus_client") else ready


def _installed(package: str) -> bool:
    return find_spec(package) is not None


def _need(package: str, caller: str, extra: str) -> None:
    """Raise ImportError now: what a hook raises when it is made later is only logged."""
    if not _installed(package):
        text = f"{caller}() needs {package}: install the extra fencelock[{extra}]"
        raise ImportError(text, name=package)


def logging_hook() -> HookFactory:
    """Return a hook that writes each event to the logger ``fencelock.events`` at DEBUG.

    What is known of the event is in the line, and as a dict in the record's attribute
    ``fencelock``, with units in its names.
    """
    return HookFactory(partial(_from, "logs", "LoggingHook"))


def structlog_hook() -> HookFactory:
    """Return a hook that writes each event to structlog's logger at DEBUG, with its fields.

    Raises:
        ImportError: structlog is not installed: ``fencelock[structlog]``.
    """
    _need("structlog", "structlog_hook", "structlog")
    return HookFactory(partial(_from, "logs", "StructlogHook"))


def prometheus_hook(*, registry: Any = None, templates_max: int = 100) -> HookFactory:
    """Return a hook that keeps metrics with ``prometheus_client``.

    ``registry`` is the package's own by default. Labels are ``template`` and ``object``, never a
    name. Templates beyond the first ``templates_max`` are counted together, as ``(other)``.

    Raises:
        ImportError: prometheus_client is not installed: ``fencelock[prometheus]``.
    """
    _need("prometheus_client", "prometheus_hook", "prometheus")
    most = _templates_max(templates_max)
    return HookFactory(partial(_from, "prometheus", "hook", registry, most))


def opentelemetry_hook(
    *,
    spans: bool = False,
    meter_provider: Any = None,
    tracer_provider: Any = None,
    templates_max: int = 100,
) -> HookFactory:
    """Return a hook that keeps metrics with OpenTelemetry, and on request makes spans.

    With ``spans`` each wait and each lease is a span of the trace that the request belongs to, and
    operators see the id of that trace beside the holder or waiter. The providers are the global
    ones by default. ``templates_max`` is as for ``prometheus_hook``.

    Raises:
        ImportError: opentelemetry-api is not installed: ``fencelock[opentelemetry]``.
    """
    _need("opentelemetry", "opentelemetry_hook", "opentelemetry")
    most = _templates_max(templates_max)
    make = partial(_from, "opentelemetry", "hook", spans, meter_provider, tracer_provider, most)
    trace = partial(_from, "opentelemetry", "trace_id") if spans else None
    return HookFactory(make, trace=trace)


def _templates_max(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"templates_max must be a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"templates_max must be at least 1, not {value}")
    return value


def _from(module: str, name: str, *given: Any) -> Any:
    """Return what a function or class of this package makes; it is imported only now."""
    return getattr(import_module(f"{__name__}.{module}"), name)(*given)
