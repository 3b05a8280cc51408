"""A middleware that cancels a request whose client has gone.

Rules of this file:

- Messages are read ahead only after the last one of the body, so that a large upload is not kept in
  memory: a client that goes before is seen by the application when it reads on.
- Once the response is complete, nothing is cancelled.
- The request is cancelled by a scope of anyio: it lets ``run_sync``, in which Starlette and FastAPI
  run functions, wait for its thread. Frameworks without anyio do not have that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

try:
    import anyio as _anyio
except ImportError:  # then no framework is there that needs it
    anyio: Any = None
else:
    anyio = _anyio

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def require_asyncio(what: str) -> None:
    """Raise RuntimeError where another library runs the tasks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        text = f"{what} needs asyncio: give hypercorn -k asyncio or -k uvloop, not trio"
        raise RuntimeError(text) from None


class CancelOnDisconnect:
    """Cancels the request of a client that disconnects before its response is complete.

    Servers and frameworks let such a request run to its end, and what it holds stays held until
    then. With this middleware its task is cancelled, so that each ``async with`` releases. A
    function that runs in a thread, by Starlette's ``run_in_threadpool`` or anyio's ``run_sync``,
    cannot be cancelled: it is waited for. One that ``asyncio.to_thread`` began is not.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application.

        Raises:
            RuntimeError: no event loop of asyncio runs.
        """
        require_asyncio("CancelOnDisconnect")
        if scope["type"] == "http":
            await _Exchange(self._app, scope, receive, send).run()
        else:
            await self._app(scope, receive, send)


class _Exchange:
    """One request and its response."""

    def __init__(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        self._app, self._scope = app, scope
        self._receive, self._send = receive, send
        self._body_read = asyncio.Event()
        self._gone = asyncio.Event()
        self._ready = asyncio.Event()  # the first message was read
        self._first: Message | None = None  # read ahead: a request without a body, most often
        self._answered = False
        self._cancel: Callable[[], object]

    async def run(self) -> None:
        """Run the application until it ends, or its client has gone."""
        work = asyncio.ensure_future(self._run_app())
        self._cancel = work.cancel
        watch = asyncio.create_task(self._watch(), name="fencelock-disconnect")
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and self._gone.is_set() and not self._answered:
                self._cancel()
                await asyncio.wait({work})
                if work.cancelled():
                    return
            await work
        except asyncio.CancelledError:
            self._cancel()
            await asyncio.wait({work})
            raise
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    async def _run_app(self) -> None:
        if anyio is None:
            await self._app(self._scope, self._next, self._sent)
            return
        with anyio.CancelScope() as scope:
            self._cancel = scope.cancel
            await self._app(self._scope, self._next, self._sent)

    async def _watch(self) -> None:
        """Wait for the client to go, once there is no more of its body to read."""
        self._first = await self._receive()
        self._note(self._first)
        self._ready.set()
        await self._body_read.wait()
        while not self._gone.is_set():
            self._note(await self._receive())

    def _note(self, message: Message) -> None:
        """Note the end of the body, and that the client has gone."""
        if not message.get("more_body", False):
            self._body_read.set()
        if message["type"] == "http.disconnect":
            self._gone.set()

    async def _next(self) -> Message:
        """Return the next message to the application."""
        await self._ready.wait()
        if self._first is not None:
            message, self._first = self._first, None
            return message
        if not self._body_read.is_set():
            message = await self._receive()
            self._note(message)
            return message
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _sent(self, message: Message) -> None:
        """Send for the application."""
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._answered = True
