"""What only this face has: the calling task, which can be cancelled, and a port for each loop.

All other files of this folder are the source of those of ``blocking/``, where ``caller.py`` has
the same names.

The calling task is the one that awaits a call, also through ``asyncio.wait_for``. Python 3.11's
``wait_for`` runs a coroutine in a task of its own, which ends with it. No other task could re-enter
or release a hold of that task.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import warnings
from collections.abc import Awaitable, Callable

from fencelock._core.lock.hold import joined
from fencelock._handles.body import Body
from fencelock._io import tasks
from fencelock._io.select_asyncio import LoopPorts
from fencelock._runtime.typed import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from fencelock._core.look.history import Record

Method = TypeVar("Method", bound=Callable[..., Any])

# A callback may be a coroutine function, and a lost lease may cancel the body that relies on it.
ASYNCHRONOUS: Final = True

# A coroutine of this name does nothing but begin a body.
ENTERING: Final = frozenset({"__aenter__", "enter_async_context"})

# A client may be used in several loops.
home_of: Callable[..., Any] = tasks.home_of
in_loop_of: Callable[..., Any] = tasks.in_loop_of
later: Callable[[Any, float, Callable[[], None]], bool] = tasks.later

# Of the methods whose caller matters, where ``wait_for`` runs them in a task of its own.
_by_caller: set[int] = set()  # the ids of their code, whose own hash takes long


def by_caller(method: Method) -> Method:
    """Decorate a method that acquires or releases: around it, ``wait_for`` changes nothing."""
    if sys.version_info < (3, 12):
        _by_caller.add(id(method.__code__))
    return method


def caller() -> asyncio.Task[Any]:
    """Return the task that makes this call."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs, or trio's
        task = None
    if task is None:
        raise RuntimeError("AsyncClient needs asyncio: no task of it makes this call")
    if _by_caller and id(getattr(task.get_coro(), "cr_code", None)) in _by_caller:
        return _who_waits_for(task)
    return task


def task_now() -> asyncio.Task[Any] | None:
    """Return the task that makes this call; None where there is none."""
    try:
        return caller()
    except RuntimeError:
        return None


def _who_waits_for(task: Any) -> asyncio.Task[Any]:
    """Return the task that waits for this one in Python 3.11's ``wait_for``, or this one.

    ``wait_for`` waits for a future, which is set when its task is done; what is called then knows
    the future, and what is called when that is set knows the task that waits.
    """
    for done, _ in task._callbacks or ():  # noqa: SLF001 - as said above
        if getattr(done, "func", None) is asyncio.tasks._release_waiter:  # type: ignore[attr-defined]  # noqa: SLF001 - as above
            for wake, _ in done.args[0]._callbacks or ():  # noqa: SLF001 - as above
                waiting: Any = wake.__self__
                within = getattr(waiting.get_coro(), "cr_code", None) is asyncio.wait_for.__code__
                return _who_waits_for(waiting) if within else waiting
    return task  # type: ignore[no-any-return]  # it is one


def watch(body: Body) -> None:
    """Note the tasks of which a loss cancels one from here on.

    One that was made only to enter ends with that: the body is run by the task that waits for it.
    Where none does yet, a warning says so, which Python shows once for each place.
    """
    tasks: dict[asyncio.Task[Any], int] = {}
    task = entering = asyncio.current_task()
    while task is not None and task not in tasks:
        tasks[task] = task.cancelling()
        task = _who_awaits(task)
    body.task, body.tasks = None, tuple(tasks.items())
    for hold in joined(body.held):
        hold.body = body
    if len(tasks) == 1 and getattr(entering.get_coro(), "__name__", "") in ENTERING:  # type: ignore[union-attr]  # a task calls
        text = (
            'on_lost="cancel" cannot cancel the body: the task that enters it ends before it, and'
            " no task waits for that one; enter it in the task that runs it"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _who_awaits(task: asyncio.Task[Any]) -> asyncio.Task[Any] | None:
    """Return a task that waits for this one, also by ``wait_for``, ``gather`` and the like.

    What is called when a future is done is the method of a task or of a task group, or it knows
    another future: that of the wait.
    """
    looked: list[Any] = [task]
    for future in looked:
        for done, *_ in getattr(future, "_callbacks", None) or ():
            owner = getattr(done, "__self__", None)
            owner = getattr(owner, "_parent_task", owner)
            if isinstance(owner, asyncio.Task):
                return owner
            known = [*getattr(done, "args", ())]
            for cell in getattr(done, "__closure__", None) or ():
                with contextlib.suppress(ValueError):  # its variable is not set
                    known.append(cell.cell_contents)
            looked += [each for each in known if asyncio.isfuture(each) and each not in looked]
    return None


def was_stopped(body: Body, error: BaseException | None) -> bool:
    """Return True if the body ended because its lease was lost, and take that cancellation back.

    As ``asyncio.timeout`` does: a cancellation from elsewhere, on top of ours, goes on.
    """
    task, body.task, body.tasks = body.task, None, ()
    if task is None:
        return False
    stopped: bool = task.uncancel() <= body.cancelling
    return stopped and isinstance(error, asyncio.CancelledError)


async def awaited(result: object) -> None:
    """Await what a callback returned, if it is a coroutine function's."""
    if isinstance(result, Awaitable):
        await result


def result_of(result: Awaitable[Any], function: Callable[..., Any]) -> Awaitable[Any]:
    """Return what a decorated function returned; the caller awaits it."""
    del function  # the twin names it in an error
    return result


def opened(source: object, record: Record | None, **given: Any) -> tuple[Any, bool, str]:
    """Return what gives the running loop's port, if it is a quorum's, and the source's name."""
    ports = LoopPorts(source, record, **given)
    return ports.here, ports.quorum, ports.label
