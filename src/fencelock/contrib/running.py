"""Which functions of a body still run in threads, so that its lock is held until they have ended.

Rules of this file:

- Frameworks run functions in threads: FastAPI a ``def`` endpoint, Starlette ``run_in_threadpool``,
  Django ``sync_to_async``. When the task is cancelled they go on, and nothing tells when they end.
- Each of them runs the function in a copy of the task's context. A body puts a mark there; a thread
  that runs something in a context with the mark works for the body.
- It is looked for only when a body ends with an error: that is how a cancelled one ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextvars import Context, ContextVar
from functools import partial
from types import BuiltinMethodType, FrameType
from typing import Any, Final, Self

from fencelock.threads import ended

_bodies: ContextVar[tuple[RunningFunctions, ...]] = ContextVar("fencelock_bodies", default=())
# How long until the threads are looked at again: a fraction of what they have taken so far.
LOOK_SECONDS: Final = 0.01
LOOK_SECONDS_MAX: Final = 0.2


class RunningFunctions:
    """The functions that one body runs in threads; ``of`` is the handle that it holds."""

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of: object = of

    def begin(self) -> Self:
        """Mark what this task runs in threads from here on."""
        _bodies.set((*_bodies.get(), self))
        return self

    async def ended(self) -> bool:
        """Wait until none runs; return True if this task was cancelled meanwhile."""
        _bodies.set(tuple(each for each in _bodies.get() if each is not self))
        return await ended(asyncio.ensure_future(self._until_none_runs()))

    async def _until_none_runs(self) -> None:
        await asyncio.sleep(0)  # a pool learns only now what was cancelled before it began
        pause = LOOK_SECONDS
        while self._run():
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LOOK_SECONDS_MAX)

    def _run(self) -> bool:
        """Return True if a thread runs something for this body."""
        if sys.version_info >= (3, 13) and not sys._is_gil_enabled():  # noqa: SLF001 - as below
            return False  # the frames of threads that run cannot be read
        found = sys._current_frames().values()  # noqa: SLF001 - the documented way to them
        return any(self in context.get(_bodies, ()) for one in found for context in _contexts(one))


def running_in(of: object) -> RunningFunctions | None:
    """Return what the newest body of this handle runs, as far as this task knows it."""
    return next((each for each in reversed(_bodies.get()) if each.of is of), None)


def _contexts(frame: FrameType | None) -> Iterator[Context]:
    """Yield the contexts that the frames of one thread run something in."""
    while frame is not None:
        for value in frame.f_locals.values():
            context = _context_of(value)
            if context is not None:
                yield context
        frame = frame.f_back


def _context_of(value: Any) -> Context | None:
    """Return the context that a local variable is, or runs something in.

    Anyio and asgiref keep it in a variable; ``asyncio.to_thread`` gives a pool its bound ``run``.
    """
    if type(value).__module__ == "concurrent.futures.thread":
        task = getattr(value, "task", None)  # from Python 3.14 on
        value = task[0] if isinstance(task, tuple) else getattr(value, "fn", None)
    if type(value) is partial:
        value = value.func
    if type(value) is BuiltinMethodType:
        value = value.__self__
    return value if type(value) is Context else None
