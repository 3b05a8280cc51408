"""Work that knows no deadline, in threads that a caller can leave (I13).

Rules of this file:

- A name is resolved, and a user's client connects (its credential provider with it), for as long as
  it takes: nothing can end that. So it runs in a thread, and the caller waits until its deadline.
- What was left goes on. The next caller of the same work waits for that, and begins no second one:
  a resolver that is silent costs one thread, however often it is asked.
- A result that is one caller's own (a connection) and has none any more is disposed of.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from fencelock.clock import now
from fencelock.mutex import Latch, mutex

T = TypeVar("T")


class Work(Generic[T]):
    """One piece of work and who waits for it."""

    def __init__(
        self, function: Callable[[], T], dispose: Callable[[T], object] | None, lives: object
    ) -> None:
        self._function = function
        self._dispose = dispose
        self._lives = lives  # what must not be replaced by another of the same identity meanwhile
        self._result: T
        self._error: BaseException | None = None
        self._then: list[Callable[[], object]] = []
        self._latch = Latch()
        self.ended: bool = False
        self.claims = 0  # callers that wait for it; guarded by the mutex
        self.shared = dispose is None

    def run(self) -> None:
        """Do it, and have the callers go on."""
        try:
            self._result = self._function()
        except BaseException as error:  # noqa: BLE001 - the caller raises it, in its own thread
            self._error = error

    def end(self) -> list[Callable[[], object]]:
        """Note its end, and return what is to be called then; under the mutex."""
        self.ended = True
        return self._then

    def let_go(self) -> None:
        """Have the threads go on that wait for it."""
        self._latch.open()

    def drop(self) -> None:
        """Dispose of a result that no caller takes."""
        if self._dispose is not None and self._error is None:
            self._dispose(self._result)

    def over(self, until: float) -> bool:
        """Wait for the end of it; False when it did not come by the instant."""
        return self._latch.wait(max(0.0, until - now()))

    def then(self, call: Callable[[], object]) -> bool:
        """Have something called at its end, maybe in its thread; False when it has ended.

        Under the mutex.
        """
        if not self.ended:
            self._then.append(call)
        return not self.ended

    def result(self) -> T:
        """Return its result or raise its error."""
        if self._error is not None:
            raise self._error
        return self._result


class Table:
    """The work that is under way."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin with nothing: at first, and in a child process, where the threads are missing."""
        self._under_way: dict[Hashable, list[Work[Any]]] = {}

    def claim(self, key: Hashable, make: Callable[[], Work[T]], name: str) -> Work[T]:
        """Return the work of this key that is under way and may be taken, or begin one."""
        with mutex():
            for each in self._under_way.get(key, ()):
                if each.shared or each.claims == 0:
                    each.claims += 1
                    return each
            work = make()
            work.claims = 1
            self._under_way.setdefault(key, []).append(work)
        thread = threading.Thread(target=self._run, args=(key, work), name=name, daemon=True)
        try:
            thread.start()
        except (
            RuntimeError
        ):  # no thread to be had (a limit, the end of the interpreter): do it here
            self._run(key, work)
        return work

    def _run(self, key: Hashable, work: Work[Any]) -> None:
        work.run()
        with mutex():
            running = self._under_way.get(key, [])
            if work in running:
                running.remove(work)
            if not running:
                self._under_way.pop(key, None)
            then = work.end()
            abandoned = work.claims == 0
        work.let_go()
        for each in then:
            each()
        if abandoned:
            work.drop()

    def leave(self, work: Work[Any]) -> None:
        """Wait for it no more, and take nothing from it."""
        with mutex():
            work.claims -= 1
            abandoned = work.ended and work.claims == 0
        if abandoned:
            work.drop()


under_way = Table()


def within(
    until: float,
    key: Hashable,
    function: Callable[[], T],
    *,
    name: str,
    dispose: Callable[[T], object] | None = None,
    lives: object = None,
) -> T:
    """Return what the function returns, or raise what it raises; TimeoutError at the instant.

    Without ``dispose`` one result serves all who ask with this key at the same time.
    """
    work = under_way.claim(key, lambda: Work(function, dispose, lives), name)
    try:
        if not work.over(until):
            raise TimeoutError
    except BaseException:
        under_way.leave(work)
        raise
    return work.result()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=under_way.forget)
