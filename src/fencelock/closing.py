"""Give back all that this process holds, before it ends: ``shutdown`` and ``ashutdown``.

Rules of this file:

- Each client is closed by itself, all at once: one whose server is silent holds up no other.
- A client of asyncio is closed in its loop. One whose loop does not run cannot be closed: the names
  of its leases are in the log, and they end by their ttl.
- A signal handler may call ``shutdown`` at any instant, also where the interrupted code is inside
  the mutex. Then a thread does it after the unlock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from functools import partial

from fencelock import options
from fencelock._io import process_ports
from fencelock._io.port_asyncio import AioPort
from fencelock._io.port_blocking import BlockingPort
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import inside, put_off, started
from fencelock.options import Seconds

# A client is given the time, and this much more to tell that it did not suffice.
SLACK_SECONDS = 0.05


def shutdown(*, timeout: Seconds = options.SHUTDOWN) -> bool:
    """Close all clients of this process and give back all that they hold.

    What ``close(release=True)`` does to one client is done to all, at once: waiting calls end with
    ClientClosed, holders lose their leases, and the next in line are granted. Call it when the
    work has ended, or where it cannot go on. Clients of asyncio are closed in their loops, which
    run in other threads. A client that is made afterwards can be used.

    Ends within ``timeout`` seconds, 5 by default: less than the 10 s after which Docker and others
    kill a process. Returns True when the servers confirmed that all was given back. Otherwise the
    log names what was not, which ends by its ttl. A signal handler may call it; if that interrupts
    fencelock itself, it returns False and the work is done in a thread, a moment later. What a
    client holds in a loop that has ended is not given back.

    Raises:
        RuntimeError: it is called in a running event loop, where ``await ashutdown()`` is right.
        ValueError: a timeout that is not positive.
    """
    seconds = options.positive("timeout", timeout)
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - its public twin raises when there is none
        raise RuntimeError("shutdown() blocks this event loop: use `await fencelock.ashutdown()`")
    if inside():
        put_off(partial(shutdown, timeout=seconds))
        return False
    until, given = now() + seconds, True
    for each in _begin(seconds):
        try:
            given &= each.result(max(0.0, until + SLACK_SECONDS - now()))
        except (TimeoutError, CancelledError):  # late, or its loop ended meanwhile
            given = False
    return given


async def ashutdown(*, timeout: Seconds = options.SHUTDOWN) -> bool:
    """Close all clients of this process and give back all that they hold.

    As ``shutdown``, for code that runs in an event loop. Clients that belong to it are closed in
    it; those of other loops in theirs, and blocking ones in threads.

    Raises:
        ValueError: a timeout that is not positive.
    """
    seconds = options.positive("timeout", timeout)
    until = now() + seconds
    loop = asyncio.get_running_loop()
    here = [loop.create_task(_shut(port, seconds)) for port in _open_ports(loop)]
    others = [asyncio.wrap_future(each) for each in _begin(seconds, but=loop)]
    if not here and not others:
        return True
    done, late = await asyncio.wait([*here, *others], timeout=until - now() + SLACK_SECONDS)
    for each in late:
        each.cancel()
    return not late and all(map(_gave_back, done))


def _gave_back(closed: asyncio.Future[bool]) -> bool:
    """Return what a close returned; False when it failed, or its loop ended meanwhile."""
    if closed.cancelled():
        return False
    error = closed.exception()
    if isinstance(error, Exception):
        log.warning("a client could not be closed: %s", error)
    return error is None and closed.result()


def _begin(seconds: float, but: asyncio.AbstractEventLoop | None = None) -> Sequence[Future[bool]]:
    """Begin to close all clients, except those of one loop."""
    ports = [each for each in process_ports.watched(AioPort) if each.loop.is_running()]
    # First: what another client gives back may be what the last task of a loop waits for.
    for each in ports:
        each.lines.closed = True
    futures = [
        asyncio.run_coroutine_threadsafe(_shut(each, seconds), each.loop)
        for each in ports
        if each.loop is not but
    ]
    return futures + [_in_thread(port, seconds) for port in process_ports.watched(BlockingPort)]


def _open_ports(loop: asyncio.AbstractEventLoop) -> Sequence[AioPort]:
    return [port for port in process_ports.watched(AioPort) if port.loop is loop]


async def _shut(port: AioPort, seconds: float) -> bool:
    """Close a client of asyncio, also when its loop ends because its waits and leases end.

    ``asyncio.run`` cancels all tasks once, this one too, and waits for their ends: what is left of
    the work is done then.
    """
    until = now() + seconds
    _end_history(port)
    held = process_ports.held_by(port)
    try:
        return await port.shut(seconds, release=True)
    except asyncio.CancelledError:
        if now() >= until:
            raise
        confirmed = not held or bool(process_ports.held_by(port))  # else a release was cut off
        return await port.shut(until - now(), release=True) and confirmed


def _end_history(port: AioPort | BlockingPort) -> None:
    """Send what the client's history has noted, while there is a connection."""
    if port.recorder is not None:
        port.recorder.drop()


def _in_thread(port: BlockingPort, seconds: float) -> Future[bool]:
    """Close a client in a thread of its own, or here if none can be started."""
    future: Future[bool] = Future()

    def close() -> None:
        try:
            _end_history(port)
            future.set_result(port.shut(seconds, release=True))
        except BaseException as error:  # noqa: BLE001 - its caller waits in another thread
            future.set_exception(error)

    thread = threading.Thread(target=close, name="fencelock-shutdown")
    if started(thread) is not None:
        close()
    return future
