"""The calling task: the task that awaits a call, also through ``asyncio.wait_for``.

Python 3.11's ``wait_for`` runs a coroutine in a task of its own, which ends with it. No other task
could re-enter or release a hold of that task.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])

# Tasks of ``wait_for``, by the task that waits in it.
_callers: dict[asyncio.Task[Any], asyncio.Task[Any]] = {}


def by_caller(method: Method) -> Method:
    """Decorate a method that acquires or releases: around it, ``wait_for`` changes nothing."""
    if sys.version_info >= (3, 12):
        return method

    @wraps(method)
    def call(*args: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        if len(args) != 1 or options:
            method(*args, **options).close()  # arguments that do not fit are an error here
        return _as_caller(task_now(), method, args, options)

    # As ``asyncio.coroutine`` marked it: for ``asyncio.iscoroutinefunction``.
    mark: Any = asyncio.coroutines
    call._is_coroutine = mark._is_coroutine  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    return call  # type: ignore[return-value]  # it is called and awaited as the method is


def caller() -> asyncio.Task[Any]:
    """Return the task that makes this call."""
    task = task_now()
    if task is None:
        raise RuntimeError("fencelock's asyncio face must be used from a task")
    return task


def task_now() -> asyncio.Task[Any] | None:
    """Return the task that makes this call; None where no loop runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs yet, as for ``asyncio.run(lock.acquire())``
        return None
    return _callers.get(task, task) if _callers and task is not None else task


async def _as_caller(
    task: asyncio.Task[Any] | None,
    method: Callable[..., Coroutine[Any, Any, Any]],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Run a method; its coroutine is made here, as a task may be cancelled before it begins."""
    current = asyncio.current_task()
    if task is current or task is None or current is None or not _waits_for(task, current):
        return await method(*args, **options)
    _callers[current] = task
    try:
        return await method(*args, **options)
    finally:
        del _callers[current]


def _waits_for(task: asyncio.Task[Any], other: asyncio.Task[Any]) -> bool:
    """Return True if a task waits for the other one in ``asyncio.wait_for``."""
    coroutine: Any = task.get_coro()
    while coroutine is not None:
        if getattr(coroutine, "cr_code", None) is asyncio.wait_for.__code__:
            waited = coroutine.cr_frame.f_locals.get("fut")
            if waited is other:
                return True
            coroutine = waited.get_coro() if isinstance(waited, asyncio.Task) else None
        else:
            coroutine = getattr(coroutine, "cr_await", None)
    return False
