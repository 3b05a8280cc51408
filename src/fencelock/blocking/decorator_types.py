# Generated from aio/decorator_types.py by generate_blocking.py: change that, and run the script.
"""What ``locked`` returns, for type checkers: kinds of decorators, for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

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
