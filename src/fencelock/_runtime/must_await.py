"""Coroutines whose truth value is an error: ``if lock.acquire():`` without ``await`` is none.

Such a mistake would enter the body without the lock, as any coroutine is true. What is returned is
a coroutine to all that takes one (asyncio, anyio, ``inspect``), and the coroutine inside it warns
if it was never awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import update_wrapper
from types import CoroutineType, FunctionType, MethodType

from fencelock._runtime.typed import Any, Final, NoReturn

# The methods that say yes or no.
ASKING: Final = ("acquire", "campaign", "is_set", "locked", "owned", "wait")


class Pending(Coroutine[Any, Any, Any]):
    """What a call returns that is to be awaited."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: CoroutineType[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        """Await it."""
        return self._coroutine.__await__()

    def __bool__(self) -> bool:
        """Refuse to be a condition: no answer has come."""
        name = self._coroutine.__qualname__
        raise TypeError(f"{name}() has no answer yet: await it")

    async def __aenter__(self) -> NoReturn:
        """Refuse to be a block: that is the object's, not its call's."""
        self._coroutine.close()
        name = self._coroutine.__qualname__
        raise TypeError(f"{name}() is no block: await it, or give `async with` the object itself")

    async def __aexit__(self, *error: object) -> None:
        """Never run: no block is entered. Python asks for it first."""

    def send(self, value: Any) -> Any:
        """Go on, as a coroutine does."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in it."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End it."""
        self._coroutine.close()

    def __getattr__(self, name: str) -> Any:
        """Return what else a coroutine has: its frame, its code, what it awaits, its names."""
        return getattr(self._coroutine, name)

    def __repr__(self) -> str:
        """Show what is to be awaited."""
        return f"<{self._coroutine.__qualname__}() to be awaited>"

    # For ``inspect.iscoroutine``, which anyio asks.
    __class__ = property(lambda _: CoroutineType)


class MustAwait:
    """A method whose calls return what must be awaited; for ``inspect`` a coroutine function."""

    def __init__(self, method: FunctionType) -> None:
        update_wrapper(self, method)
        self._method = method
        self.__code__ = method.__code__
        self.__defaults__, self.__kwdefaults__ = method.__defaults__, method.__kwdefaults__

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        """Return it as a method of an object."""
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **given: Any) -> Pending:
        """Call it."""
        return Pending(self._method(*args, **given))


def must_await(cls: type) -> None:
    """Have the calls of the methods of a class that say yes or no be awaited before they count."""
    for name in ASKING:
        method = vars(cls).get(name)
        if isinstance(method, FunctionType) and method.__code__.co_flags & 0x80:
            setattr(cls, name, MustAwait(method))
