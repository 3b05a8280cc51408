"""What only this face has: the calling task, which can be cancelled, and a port for each loop.

All other files of this folder are the source of those of ``blocking/``, where ``caller.py`` has
the same names.

The calling task is the one that awaits a call, also through ``asyncio.wait_for``. Python 3.11's
``wait_for`` runs a coroutine in a task of its own, which ends with it. No other task could re-enter
or release a hold of that task.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from fencelock._io import tasks
from fencelock._io.port_asyncio import AioPort
from fencelock._io.select_asyncio import LoopPorts, port_maker

if TYPE_CHECKING:
    from fencelock._core.look.history import Recorder

Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])
Function = TypeVar("Function", bound=Callable[..., Any])

# A callback may be a coroutine function, and a lost lease may cancel the body that relies on it.
ASYNCHRONOUS: Final = True

# A client may be used in several loops.
home_of: Callable[..., Any] = tasks.home_of
in_loop_of: Callable[..., Any] = tasks.in_loop_of
later: Callable[[Any, float, Callable[[], None]], bool] = tasks.later

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


def from_first_instruction(function: Function) -> Function:
    """Return the function: Ctrl-C cancels a task where it waits, and nowhere else."""
    return function


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


class Cancellable(Protocol):
    """What a loss cancels the body of: a hold, or the use of a leadership."""

    body: Any
    cancelled: bool
    cancelling: int


def watch(held: Cancellable) -> None:
    """Note the task whose body a loss cancels from here on."""
    held.body = asyncio.current_task()
    held.cancelling = held.body.cancelling()


def was_stopped(held: Cancellable, error: BaseException | None) -> bool:
    """Return True if the body ended because its lease was lost, and take that cancellation back.

    As ``asyncio.timeout`` does: a cancellation from elsewhere, on top of ours, goes on.
    """
    body, held.body = held.body, None
    if body is None or not held.cancelled:
        return False
    stopped: bool = body.uncancel() <= held.cancelling
    return stopped and isinstance(error, asyncio.CancelledError)


async def awaited(result: object) -> None:
    """Await what a callback returned, if it is a coroutine function's."""
    if isinstance(result, Awaitable):
        await result


def result_of(result: Awaitable[Any], function: Callable[..., Any]) -> Awaitable[Any]:
    """Return what a decorated function returned; the caller awaits it."""
    del function  # the twin names it in an error
    return result


def opened(source: object, recorder: Recorder | None, **given: Any) -> tuple[Any, bool, str]:
    """Return what gives the running loop's port, if it is a quorum's, and the source's name."""
    maker = port_maker(source, **given)
    if recorder is not None:
        maker = maker._replace(make=partial(_recorded, maker.make, recorder))
    return LoopPorts(maker).here, maker.quorum, maker.label


def _recorded(make: Callable[[], AioPort], recorder: Recorder) -> AioPort:
    """Make a port whose waits and losses are kept; it does not keep the client alive."""
    port = make()
    recorder.add(port)
    return port
