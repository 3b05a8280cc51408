"""How often two clients hold one lock after a failover: measured on real servers.

    python verification/failovers.py --runs 20            prints the table
    python verification/failovers.py --runs 20 --write    writes docs/explanation/failovers.md's

Each run starts a master and two replicas that follow it through proxies. A acquires through
fencelock, something fails, a replica is promoted, the other one follows it, and B tries to acquire
there, once. Promoted is the one that has most, as Sentinel does it, or the laggard where the column
says so. It is a double grant when both were told that they hold the lock, and both leases last. B
does not ask for acknowledgements, so nothing hides a double.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fencelock import FencelockError  # noqa: E402 - found by the line above
from tests.faults.world import Tasks, Threads, spawn  # noqa: E402 - as above
from tests.replication import AT_ONCE, counted, follow  # noqa: E402 - as above
from tests.servers import Server, ServerBinary, binaries  # noqa: E402 - as above
from verification.apart import Namespace, possible  # noqa: E402 - as above
from verification.lagging import Lagging  # noqa: E402 - as above

PAGE = ROOT / "docs" / "explanation" / "failovers.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
TTL = 30.0
LAGGARD_SECONDS = 0.2  # behind the other replica
FROZEN_SECONDS = 0.3
NAME = "lock"


class Way(NamedTuple):
    """A column: how A acquires, and who is promoted."""

    title: str
    replicas: int = 0
    laggard: bool = False  # the second replica is late, and it is promoted
    least: int = 0  # min-replicas-to-write of the master
    tasks: bool = False  # asyncio


class Outcome(NamedTuple):
    """What one run came to."""

    granted: bool  # A was told that it holds
    double: bool


WAYS = (
    Way("plain"),
    Way("`replicas=1`", replicas=1),
    Way("`replicas=1`, asyncio", replicas=1, tasks=True),
    Way("`replicas=1`, laggard promoted", replicas=1, laggard=True),
    Way("`replicas=2`, laggard promoted", replicas=2, laggard=True),
    Way("`min-replicas-to-write 1` alone", least=1),
)


class Scene:
    """The servers of one run, and who acquires."""

    def __init__(self, way: Way, failure: Failure, running: contextlib.ExitStack) -> None:
        self.way = way
        self.running = running
        self.replicas = [running.enter_context(Server(args=AT_ONCE)) for _ in range(2)]
        self.parts: list[Lagging | Namespace] = []
        if failure.apart:
            self._in_namespace()
        else:
            self._behind_proxies(failure.lag)
        counted(self.master, len(self.replicas))
        face = Tasks if way.tasks else Threads
        self.a = self._client(face, self.master, replicas=way.replicas)
        self.lock_a = self.a.lock(NAME, ttl=TTL, renew=False)
        self._warm()
        self.lock_b: Any = None

    def _start(self, *args: str, binary: ServerBinary | None = None) -> Server:
        least = ("--min-replicas-to-write", str(self.way.least), "--min-replicas-max-lag", "1")
        return self.running.enter_context(Server(binary, args=(*AT_ONCE, *least, *args)))

    def _behind_proxies(self, lag: float) -> None:
        self.master = self._start()
        for replica, more in zip(self.replicas, (0.0, LAGGARD_SECONDS), strict=True):
            late = lag + more if self.way.laggard else lag
            line = self.running.enter_context(Lagging(self.master, seconds=late))
            follow(replica, line.port)
            self.parts.append(line)

    def _in_namespace(self) -> None:
        """Put the master on a host of its own; A reaches it by its Unix socket."""
        host = self.running.enter_context(Namespace())
        folder = Path(self.running.enter_context(tempfile.TemporaryDirectory()))
        open_to_all = ("--bind", "127.0.0.1", host.address, "--protected-mode", "no")
        self.master = self._start(*open_to_all, binary=host.binary(binaries()[0], folder))
        for replica in self.replicas:
            follow(replica, self.master.port, host.address)
        self.parts.append(host)

    def _client(self, face: type, server: Server, **options: Any) -> Any:
        client = face(server.url, **options)
        self.running.callback(client.close)
        return client

    def _warm(self) -> None:
        """Connect, and wait until all replicas have what was done so far."""
        first = self.a.lock("first", renew=False)
        first.acquire()
        first.release()
        assert self.master.command("WAIT", 2, 5000) == 2

    def acquire(self) -> bool:
        """Let A acquire, once."""
        return told(lambda: self.lock_a.acquire(blocking=False))

    def promote(self) -> bool:
        """Promote a replica, let the other follow it, and let B acquire there."""
        new, other = sorted(self.replicas, key=offset, reverse=not self.way.laggard)
        new.command("REPLICAOF", "NO", "ONE")
        other.command("REPLICAOF", "127.0.0.1", new.port)
        self.lock_b = self._client(Threads, new).lock(NAME, ttl=TTL, renew=False)
        return told(lambda: self.lock_b.acquire(blocking=False))

    def cut(self) -> None:
        """Part the master, and who reaches it, from its replicas."""
        for part in self.parts:
            part.cut()

    def judge(self, *, granted: bool, again: bool) -> Outcome:
        """Say what it came to."""
        leases = [lock.lease for lock in (self.lock_a, self.lock_b)]
        lasting = [lease is not None and lease.remaining() > 0 for lease in leases]
        return Outcome(granted, granted and again and all(lasting))


def offset(replica: Server) -> int:
    """Return how much of what the master did has arrived: the most is promoted, as by Sentinel."""
    return int(replica.info("replication")["slave_repl_offset"])


def told(acquire: Callable[[], bool]) -> bool:
    """Return True if a client was told that it holds; an error says that it does not."""
    try:
        return acquire()
    except FencelockError:
        return False


# -- what fails -----------------------------------------------------------------------------------


def killed(scene: Scene) -> Outcome:
    granted = scene.acquire()
    scene.master.kill()
    return scene.judge(granted=granted, again=scene.promote())


def host_died(scene: Scene) -> Outcome:
    granted = scene.acquire()
    scene.cut()
    scene.master.kill()
    return scene.judge(granted=granted, again=scene.promote())


def frozen_after(scene: Scene) -> Outcome:
    granted = scene.acquire()
    scene.master.pause()
    again = scene.promote()
    scene.master.resume()
    return scene.judge(granted=granted, again=again)


def frozen_before(scene: Scene) -> Outcome:
    scene.master.pause()
    waits = spawn(scene.acquire)
    threading.Event().wait(FROZEN_SECONDS)
    again = scene.promote()
    scene.master.resume()
    return scene.judge(granted=waits.result(30), again=again)


def partitioned(scene: Scene) -> Outcome:
    scene.cut()
    granted = scene.acquire()
    return scene.judge(granted=granted, again=scene.promote())


def long_partitioned(scene: Scene) -> Outcome:
    scene.cut()
    threading.Event().wait(3.5)  # the master counts a replica as gone after 1 s, seen each second
    granted = scene.acquire()
    return scene.judge(granted=granted, again=scene.promote())


class Failure(NamedTuple):
    """A row."""

    title: str
    lag: float
    happens: Callable[[Scene], Outcome]
    apart: bool = False  # the master has a network namespace of its own


FAILURES = (
    Failure("kill -9 right after the grant", 0.0, killed),
    Failure("host dies right after the grant, lag 1 ms", 0.001, host_died),
    Failure("host dies right after the grant, lag 20 ms", 0.02, host_died),
    Failure("frozen right after the grant, continues after the promotion", 0.0, frozen_after),
    Failure("frozen with the request unread, continues after the promotion", 0.0, frozen_before),
    Failure("partition, acquired at once on the master's side", 0.0, partitioned),
    Failure("the same, partition by a network namespace", 0.0, partitioned, apart=True),
    Failure("partition, acquired 3.5 s later on the master's side", 0.0, long_partitioned),
)


# -- runs -----------------------------------------------------------------------------------------


def run(cell: tuple[int, int]) -> tuple[tuple[int, int], Outcome]:
    """Run one failover of a row and a column."""
    logging.getLogger("fencelock").setLevel(logging.CRITICAL)
    failure, way = FAILURES[cell[0]], WAYS[cell[1]]
    with contextlib.ExitStack() as running:
        return cell, failure.happens(Scene(way, failure, running))


def measured(runs: int, processes: int) -> dict[tuple[int, int], list[Outcome]]:
    """Run all cells so many times, a few at once."""
    rows = [row for row, each in enumerate(FAILURES) if possible() or not each.apart]
    cells = [(row, column) for row in rows for column in range(len(WAYS))]
    found: dict[tuple[int, int], list[Outcome]] = {cell: [] for cell in cells}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for number, (cell, outcome) in enumerate(pool.imap_unordered(run, cells * runs), 1):
            found[cell].append(outcome)
            if number % 50 == 0:
                print(f"{number} of {len(cells) * runs}", file=sys.stderr, flush=True)
    return found


def table(found: dict[tuple[int, int], list[Outcome]]) -> Iterator[str]:
    """Yield the table: double grants of runs, and where A was not always granted, how often."""
    yield "| what fails | " + " | ".join(way.title for way in WAYS) + " |"
    yield "| --- |" + " --- |" * len(WAYS)
    for row, failure in enumerate(FAILURES):
        cells = (_cell(found.get((row, column), [])) for column in range(len(WAYS)))
        yield f"| {failure.title} | " + " | ".join(cells) + " |"


def _cell(outcomes: list[Outcome]) -> str:
    if not outcomes:
        return "needs root"
    double = sum(each.double for each in outcomes)
    granted = sum(each.granted for each in outcomes)
    text = f"{double} of {len(outcomes)}"
    text = f"**{text}**" if double else text
    return text if granted == len(outcomes) else f"{text} ({granted} granted)"


def main() -> None:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description="Count double grants in real failovers.")
    parser.add_argument("--runs", type=int, default=20, help="of each cell")
    parser.add_argument("--processes", type=int, default=2, help="that run at once")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    lines = "\n".join(table(measured(args.runs, args.processes)))
    told_by = f"{args.runs} runs a cell on {binaries()[0]}: `python verification/failovers.py`."
    print(lines, told_by, sep="\n\n")
    if args.write:
        text = PAGE.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n\n{lines}\n\n{told_by}\n\n{END}{after}")


if __name__ == "__main__":
    main()
