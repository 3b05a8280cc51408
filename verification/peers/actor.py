"""Users of one library in a process of their own, told what to do line by line.

python -m verification.peers.actor COLUMN     requests on stdin, answers on stdout, both JSON
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from wire import Address

from verification.peers.adapters import TaskDesk, ThreadDesk, forked, settled
from verification.peers.columns import TASKS, Column, column, library
from verification.peers.libraries import SHARE_OF_TTL, Use


class User:
    """One user of one lock."""

    def __init__(self, desk: Any, made: Any, name: str, use: Use) -> None:
        self.desk = desk
        self.use = use
        self.told: float | None = None
        self.lock = made.lock(made, name, use, self._told)

    def _told(self) -> None:
        if self.told is None:
            self.told = time.monotonic()

    async def acquire(self, turns: int | None = None, *, cancellable: bool = False) -> Any:
        begun = time.monotonic()
        doing = self.lock.acquire
        if cancellable:
            doing = partial(self.desk.cancellable, self.lock.acquire, turns)
        answer = await told_of(doing)
        return {**answer, "took": time.monotonic() - begun, "at": time.monotonic()}

    async def release(self) -> Any:
        return await told_of(self.lock.release)

    async def asks(self) -> Any:
        return await told_of(self.lock.asks)

    async def work(self) -> Any:
        """Work until stopped; where renewal is on and a matter of a call, extend meanwhile."""
        by_hand = self.use.renew and self.lock.renews == "extend"
        share = (self.use.ttl or 0) * SHARE_OF_TTL if by_hand else 3600.0
        while not await self.desk.pause(share):
            answer = await told_of(self.lock.extend)
            if answer.get("result") is False or "error" in answer:
                self._told()
                return answer
        return {}

    async def fork(self) -> Any:
        return {"child": forked(self.desk, told_of(self.lock.release))}

    def state(self) -> dict[str, Any]:
        return {"told": self.told, "says": self.lock.says(), "renews": self.lock.renews}


async def told_of(doing: Callable[[], Any]) -> dict[str, Any]:
    """Call a library, and return what it gave or raised."""
    try:
        return {"result": await settled(doing())}
    except asyncio.CancelledError:
        return {"error": "CancelledError", "text": ""}
    except Exception as error:  # noqa: BLE001 - whatever a library raises is its answer
        return {"error": type(error).__name__, "text": str(error)}


class Program:
    """Carries out requests; those of one user one after the other."""

    def __init__(self, which: Column) -> None:
        self._column = which
        self._users: dict[str, User] = {}
        self._writing = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        if which.face == TASKS:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def handle(self, request: dict[str, Any]) -> None:
        number, do = request.pop("id"), request.pop("do")
        try:
            answer = getattr(self, f"do_{do}", self._ordered(do))(**request)
        except Exception as error:  # noqa: BLE001 - told to the parent
            answer = {"error": type(error).__name__, "text": str(error)}
        if isinstance(answer, concurrent.futures.Future):
            answer.add_done_callback(lambda ended: self._say(number, outcome(ended)))
        else:
            self._say(number, answer)

    def do_open(self, host: str, port: int) -> dict[str, Any]:
        """Connect anew; whoever used the former client is forgotten."""
        self._users.clear()
        address = Address(host, port)
        if self._loop is None:
            self._made = library(self._column, address)
        else:
            making = asyncio.run_coroutine_threadsafe(self._open(address), self._loop)
            making.result(10)
        return {}

    async def _open(self, address: Address) -> None:
        self._made = library(self._column, address)
        await self._made.open()

    def do_user(self, user: str, name: str, use: list[Any]) -> dict[str, Any]:
        if self._loop is None:
            self._users[user] = User(ThreadDesk(), self._made, name, Use(*use))
        else:
            asyncio.run_coroutine_threadsafe(self._user(user, name, use), self._loop).result(10)
        return {}

    async def _user(self, user: str, name: str, use: list[Any]) -> None:
        desk = TaskDesk(asyncio.get_running_loop())
        self._users[user] = User(desk, self._made, name, Use(*use))

    def do_state(self, user: str) -> dict[str, Any]:
        return self._users[user].state()

    def do_stop(self, user: str) -> dict[str, Any]:
        self._users[user].desk.stop()
        return {}

    def do_cancel(self, user: str) -> dict[str, Any]:
        self._users[user].desk.cancel()
        return {}

    def _ordered(self, do: str) -> Any:
        def order(user: str, **options: Any) -> Any:
            one = self._users[user]
            return one.desk.do(getattr(one, do)(**options))

        return order

    def _say(self, number: int, answer: Any) -> None:
        with self._writing:
            sys.stdout.write(json.dumps({"id": number, **answer}) + "\n")
            sys.stdout.flush()


def outcome(ended: concurrent.futures.Future[Any]) -> Any:
    error = ended.exception()
    return {"error": type(error).__name__, "text": str(error)} if error else ended.result()


def main() -> None:
    program = Program(column(sys.argv[1]))
    for line in sys.stdin:
        program.handle(json.loads(line))
    os._exit(0)  # the parent is gone, or done with us: no clean-up, as in a crash


if __name__ == "__main__":
    main()
