"""A task that runs on one worker of the fleet, for the lifespan of an application.

Rules of this file:

- The task runs only while this worker leads. When the leadership is lost, the task is cancelled; it
  may run elsewhere from then on.
- A worker resigns only when its task has ended. One that does not end when it is cancelled is named
  in the log, and its leadership ends by its ttl.
- A task that fails is logged. Its worker resigns and pauses, so that another one may try. Failed is
  also one that ends with a CancelledError of its own, such as that of a task that it waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from fencelock import AsyncClient, options
from fencelock._runtime.log import log
from fencelock.aio.lease import AsyncLease
from fencelock.contrib.asgi.disconnect import require_asyncio
from fencelock.errors import ClientClosed, LeaseLost
from fencelock.options import Seconds

Task = Callable[[AsyncLease], Awaitable[object]]

# After a failed task, or an error of the server, a worker leaves the election to others so long.
PAUSE_SECONDS = 5.0
# How long a task may take to end when the application ends: less than what uvicorn and others wait.
END_SECONDS = 5.0


class Leading:
    """Runs ``task(lease)`` on the one worker that leads ``name``, while an application runs.

    Use it as the lifespan of an application, or with ``async with`` inside of one. The worker that
    leads calls ``task``, a coroutine function, with the lease; its ``fence`` and ``check()`` are
    for what the task writes. When the worker dies, another one leads after ``ttl`` at the latest,
    the client's by default; when it is shut down, at once.

    When the task returns, the worker goes on leading and does not call it again. When it fails, the
    error is logged and the worker resigns. It stands again after ``pause`` seconds, 5 by default,
    so that others are elected first. When the leadership is lost, the task is cancelled, and the
    worker stands again. At the end of the application the task is cancelled and given ``timeout``
    seconds, 5 by default: less than what servers wait before they kill.

    Raises:
        TypeError: ``client`` is no ``AsyncClient``, or ``task`` cannot be called.
        ValueError: an option that cannot work.
    """

    def __init__(
        self,
        client: AsyncClient,
        name: str,
        task: Task,
        *,
        candidate: str | None = None,
        ttl: Seconds | None = None,
        pause: Seconds = PAUSE_SECONDS,
        timeout: Seconds = END_SECONDS,
    ) -> None:
        if not isinstance(client, AsyncClient):
            raise TypeError(f"client must be an AsyncClient, not {client!r}")
        if not callable(task):
            raise TypeError(f"task must be a coroutine function that takes a lease, not {task!r}")
        self.name: str = name
        self._task = task
        self._pause = options.positive("pause", pause)
        self._timeout = options.positive("timeout", timeout)
        self._election = client.election(name, candidate=candidate, ttl=ttl, on_lost="cancel")
        self._runner: asyncio.Task[None] | None = None

    @property
    def is_leader(self) -> bool:
        """Return True if this worker leads, as far as it can prove it; sends nothing."""
        return self._election.is_leader

    def __call__(self, _app: object) -> Self:
        """Return this object: it is a lifespan, which is called with the application."""
        return self

    async def __aenter__(self) -> None:
        """Begin to stand for election, in a task of its own.

        Raises:
            RuntimeError: it has begun already, or no event loop of asyncio runs.
        """
        require_asyncio("Leading")
        if self._runner is not None:
            raise RuntimeError(f"Leading of {self.name!r} runs already: make one for each lifespan")
        self._runner = asyncio.create_task(self._run(), name=f"fencelock-leading {self.name}")

    async def __aexit__(self, *_: object) -> None:
        """End the task and resign, within the ``timeout``."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        runner.cancel()
        await asyncio.wait({runner}, timeout=self._timeout)
        if not runner.done():
            text = "the task of %r did not end within %g s of its cancellation: it still leads"
            log.warning(text, self.name, self._timeout)

    async def _run(self) -> None:
        while True:
            try:
                async with self._election as lease:
                    await self._lead(lease)
            except LeaseLost as lost:
                log.info("the task of %r ends here: %s", self.name, lost)
                continue
            except ClientClosed:
                return
            except Exception as error:  # noqa: BLE001 - also of the machine: it stands again (I16)
                log.warning("cannot stand for %r now: %s", self.name, error)
            await asyncio.sleep(self._pause)

    async def _lead(self, lease: AsyncLease) -> None:
        """Run the task; return when it has failed."""
        failed = False
        try:
            await self._task(lease)
        except (Exception, asyncio.CancelledError) as error:
            failed = True
            if isinstance(error, Exception) or not _is_cancelled():
                log.exception("the task of %r failed; another worker may lead", self.name)
        if _is_cancelled():  # whatever the task made of it
            raise asyncio.CancelledError
        if not failed:
            await asyncio.Event().wait()  # it has nothing more to do, and goes on leading


def _is_cancelled() -> bool:
    """Return True if this worker stops, or its leadership is lost."""
    runner = asyncio.current_task()
    return runner is not None and runner.cancelling() > 0
