"""What ``bounded_call_blocking.py`` does for threads, for the tasks of a loop.

The loop's own thread pool is not used: a loop that ends waits for all its threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from typing import TypeVar

from fencelock._io.bounded_call_blocking import Work, WorkClaim, under_way
from fencelock._runtime.clock import now
from fencelock._runtime.mutex import mutex

T = TypeVar("T")


async def within(
    until: float, key: Hashable, function: Callable[[], T], *, name: str, lives: object = None
) -> T:
    """Return what the function returns, or raise what it raises; TimeoutError at the instant.

    One result serves all callers with this key at the same time.
    """
    loop = asyncio.get_running_loop()
    bell: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(_set_done, bell)

    claim: WorkClaim[T] = WorkClaim()
    try:
        work = under_way.claim(key, lambda: Work(function, None, lives), name, claim)
        with mutex():
            awaited = work.then(ring)
        if not awaited:
            ring()
        async with asyncio.timeout(max(0.001, until - now())):
            await bell
    except BaseException:
        under_way.leave(key, claim, name)
        raise
    try:
        return work.result()
    finally:
        del work, claim


def _set_done(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
