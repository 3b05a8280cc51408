"""Run flows of asyncio where they belong: in the loop of their port, or in its background.

As ``threads.py`` for threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from fencelock._core.lock.hold import Hold
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.log import log
from fencelock.errors import FencelockError, ServerUnreachable

if TYPE_CHECKING:
    from fencelock._io.port_asyncio import AioPort

T = TypeVar("T")


async def run_release(flow: Coroutine[Any, Any, T], handle: object, port: AioPort) -> T | None:
    """Await a flow whose caller can go on without its result: where need be, after the unlock.

    A coroutine that the garbage collector closes runs to the end of its ``async with`` wherever its
    thread is. None when the flow was put off; what it raises then is logged. The handle is kept
    until then.
    """
    if not mutexes.owned():
        return await (in_loop_of(port, flow) if port.elsewhere else flow)
    port.loop.call_soon_threadsafe(
        lambda: port.spawn(_release_late(handle, flow), "fencelock-post")
    )
    return None


def home_of(hold: Hold | None, port: AioPort) -> AioPort:
    """Return the port to release a hold by: that of its own loop while it runs, else ``port``.

    The waiters of its cohort are tasks of that loop, and have their places at that port.
    """
    own: Any = None if hold is None else hold.port  # a task's has a loop
    return own if own is not None and own.loop.is_running() and not own.closing else port


async def in_loop_of(port: AioPort, flow: Coroutine[Any, Any, T]) -> T:
    """Await a flow in the loop of its port, from whichever loop.

    Raises ServerUnreachable if that loop does not run: then nothing can be sent there.
    """
    if port.is_here:
        return await flow
    if not port.loop.is_running():
        flow.close()
        raise ServerUnreachable("the event loop in which it was acquired does not run any more")
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(flow, port.loop))


async def _release_late(handle: object, flow: Coroutine[Any, Any, object]) -> None:
    """Run a release that was put off."""
    try:
        await flow
        del handle  # not before: it would report that it was dropped while it held the lock
    except FencelockError as error:
        log.warning("a release of a coroutine that was dropped failed: %s", error)


def later(port: Any, seconds: float, call: Callable[[], None]) -> bool:
    """Call a function after so many seconds, for a port; return False if that cannot be."""
    try:
        port.loop.call_soon_threadsafe(port.loop.call_later, seconds, call)
    except RuntimeError:  # the loop is closed
        return False
    return True
