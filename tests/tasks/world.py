"""What the task tests stand on: one server, a loop of either kind, and a way to cancel anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import fencelock
from fencelock._core.keys import LockKeys
from tests.local_lines import waiting_locally
from tests.servers import Server
from tests.waiting import LOOK_SECONDS, SOON, Patience

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
with contextlib.suppress(ImportError):  # it has no wheel for PyPy, nor for Pythons without the GIL
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop
TICK = 0.001
_numbers = itertools.count(1)


class World:
    """One test: a kind of loop, a key prefix of its own, and the clients it made."""

    def __init__(self, loop: str, server: Server) -> None:
        self.loop = loop
        self.server = server
        self.prefix = f"t{next(_numbers)}:"
        self.strict = False  # each waiter stands in the server's line
        self._clients: list[fencelock.AsyncClient] = []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in a new loop of this world's kind; the clients end with it."""
        with asyncio.Runner(loop_factory=LOOPS[self.loop]) as runner:
            return runner.run(self._whole(work))

    async def _whole(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        finally:
            for client in self._clients:
                await client.aclose()

    def client(self, source: object = None, **options: Any) -> fencelock.AsyncClient:
        """Return a client that is closed at the end of ``run``."""
        if self.strict:
            options.setdefault("cohort", None)
        made = fencelock.AsyncClient(
            source or self.server.url, **{"key_prefix": self.prefix, **options}
        )
        self._clients.append(made)
        return made

    # states

    async def until(self, condition: Callable[[], Any], what: str = "", seconds: float = SOON):
        """Return the condition's first true value; fail when there is none in time."""
        patience = Patience(what, seconds)
        while not (value := condition()):
            patience.spend()
            await self.tick()
        return value

    async def tick(self) -> None:
        """Let the loop, and the server, go on for a moment."""
        loop = asyncio.get_running_loop()
        later = loop.create_future()
        loop.call_later(TICK, later.set_result, None)
        await later

    def holder(self, name: str = "a") -> str | None:
        return self.server.command("GET", self.prefix + name)

    def waiting(self, name: str = "a") -> int:
        keys = LockKeys(self.prefix, name)
        return self.server.command("ZCARD", keys.grant[2]) + waiting_locally(keys.lock)

    async def in_line(self, number: int, name: str = "a") -> None:
        await self.until(lambda: self.waiting(name) == number, f"{number} in line")

    async def nothing_left(self, name: str = "a") -> None:
        """Wait until nobody holds the lock or stands in line for it."""
        await self.until(
            lambda: self.holder(name) is None and not self.waiting(name), "nothing is left"
        )

    def connections(self) -> list[str]:
        lines = self.server.command("CLIENT", "LIST").splitlines()
        return [line for line in lines if " name=fencelock " in line]


class Cut:
    """Await something, and cancel the awaiting task at its n-th suspension, or a moment later."""

    def __init__(self, work: Coroutine[Any, Any, Any], nth: int, delay: float = 0.0) -> None:
        self._work = work
        self._nth = nth
        self._delay = delay
        self.suspensions = 0
        self.cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        inner, resume = self._work.__await__(), lambda: inner.send(None)
        while True:
            try:
                future = resume()
            except StopIteration as stop:
                return stop.value
            self.suspensions += 1
            if self.suspensions == self._nth:
                self.cancelled = True
                loop.call_later(self._delay, task.cancel)
            try:
                yield future
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the work
                resume = lambda error=error: inner.throw(error)  # noqa: E731 - one of two
            else:
                resume = lambda: inner.send(None)  # noqa: E731 - the other


async def ends(task: asyncio.Task[Any], where: Callable[[], str]) -> None:
    """Wait until a task has ended, however busy the machine is; else end it, and say where it was.

    A task that stayed behind would log its error during another test.
    """
    patience = Patience("the task ends")
    try:
        while not task.done():
            patience.spend()
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
    except AssertionError as error:
        error.add_note(f"{where()}: {waits_at(task.get_coro())}")
        task.cancel()
        await asyncio.wait({task}, timeout=1)
        raise


def waits_at(coroutine: Any) -> str:
    """Return the lines at which a coroutine and those that it awaits stand."""
    lines = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        lines.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}" if frame else repr(coroutine))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return " > ".join(lines)


async def cut(work: Coroutine[Any, Any, Any], nth: int, delay: float = 0.0) -> tuple[bool, Any]:
    """Run the work in a task that is cancelled at its n-th suspension.

    Returns whether it ended cancelled, and what it returned otherwise.
    """
    cutting = Cut(work, nth, delay)

    async def run() -> Any:
        return await cutting

    task = asyncio.ensure_future(run())
    await ends(task, lambda: f"cancelled at suspension {nth}, now at {cutting.suspensions}")
    if task.cancelled():
        return True, None
    return False, task.result()
