"""What kinds of several servers have in common: faults of one node, and what is left on all."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Self

from fencelock._core.deadlines import LIVENESS_TIMEOUT_SECONDS
from tests.faults.world import ShareView, View, wait_until
from tests.servers import Refused, Server
from verification.runs.faces import Threads
from verification.runs.fault import Fault
from verification.runs.network import Span
from verification.runs.objects import PLAYS, SHARES, SHORT, Kind, Play

# After the clients ended a lease may last for its ttl, and for a clock that was set back.
FREE_SECONDS = 4.0


def left_on(server: Any, play: Play) -> list[str]:
    """Return what is held or waited for by nobody, and keys that would stay for ever."""
    left = []
    for kind in {kind.on: kind for kind in play.kinds}.values():
        view = (ShareView if kind.on in SHARES else View)(server, kind.on)
        try:
            view.until_free(FREE_SECONDS * play.scale)
        except AssertionError as error:
            if not _is_passed(server, kind, view):
                left.append(str(error))
    keys = server.command("KEYS", "*")
    return left + [key for key in keys if server.command("TTL", key) == -1]


def _is_passed(server: Any, kind: Kind, view: View) -> bool:
    """Return True if the next client passes what is left, and nothing is left then.

    A waiter that was killed stays in line until it was silent for long and another client came.
    """
    with contextlib.closing(Threads(server.url)) as face:
        handle = kind.handle(face, SHORT, renew=False)

        def is_passed() -> bool:
            if handle.acquire(**kind.how(1, None)):
                kind.release(handle, 1)
            free: bool = view.free()
            return free

        with contextlib.suppress(AssertionError):
            return bool(wait_until(is_passed, LIVENESS_TIMEOUT_SECONDS + FREE_SECONDS))
    return False


def sum_of(nodes: Iterable[Server]) -> dict[str, int]:
    """Return how many clients all have but us, what memory they take, and how many keys."""
    total = {"connections": 0, "memory_kb": 0, "keys": 0}
    for node in nodes:
        total["connections"] += int(node.info("clients")["connected_clients"]) - 1
        total["memory_kb"] += int(node.info("memory")["used_memory"]) // 1024
        total["keys"] += node.command("DBSIZE")
    return total


class Nodes:
    """What can befall one of several nodes, and is covered everywhere."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._pause = threading.Event()

    def victims(self) -> list[Server]:
        """Return nodes of which one is struck."""
        raise NotImplementedError

    def small_faults(self) -> Iterator[Fault]:
        """Yield what a node, or its connections, recover from at once."""
        yield Fault("kill links", self.kill_links)
        yield Fault("script flush", self.flush_scripts)
        yield Fault("freeze node", self.freeze)

    def kill_links(self) -> None:
        kind = self._dice.choice(("pubsub", "normal"))
        self._say(self.victim(), "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    def flush_scripts(self) -> None:
        self._say(self.victim(), "SCRIPT", "FLUSH")

    def freeze(self) -> None:
        """Freeze a node for less than it takes to be replaced."""
        node = self.victim()
        node.pause()
        self._wait(0.02, 0.1, 0.4)
        node.resume()

    def victim(self) -> Server:
        return self._dice.choice(self.victims())

    def _wait(self, *seconds: float) -> None:
        self._pause.wait(self._dice.choice(seconds))

    def _say(self, node: Server, *words: object) -> None:
        with contextlib.suppress(Refused):  # another fault holds it up
            node.command(*words)


class Masters(Nodes):
    """Masters with replicas, as the tests start them: ``servers``."""

    servers: Any
    play: str

    def __enter__(self) -> Self:
        self.servers.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.servers.close()

    @property
    def url(self) -> str:
        return self.servers.url

    def victims(self) -> list[Server]:
        return [self.servers.master]

    def doubts(self) -> list[Span]:
        """Return nothing: no request is delayed but by what strikes for long."""
        return []

    def calm(self) -> None:
        """Wait for nothing: each fault ends when all is well."""

    def orphans(self) -> list[str]:
        return left_on(self.servers, PLAYS[self.play])
