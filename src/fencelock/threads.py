"""Functions that run in threads, and outlast the task that began them.

Rules of this file:

- A thread cannot be cancelled: the task that began it can. A lock that protects what the thread
  does is held until the thread has ended.
- A function that has not begun when its task is cancelled never begins.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread, and wait for its end even when this task is cancelled.

    As ``asyncio.to_thread``, which leaves the function running when its task is cancelled: by a
    timeout, a client that disconnects, or a lost lease with ``on_lost="cancel"``. A lock around it
    would be released then, while the function still works. Use this one inside ``async with``.

    The cancellation goes on when the function has ended, and what the function returned or raised
    is dropped. A function that waits for a free thread when its task is cancelled never begins.

    Raises:
        asyncio.CancelledError: this task was cancelled; and all that the function raises.
    """
    ticket = [partial(function, *args, **kwargs)]  # for the thread, or the task that gives up

    def begin() -> Any:
        try:
            call = ticket.pop()
        except IndexError:
            return None
        return call()

    context = copy_context()
    future = asyncio.get_running_loop().run_in_executor(None, context.run, begin)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        try:
            ticket.pop()
        except IndexError:
            await ended(future)
        raise


async def ended(future: asyncio.Future[Any]) -> bool:
    """Wait for a future, whatever happens to this task; return True if it was cancelled meanwhile.

    The future's own result or error is dropped.
    """
    cancelled = False
    with _shield():
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError:
                cancelled = True
    if not future.cancelled():
        future.exception()  # asyncio would log it as never retrieved
    return cancelled


def _shield() -> AbstractContextManager[object]:
    """Keep a scope of anyio from cancelling this task in each turn of the loop."""
    anyio = sys.modules.get("anyio")
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)
