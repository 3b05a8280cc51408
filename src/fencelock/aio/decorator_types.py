"""What ``locked`` returns, for type checkers: kinds of decorators, for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar

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
