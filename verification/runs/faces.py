"""Both faces as the workers use them: one surface that blocks, handles that are not kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from tests.faults import world


class _Shared:
    """Keeps no handle, unlike the faces of the tests: a client lives long and makes many."""

    client: Any
    _wrapped: Any

    def _make(self, handle: Any) -> Any:
        return self._wrapped(handle)

    def read(self, name: str, **options: Any) -> Any:
        return self._wrapped(self.client.rwlock(name, **options).read)

    def write(self, name: str, **options: Any) -> Any:
        return self._wrapped(self.client.rwlock(name, **options).write)


class Threads(_Shared, world.Threads):
    """The blocking face."""

    def work_here(self) -> None:
        """Work in this thread; there is nothing to do."""

    def revive(self) -> None:
        """Make usable in a child process; there is nothing to do."""


class Tasks(_Shared, world.Tasks):
    """The asyncio face, on a loop of its own thread; each thread that works is one task there."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._mine = threading.local()

    def work_here(self) -> None:
        """Have all calls of this thread made by one task, since a side belongs to its task."""
        self._mine.calls = super().run(self._begin_task())

    async def _begin_task(self) -> asyncio.Queue[Any]:
        calls: asyncio.Queue[Any] = asyncio.Queue()
        self._kept = asyncio.create_task(_serve(calls)), getattr(self, "_kept", None)
        return calls

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        calls = getattr(self._mine, "calls", None)
        if calls is None:
            return super().run(coroutine)
        future: Future[Any] = Future()
        self.loop.call_soon_threadsafe(calls.put_nowait, (coroutine, future))
        return future.result(60)

    def revive(self) -> None:
        """Make usable in a child process, where the thread of the loop does not run."""
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()


def acquire(handle: Any, cancel_after: float | None, **how: Any) -> bool | None:
    """Acquire; None when it was cancelled after so many seconds. Nothing cancels a thread."""
    if cancel_after is None or not isinstance(handle, world.OnLoop):
        return bool(handle.acquire(**how))
    granted: bool | None = handle._face.run(_cancelled(handle._inner.acquire(**how), cancel_after))
    return granted


async def _cancelled(acquire: Coroutine[Any, Any, bool], seconds: float) -> bool | None:
    try:
        async with asyncio.timeout(seconds):
            return await acquire
    except TimeoutError:
        return None


async def _serve(calls: asyncio.Queue[Any]) -> None:
    while True:
        coroutine, future = await calls.get()
        try:
            future.set_result(await coroutine)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the future hands it to who asks
            future.set_exception(error)


FACES: dict[str, Any] = {face.name: face for face in (Threads, Tasks)}
