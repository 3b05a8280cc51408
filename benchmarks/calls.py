"""Count what an uncontended acquire and release pass through: calls, files, changes of file.

    python -m benchmarks.calls [--trace] [one|sentinel|cluster|quorum ...]
    python -m benchmarks.calls --bytecodes [one|sentinel|cluster|quorum ...]

A call is a function of the package that is entered in the thread or task that acquires. A coroutine
that goes on counts once. A file counts once. A change of file is a call whose function lies in
another file than that of the call before; the first call is one. The handle was used before.
``--trace`` prints the calls, too.

``--bytecodes`` counts the instructions of Python's interpreter instead, also those outside of the
package: on one Python they are the same on each machine, however busy. In asyncio those of the loop
are among them. On one server it counts, besides a pair: one of a lease that stays with its client,
a turn that is passed on within a client, from the release to the next holder's end of ``acquire``,
with all that this one did before it waited; and the same of a waiter to which another client's
release gives the lock, without that release.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from time import sleep
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


class Bytecodes:
    """Counts the instructions that threads run while they are entered here."""

    def __init__(self) -> None:
        self.run = 0

    def __enter__(self) -> Self:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._count

    def _count(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        self.run += event == "opcode"
        return self._count


def least(counted: Iterator[int]) -> int:
    """Return the least number, of those that are counted when all is warm: a timer adds to one."""
    return min([next(counted) for _ in range(WARM + ROUNDS)][WARM:])


def pairs(url: str, **options: Any) -> Iterator[int]:
    """Yield what each acquire and release of one thread run."""
    with fencelock.Client(url) as client:
        lock = client.lock("bytecodes", ttl=10, **options)
        with lock:
            pass
        while "linger" in options and not lock.__shared__()[0].hears:
            sleep(0.001)  # before, it keeps no lease
        while True:
            with Bytecodes() as counted:
                lock.acquire()
                lock.release()
            yield counted.run


async def asyncio_pairs(url: str) -> int:
    """Return the same of one task, with what its loop runs meanwhile."""
    counted, numbers = Bytecodes(), list[int]()
    async with fencelock.AsyncClient(url) as client:
        lock = client.lock("bytecodes", ttl=10)
        with counted:
            for _ in range(WARM + ROUNDS):
                before = counted.run
                await lock.acquire()
                await lock.release()
                numbers.append(counted.run - before)
    return least(iter(numbers))


def handed(giver: Any, taker: Any, waits: Callable[[], bool], *, both: bool) -> Iterator[int]:
    """Yield what a thread's acquire runs, whose lock another one releases; ``both``: that, too."""
    counted = Bytecodes()

    def take() -> None:
        with counted:
            taker.acquire()

    with ThreadPoolExecutor(1) as other:
        while True:
            counted.run = 0
            giver.acquire()
            taken = other.submit(take)
            while not waits():
                sleep(0.001)
            sleep(0.005)  # it sleeps
            with counted if both else nullcontext():
                giver.release()
            taken.result()
            other.submit(taker.release).result()
            yield counted.run


def turns(url: str) -> Iterator[int]:
    """Yield what a turn runs that a client's waiter is given by another thread of the client."""
    with fencelock.Client(url) as client:
        cohort = fencelock.Cohort(turns=64, seconds=60)
        lock = client.lock("bytecodes", ttl=60, cohort=cohort)
        lines = lock.__shared__()[0].lines
        yield from handed(lock, lock, lambda: bool(lines.crowded), both=True)


def handoffs(url: str) -> Iterator[int]:
    """Yield what a waiter runs to which another client's release gives the lock."""
    with fencelock.Client(url) as one, fencelock.Client(url) as other:
        giver, taker = (each.lock("bytecodes", ttl=10) for each in (one, other))
        lines = taker.__shared__()[0].lines
        yield from handed(giver, taker, lambda: bool(lines.by_key), both=False)


def print_bytecodes(name: str, url: str) -> None:
    """Print what each operation runs there."""
    rows = {"pair": least(pairs(url)), "asyncio pair": asyncio.run(asyncio_pairs(url))}
    if name == "one":
        rows["kept pair"] = least(pairs(url, linger=0.5))
        rows["turn"] = least(turns(url))
        rows["waiter that is handed the lock"] = least(handoffs(url))
    for title, number in rows.items():
        print(f"| {TITLES[name]}, {title} | {number} |")


def main() -> None:
    chosen = [name for name in sys.argv[1:] if name in SERVERS] or list(SERVERS)
    if "--bytecodes" in sys.argv:
        print("| | bytecodes |", "| --- | --- |", sep="\n")
        for name in chosen:
            servers = SERVERS[name]()
            try:
                print_bytecodes(name, servers.url)
            finally:
                servers.close()
        return
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
