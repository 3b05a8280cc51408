"""What goes on in the turn of the loop that reads an answer: a task, or a flow without a task.

A future has its task wait for the next turn, and the loop look at all its sockets once more before:
for a pair that takes longer than all else that the client does.

Rules of this file:

- A task goes on once all that came with its answer is read, so that it sees the pushes, too, and
  may close the connection. What tells of an error lets it go on in a turn of its own: it may be
  going through a table. So does an answer where tasks run loops inside them (nest_asyncio): such a
  loop could not read, as what reads has not returned.
- A flow begins in the turn that starts it, and goes on in the turn that reads an answer, in a
  callback of the loop: there is no current task until then. A loop that gives way only between long
  blocks has few turns, and renewals must not wait for them.
- When a flow waits for anything else, or is cancelled, a task runs the rest of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any

_WAITED: Any = object()  # in place of an answer that has not come


class Answer:
    """The answer to one request, for the one task or flow that awaits it; to it a future.

    What reads it calls ``set_result``, and then ``wake``.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_error", "_loop", "_reply", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop  # as tasks and asyncio call them, which look at both
        self._asyncio_future_blocking = True
        self._reply = _WAITED
        self._error: BaseException | None = None
        self._wake: Callable[[Any], object] | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        """Return the answer, or raise what came instead."""
        if self._reply is _WAITED:
            yield self
            if self._error is None:
                return self._reply
        return self.result()

    def result(self) -> Any:
        """Return the answer, or raise what came instead."""
        if self._error is None:
            return self._reply
        try:
            raise self._error
        finally:
            del self

    def done(self) -> bool:
        """Return True if nothing is to be set any more."""
        return self._reply is not _WAITED

    def set_result(self, reply: Any, /) -> bool:
        """Take the answer; return True if ``wake`` is to be called."""
        self._reply = reply
        return self._wake is not None

    def set_exception(self, error: BaseException, /) -> None:
        """Take what came instead, and wake the task in a turn of its own."""
        self._reply, self._error = None, error
        self.wake_soon()

    def cancel(self, msg: Any = None) -> bool:
        """Take the cancellation of the task."""
        if self._reply is not _WAITED:
            return False
        self.set_exception(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True

    def add_done_callback(
        self, wake: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """Have the task, or the flow, called once it is done; asyncio's tasks call it so."""
        self._wake, self._context = wake, context
        if self._reply is not _WAITED:
            self.wake_soon()

    def wake(self) -> None:
        """Let the task go on now: nothing else of the loop runs."""
        wake, context = self._wake, self._context
        if wake is None:
            return
        if hasattr(self._loop, "_nest_patched"):  # by nest_asyncio
            self.wake_soon()
            return
        self._wake = None
        try:
            if context is None:
                wake(self)
            else:
                context.run(wake, self)
        except RuntimeError:  # another task runs, of a loop in a loop: it has not begun
            self._loop.call_soon(wake, self, context=context)
        except BaseException as error:  # noqa: BLE001 - SystemExit, Ctrl-C: the loop's, no transport's
            self._loop.call_soon(_raise, error)

    def wake_soon(self) -> None:
        """Let the task go on in a turn of its own."""
        if self._wake is not None:
            self._loop.call_soon(self._wake, self, context=self._context)
            self._wake = None


def _raise(error: BaseException) -> None:
    """Raise what a task has raised for its loop."""
    try:
        raise error
    finally:
        del error


class PromptFlow:
    """A flow that runs at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, flow: Coroutine[Any, Any, None]) -> None:
        self._flow = flow
        self._over = False
        self._answer: Any = None  # that it waits for
        self._left: asyncio.Future[Any] = loop.create_future()  # what the task is to wait for first

    def go_on(self, _answer: object = None) -> None:
        """Run the flow until it waits."""
        if self._left.done():  # it was cancelled
            return
        self._over, waited = True, None
        try:
            self._answer = waited = self._flow.send(None)
            self._over = False
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - the task raises it
            if not self._left.done():
                self._left.set_exception(error)
        finally:  # what ends the loop is raised here, and not by the task once more
            if isinstance(waited, Answer):
                waited.add_done_callback(self.go_on)
            elif not self._left.done():  # it is when the flow has cancelled its task
                self._left.set_result(waited)

    async def rest(self) -> None:
        """Run what is left of the flow, in a task."""
        try:
            first = await self._left
        except asyncio.CancelledError as cancelled:
            if self._over:
                raise
            if self._answer is not None:
                self._answer.cancel()
            await _left_of(self._flow, None, cancelled)
        else:
            if not self._over:
                await _left_of(self._flow, first)

    def end(self, task: asyncio.Task[None]) -> None:
        """End the flow with its task, which may be cancelled before it has begun."""
        del task
        self._left.cancel()
        self._flow.close()


@coroutine
def _left_of(
    flow: Coroutine[Any, Any, None], waited: Any, error: BaseException | None = None
) -> Generator[Any, Any, None]:
    """Run the rest of a flow that waits for something, or gets an error there."""
    try:
        while True:
            if error is not None:
                waited, error = flow.throw(error), None
            try:
                value = yield waited
            except BaseException as raised:  # noqa: BLE001 - the flow gets it
                error = raised
            else:
                waited = flow.send(value)
    except StopIteration:
        return
    finally:
        del error
