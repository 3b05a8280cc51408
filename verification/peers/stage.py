"""Where a fault is played: one server, a proxy before it, and processes with users of a library.

Rules of this file:

- What the server has is asked of the server, over a connection of our own.
- A process that was killed, or that still owes an answer when a run ends, is never used again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.proxy import Proxy
from tests.servers import Server
from verification.peers.columns import Column
from verification.peers.libraries import Use

ROOT = Path(__file__).resolve().parents[2]
ANSWER_SECONDS = 30.0
GRACE_SECONDS = 1.0  # after which what a call left at the server counts as left
FOR_EVER = float("inf")


def until(true: Callable[[], Any], seconds: float) -> bool:
    """Ask until it is true; False when it is not within that time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Actor:
    """A process with users of one library."""

    def __init__(self, column: Column) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "verification.peers.actor", column.name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._asked: list[concurrent.futures.Future[dict[str, Any]]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **options: Any) -> concurrent.futures.Future[dict[str, Any]]:
        future: concurrent.futures.Future[dict[str, Any]] = concurrent.futures.Future()
        number = len(self._asked)
        self._asked.append(future)
        self._process.stdin.write(json.dumps({"id": number, "do": do, **options}) + "\n")  # type: ignore[union-attr] # a pipe, as asked for
        return future

    def tell(self, do: str, **options: Any) -> dict[str, Any]:
        return self.ask(do, **options).result(ANSWER_SECONDS)

    def open(self, port: int) -> None:
        answer = self.tell("open", host="127.0.0.1", port=port)
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}: {answer['text']}")

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def usable(self) -> bool:
        return self._process.poll() is None and all(each.done() for each in self._asked)

    def close(self) -> None:
        self.kill()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            message = json.loads(line)
            self._asked[message.pop("id")].set_result(message)


class User:
    """One user of one lock, in an actor."""

    def __init__(self, actor: Actor, user: str, name: str, use: Use) -> None:
        self.actor = actor
        self._user = user
        answer = actor.tell("user", user=user, name=name, use=list(use))
        if "error" in answer:
            raise NotImplementedError(answer["text"])

    def ask(self, do: str, **options: Any) -> concurrent.futures.Future[dict[str, Any]]:
        return self.actor.ask(do, user=self._user, **options)

    def tell(self, do: str, **options: Any) -> dict[str, Any]:
        return self.ask(do, **options).result(ANSWER_SECONDS)

    def must_acquire(self) -> dict[str, Any]:
        """Acquire; a second time where a waiter only notices at its next call that it is free."""
        answer = self.tell("acquire")
        if answer.get("result") is False:
            answer = self.tell("acquire")
        if not answer.get("result"):
            raise RuntimeError(f"a free lock was not acquired: {answer}")
        return answer

    def believes(self) -> bool:
        """Return True if it may still hold by its library's own word, without asking the server."""
        state = self.tell("state")
        return state["told"] is None and state["says"] is not False


class Stage:
    """For one column: a server, actors that are kept, and a proxy for each run."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._actors: dict[str, Actor] = {}
        self._servers: dict[tuple[str, ...], Server] = {}
        self._users = 0

    @contextlib.contextmanager
    def run(self, name: str, *args: str) -> Iterator[None]:
        """One run: an empty server, started with those options, and a new proxy before it."""
        self.server = self._server(args)
        self.server.command("FLUSHALL")
        self.name = name
        with Proxy(self.server) as self.proxy:
            try:
                yield
            finally:
                self.server.resume()
                self._clear()

    def user(self, actor: str, use: Use, *, proxied: bool = False, name: str = "") -> User:
        """A user in the actor of that name, whose library is connected and was used once."""
        process = self._actor(actor)
        process.open(self.proxy.port if proxied else self.server.port)
        warm = self._new_user(process, f"warm-{actor}", use)
        warm.must_acquire()
        warm.tell("release")
        return self._new_user(process, name or self.name, use)

    def another(self, user: User, use: Use, name: str) -> User:
        """Another user in the same process, over the same client."""
        return self._new_user(user.actor, name, use)

    def _new_user(self, process: Actor, name: str, use: Use) -> User:
        self._users += 1
        return User(process, str(self._users), name, use)

    def value(self, name: str = "") -> Any:
        """Return what lies at the lock's key, or how many subscribe to it; None without any."""
        key = self.column.key.format(name or self.name)
        if self.column.channel:
            return self.server.command("PUBSUB", "NUMSUB", key)[1] or None
        return self.server.command("GET", key)

    def left(self, name: str = "") -> float:
        """Return for how long the key stays; 0 without one, infinite without a ttl."""
        if self.column.channel:
            return FOR_EVER if self.value(name) else 0.0
        left = self.server.command("PTTL", self.column.key.format(name or self.name))
        return {-2: 0.0, -1: FOR_EVER}.get(left, left / 1000)

    def orphan(self) -> float:
        """Return for how long what is there now blocks others; 0 when it blocks nobody."""
        time.sleep(GRACE_SECONDS)
        left = self.left()
        another = self.user("rival", Use(timeout=None))
        if another.tell("acquire").get("result"):
            another.tell("release")
            return 0.0
        return left or FOR_EVER

    def close(self) -> None:
        for actor in self._actors.values():
            actor.close()
        for server in self._servers.values():
            server.close()

    def _actor(self, name: str) -> Actor:
        if name not in self._actors:
            self._actors[name] = Actor(self.column)
        return self._actors[name]

    def _clear(self) -> None:
        for name, actor in list(self._actors.items()):
            if not actor.usable():
                actor.close()
                del self._actors[name]

    def _server(self, args: tuple[str, ...]) -> Server:
        if args not in self._servers:
            self._servers[args] = Server(args=args).start()
        return self._servers[args]
