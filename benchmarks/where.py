"""Where the time of a pair, a turn and a handoff goes: server, kernel, Python by function.

python benchmarks/where.py [--seconds S] [--json FILE] [--before FILE]

Prints the tables of docs/explanation/performance.md, in microseconds of processor time for one
acquire with its release. With ``--before``, what another tree's ``--json`` wrote stands beside it:
``PYTHONPATH=THAT_TREE/src python benchmarks/where.py --json FILE`` measures that one.

All processes share one core, so nothing runs at the same time as anything else: what is spent adds
up to what the clock shows, if the machine does nothing else. Python's time is sampled on the main
thread, which takes turns like the others: a timer of its user time counts the function that begins
or is returned to next.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import ctypes
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import NamedTuple

from cases import Setting, on_one_core
from contestants import OURS, TASKS, THREADS, Pair
from crew import Crew, Who, loop_of, pairs
from servers import Server, serving

import fencelock

PACKAGE = str(Path(fencelock.__file__).parent)
TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_NS = 1_000_000
USER_TIME_OF_THREAD = ctypes.c_int(-3)  # as Linux numbers the clocks of the calling thread
TO_THREAD = 4  # SIGEV_THREAD_ID
SHOWN = 6  # functions with a row of their own: those with the most in any column
WARM_SECONDS = 1.0
SERVER, KERNEL, LOOP = "the server", "the clients' kernel: send, receive, wake", "the event loop"
REST, CLOCK = "Python, the rest", "by the clock"

Spent = dict[str, float]  # microseconds by row


class Kind(NamedTuple):
    """What is taken into account: a title, and how many want one lock."""

    title: str
    processes: int
    workers: dict[str, int]  # of each process, by face


KINDS = {
    "pair": Kind("a pair that no other client wants", 1, {THREADS: 1, TASKS: 1}),
    "turn": Kind("a turn of 8 threads, or of 100 tasks", 1, {THREADS: 8, TASKS: 100}),
    "handoff": Kind("a handoff between two processes", 2, {THREADS: 1, TASKS: 1}),
}


# --- in the worker --------------------------------------------------------------------------------


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_char * 44),
    )


@contextlib.contextmanager
def sampled() -> Iterator[collections.Counter[str]]:
    """Count, by its place, the function that this thread runs, while it runs Python or C code."""
    seen: collections.Counter[str] = collections.Counter()

    def take(_signal: int, frame: FrameType | None) -> None:
        if frame is not None:
            seen[place_of(frame)] += 1

    library, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    before = signal.signal(signal.SIGPROF, take)
    event = _Event(None, signal.SIGPROF, TO_THREAD, threading.get_native_id(), b"")
    if library.timer_create(USER_TIME_OF_THREAD, ctypes.byref(event), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "no timer of a thread's time: this needs Linux")
    library.timer_settime(timer, 0, (ctypes.c_long * 4)(0, SAMPLE_NS, 0, SAMPLE_NS), None)
    try:
        yield seen
    finally:
        library.timer_delete(timer)
        signal.signal(signal.SIGPROF, before)


def place_of(frame: FrameType) -> str:
    """Return the row of a function: by its name in the package, else by what it belongs to."""
    file = frame.f_code.co_filename
    if file.startswith(PACKAGE):
        place = file[len(PACKAGE) + 1 :].removeprefix("aio/").removeprefix("blocking/")
        return f"`{place.removeprefix('_core/')}: {frame.f_code.co_qualname}`"
    return LOOP if "/asyncio/" in file or file.endswith("selectors.py") else REST


def spend(_worker: int, who: Who, workers: int, end: float) -> tuple[int, Spent]:
    """Take turns until then; return how many, and the seconds of this process by row."""
    made = pairs(who, "bench:where", workers)
    begin = os.times()
    with sampled() as seen:
        turns = _in_tasks(who, made, end) if who.face == TASKS else _in_threads(made, end)
    now = os.times()
    seen = seen or collections.Counter([REST])  # too short for a sample
    user, samples = now.user - begin.user, sum(seen.values())
    spent = {place: user * count / samples for place, count in seen.items()}
    return turns, spent | {KERNEL: now.system - begin.system}


def _in_threads(made: list[Pair], end: float) -> int:
    counts = [0] * len(made)

    def work(number: int) -> None:
        acquire, release = made[number]
        while monotonic() < end:
            acquire()
            release()
            counts[number] += 1

    others = [threading.Thread(target=work, args=(each,)) for each in range(1, len(made))]
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()
    return sum(counts)


def _in_tasks(who: Who, made: list[Pair], end: float) -> int:
    async def work(pair: Pair) -> int:
        count = 0
        while monotonic() < end:
            await pair.acquire()
            await pair.release()
            count += 1
        return count

    async def all_tasks() -> int:
        return sum(await asyncio.gather(*map(work, made)))

    return loop_of(who).run_until_complete(all_tasks())


# --- the accounts ---------------------------------------------------------------------------------


def server_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def account(server: Server, kind: Kind, face: str, seconds: float) -> Spent:
    """Return the microseconds of one acquire with its release, by row."""
    setting = Setting(server.address, [server.pid or 0])
    who, workers = setting.who(OURS, face), kind.workers[face]
    with Crew(kind.processes) as crew, on_one_core(crew, setting):
        crew.all(spend, who, workers, monotonic() + WARM_SECONDS)  # connections are made once
        server_before, begin = server_seconds(server), monotonic()
        told = crew.all(spend, who, workers, begin + seconds)
        spent = collections.Counter({SERVER: server_seconds(server) - server_before})
        passed = monotonic() - begin
    turns = sum(count for count, _ in told)
    for _, of_process in told:
        spent.update(of_process)
    return {row: each / turns * 1e6 for row, each in {**spent, CLOCK: passed}.items()}


def table(title: str, columns: dict[str, Spent]) -> str:
    """Return the table of one kind, in Markdown; a column is a face, before or after."""
    first = [SERVER, KERNEL, LOOP]
    rows = {row for spent in columns.values() for row in spent} - {*first, REST, CLOCK}
    most = {row: max(spent.get(row, 0) for spent in columns.values()) for row in rows}
    shown = sorted(rows, key=most.__getitem__, reverse=True)[:SHOWN]
    others = rows - {*shown}
    lines = [f"| {title} | {' | '.join(columns)} |", "| --- |" + " --- |" * len(columns)]

    def line(name: str, parts: set[str]) -> None:
        sums = [sum(spent.get(part, 0) for part in parts) for spent in columns.values()]
        cells = [f"{each:.1f}" if each else "" for each in sums]
        lines.append(f"| {name} | {' | '.join(cells)} |")

    least = max((most[row] for row in others), default=0.0) + 0.05
    for row in (*first, *shown):
        line(row, {row})
    line(f"{len(others)} other functions, each below {least:.1f} µs", others)
    line(REST, {REST})
    line("**all**", {*first, *rows, REST})
    line(CLOCK, {CLOCK})
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=12.0, help="for each column (12)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    parser.add_argument("--before", type=Path, metavar="FILE", help="results of another tree")
    options = parser.parse_args()
    before = json.loads(options.before.read_text()) if options.before else {}
    found: dict[str, dict[str, Spent]] = {}
    with serving(None) as server:
        for name, kind in KINDS.items():
            found[name] = {
                face: account(server, kind, face, options.seconds) for face in (THREADS, TASKS)
            }
            columns = {}
            for face, spent in found[name].items():
                if name in before:
                    columns[f"{face}, before"] = before[name][face]
                columns[f"{face}, after" if name in before else face] = spent
            print(table(kind.title, columns), end="\n\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
