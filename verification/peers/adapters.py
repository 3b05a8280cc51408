"""Where one user of a lock works: a thread of its own, or a task of its own in a shared loop.

Several libraries keep the token of a lock by thread or by context, so who acquired has to be who
releases. What a user does is written once, as coroutines; in a thread they never suspend.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any

Order = tuple[Coroutine[Any, Any, Any], concurrent.futures.Future[Any]]


async def settled(value: Any) -> Any:
    """Return a value, or what the awaitable gives."""
    return await value if inspect.isawaitable(value) else value


class ThreadDesk:
    """Carries out coroutines that block instead of suspending, one after the other."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._stopped = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def do(self, order: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._orders.put((order, future))
        return future

    def stop(self) -> None:
        self._stopped.set()

    async def pause(self, seconds: float) -> bool:
        """Return True when it was stopped, at the latest after that time."""
        return self._stopped.wait(seconds)

    def alone(self, order: Coroutine[Any, Any, Any]) -> Any:
        """Carry it out in a child process that has just been forked off this desk."""
        return self._run(order)

    def _work(self) -> None:
        while True:
            order, future = self._orders.get()
            try:
                future.set_result(self._run(order))
            except BaseException as error:  # noqa: BLE001 - the future hands it to who asks
                future.set_exception(error)

    @staticmethod
    def _run(order: Coroutine[Any, Any, Any]) -> Any:
        try:
            order.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("it suspended in a thread")


class TaskDesk:
    """The same in a task; ``cancellable`` runs a part in a task that can be cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = contextvars.copy_context()
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._stopped = asyncio.Event()
        self._inner: asyncio.Task[Any] | None = None
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work(), context=self._context)

    def do(self, order: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._orders.put_nowait, (order, future))
        return future

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def pause(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return self._stopped.is_set()

    async def cancellable(self, doing: Callable[[], Any], turns: int | None) -> Any:
        """Await it in a task of the same context; cancelled after so many turns of the loop."""
        self._inner = self._loop.create_task(settled(doing()), context=self._context)
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        if turns is not None:
            self._inner.cancel()
        await asyncio.wait([self._inner])
        return self._inner.result()

    def cancel(self) -> None:
        if self._inner is not None:
            self._loop.call_soon_threadsafe(self._inner.cancel)

    def alone(self, order: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.new_event_loop().run_until_complete(order)

    async def _work(self) -> None:
        while True:
            order, future = await self._orders.get()
            try:
                future.set_result(await order)
            except asyncio.CancelledError as error:
                future.set_exception(RuntimeError(f"cancelled {error}"))
            except BaseException as error:  # noqa: BLE001 - the future hands it to who asks
                future.set_exception(error)


def forked(desk: Any, order: Coroutine[Any, Any, Any]) -> int:
    """Carry it out in a child of this process; return the child's id."""
    pid = os.fork()
    if pid:
        order.close()
        return pid
    try:
        desk.alone(order)
    finally:
        os._exit(0)
