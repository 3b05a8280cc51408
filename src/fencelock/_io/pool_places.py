"""A thread of a pool that waits for a lock gives its place in the pool to another thread meanwhile.

Rules of this file:

- A pool has few threads. If all of them wait for a lock, the thread that would release it never
  runs, and the holder's lease is renewed for ever. So a thread that waits does not count: its pool
  may have one thread more until the wait ends, as in Java's ``ForkJoinPool.ManagedBlocker``.
- Two pools are known, in which programs begin and end what they hold in different calls: anyio's,
  in which FastAPI and Starlette run ``def`` functions, and that of ``asyncio.to_thread``.
- Pools that a program made itself keep their size: some have one thread for a reason.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from fencelock._runtime.typed import Any, Final

# What asyncio calls the threads of a loop's own pool.
ASYNCIO: Final = "asyncio_"
Change = Callable[[int], None]


def lend_place() -> Change | None:
    """Let this thread's pool have one thread more.

    Return what changes the number of its threads, to be called with -1 when the wait has ended;
    None in a thread of no pool that is known.
    """
    change = _of_anyio() or _of_asyncio()
    if change is not None:
        change(1)
    return change


def _of_anyio() -> Change | None:
    """Return what changes the number of threads that anyio may use, in a thread of its pool."""
    if "anyio.to_thread" not in sys.modules:
        return None
    from anyio import from_thread, to_thread  # noqa: PLC0415 - it is there, or not needed

    try:
        limiter = from_thread.run_sync(to_thread.current_default_thread_limiter)
    except RuntimeError:  # this is no thread of its pool, or its loop has ended
        return None

    def change(by: int) -> None:
        limiter.total_tokens += by

    def in_loop(by: int) -> None:
        with suppress(RuntimeError):  # the loop has ended
            from_thread.run_sync(change, by)

    return in_loop


def _of_asyncio() -> Change | None:
    """Return what changes the size of the pool of ``asyncio.to_thread``, in a thread of it."""
    if not threading.current_thread().name.startswith(ASYNCIO):
        return None
    frame: Any = sys._getframe()  # noqa: SLF001 - a pool's thread has its pool in a variable only
    while frame is not None and frame.f_code.co_name != "_worker":
        frame = frame.f_back
    found = None if frame is None else frame.f_locals.get("executor_reference")
    pool: Any = None if found is None else found()
    if not hasattr(pool, "_max_workers"):
        return None

    def change(by: int) -> None:
        with pool._shutdown_lock:  # noqa: SLF001 - as ``submit`` does
            pool._max_workers += by  # noqa: SLF001 - there is no public way to let it grow
            # Not as its loop ends: that waits for each thread there is.
            if by > 0 and not pool._shutdown and pool._work_queue.qsize():  # noqa: SLF001 - as above
                pool._adjust_thread_count()  # noqa: SLF001 - as above

    return change
