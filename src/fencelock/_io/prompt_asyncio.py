"""Runs a flow without waiting for turns of the loop, as long as it only waits for answers.

A task needs a turn to begin, and one more to go on after each answer. A loop that gives way only
between long blocks has few turns, and renewals must not wait for them.

Rules of this file:

- The flow begins in the turn that starts it, and goes on in the turn that reads an answer.
- When it waits for anything else, a task runs the rest of it, and so does one that is cancelled.
- It goes on in a callback of the loop: there is no current task until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

Resume = Callable[[], None]


def answers_of(link: Any) -> Callable[[Any, Resume], bool]:
    """Return what lets a flow go on with the answers of a link's connection, if it has one."""
    return lambda answer, resume: link.mux is not None and link.mux.resumes(answer, resume)


class AtOnce:
    """Takes an answer for a future and lets the flow that waits for it go on in the same turn."""

    __slots__ = ("_future", "_resume", "done")

    def __init__(self, future: asyncio.Future[Any], resume: Resume) -> None:
        self._future, self._resume = future, resume
        self.done = future.done

    def set_result(self, result: Any, /) -> None:
        """Take the answer."""
        self._future.set_result(result)
        self._resume()

    def set_exception(self, exception: Any, /) -> None:
        """Take the NoReply; who tells it may not be able to let a flow run in between."""
        self._future.set_exception(exception)
        self._future.get_loop().call_soon(self._resume)


class PromptFlow:
    """A flow that runs at once. ``attach`` lets it go on when an answer is read, if it is one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        flow: Coroutine[Any, Any, None],
        attach: Callable[[Any, Resume], bool],
    ) -> None:
        self._flow, self._attach = flow, attach
        self._over = False
        self._answer: Any = None  # that it waits for
        self._left: asyncio.Future[Any] = loop.create_future()  # what the task is to wait for first

    def go_on(self) -> None:
        """Run the flow until it waits."""
        if self._left.done():  # it was cancelled
            return
        try:
            self._answer = self._flow.send(None)
        except StopIteration:
            self._over = True
            self._left.set_result(None)
        except BaseException as error:
            self._left.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            if not self._attach(self._answer, self.go_on):
                self._left.set_result(self._answer)

    async def rest(self) -> None:
        """Run what is left of the flow, in a task."""
        try:
            first = await self._left
        except asyncio.CancelledError as cancelled:
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
