"""Count what an uncontended acquire and release pass through: calls, files, changes of file.

    python -m benchmarks.calls [--trace] [one|sentinel|cluster|quorum ...]

A call is a function of the package that is entered in the thread or task that acquires. A coroutine
that goes on counts once. A file counts once. A change of file is a call whose function lies in
another file than that of the call before; the first call is one. The handle was used before.
``--trace`` prints the calls, too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self

import fencelock
from tests.servers import Server
from tests.topologies.cluster import started as cluster
from tests.topologies.quorum import Quorum
from tests.topologies.sentinel import started as sentinel

PACKAGE = str(Path(fencelock.__file__).parent)
SERVERS: dict[str, Callable[[], Any]] = {
    "one": lambda: Server().start(),
    "sentinel": sentinel,
    "cluster": cluster,
    "quorum": lambda: Quorum().start(),
}
TITLES = {
    "one": "one server",
    "sentinel": "Sentinel",
    "cluster": "Cluster",
    "quorum": "quorum of 5",
}
WARM = 20  # pairs before the one that is counted
ROUNDS = 9  # pairs that are counted; the usual one is shown, as a timer or a renewal may add calls


class Passage(NamedTuple):
    """What one operation passed through, in order: "file:function"."""

    calls: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.calls)} / {len(set(self._files()))} / {self._changes()}"

    def _files(self) -> list[str]:
        return [call.partition(":")[0] for call in self.calls]

    def _changes(self) -> int:
        files = self._files()
        return sum(one != other for one, other in zip(["", *files], files, strict=False))


class Recorder:
    """Notes each function of the package that this thread enters while it is entered itself."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._frames: set[FrameType] = set()

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or frame in self._frames:
            return
        self._frames.add(frame)  # a coroutine that goes on is the same frame
        self.calls.append(f"{code.co_filename[len(PACKAGE) + 1 :]}:{code.co_qualname}")

    @property
    def path(self) -> Passage:
        return Passage(tuple(self.calls))


def usual(paths: list[Passage]) -> Passage:
    """Return the one that came most often."""
    return max(paths, key=paths.count)


def in_threads(url: str) -> tuple[Passage, Passage]:
    acquired, released = [], []
    with fencelock.Client(url) as client:
        lock = client.lock("calls", ttl=10)
        for number in range(WARM + ROUNDS):
            with Recorder() as one:
                lock.acquire()
            with Recorder() as other:
                lock.release()
            if number >= WARM:
                acquired.append(one.path)
                released.append(other.path)
    return usual(acquired), usual(released)


async def in_asyncio(url: str) -> tuple[Passage, Passage]:
    async def recorded(work: Callable[[], Awaitable[object]]) -> Passage:
        with Recorder() as recorder:
            await work()
        return recorder.path

    acquired, released = [], []
    async with fencelock.AsyncClient(url) as client:
        lock = client.lock("calls", ttl=10)
        for number in range(WARM + ROUNDS):
            one, other = await recorded(lock.acquire), await recorded(lock.release)
            if number >= WARM:
                acquired.append(one)
                released.append(other)
    return usual(acquired), usual(released)


def main() -> None:
    chosen = [name for name in sys.argv[1:] if name in SERVERS] or list(SERVERS)
    heads = ("acquire, threads", "acquire, asyncio", "release, threads", "release, asyncio")
    rows = []
    for name in chosen:
        servers = SERVERS[name]()
        try:
            threads, tasks = in_threads(servers.url), asyncio.run(in_asyncio(servers.url))
        finally:
            servers.close()
        paths = threads[0], tasks[0], threads[1], tasks[1]
        rows.append(f"| {TITLES[name]} | {' | '.join(map(str, paths))} |")
        if "--trace" in sys.argv:
            for head, path in zip(heads, paths, strict=True):
                print(f"\n{TITLES[name]}, {head}: {path}", *path.calls, sep="\n  ")
    print("calls / files entered / changes of file\n")
    print(f"| | {' | '.join(heads)} |", "| --- | --- | --- | --- | --- |", *rows, sep="\n")


if __name__ == "__main__":
    main()
