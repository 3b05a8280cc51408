"""Measures fencelock beside a floor and its peers; see README.md in this folder.

python benchmarks/run.py [--only CASE,...] [--quick] [--json FILE] [--plot FILE]
                         [--plot-growth FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import head
import plot
import report
from cases import (
    Setting,
    contended,
    elsewhere,
    far,
    growth,
    handoff,
    hooked,
    java,
    linger,
    quorum,
    renew,
    server_cost,
    shares,
    startup,
    uncontended,
    waiters,
    worst_delay,
)
from contestants import PEERS
from servers import Server, serving

SLOW = ("java-pair", "java-2p8t")  # Maven builds a program: left out of a quick run
QUICK_PEERS = ("redis-py",)  # most of a run is that each peer opens its connections
Case = Callable[[Setting], list[report.Result]]

SWEPT, GROWTH = "commands-per-acquisition", "growth"  # the cases that a picture shows
CASES: dict[str, Case] = {
    "uncontended-threads": uncontended.threads,
    "uncontended-asyncio": uncontended.tasks,
    "asyncio-100-locks": uncontended.many_locks,
    "contended-2p8t": contended.threads,
    "contended-asyncio-100": contended.tasks,
    "cohort-2p8t": contended.cohort_threads,
    "cohort-asyncio-100": contended.cohort_tasks,
    "worst-delay": worst_delay.case,
    "handoff-1": handoff.one,
    "handoff-50": handoff.fifty,
    SWEPT: waiters.case,
    "renew-10k": renew.case,
    "server-cost": server_cost.case,
    "linger-threads": linger.threads,
    "linger-asyncio": linger.tasks,
    "semaphore": shares.semaphore,
    "rwlock-read": shares.read,
    "quorum-5": quorum.threads,
    "quorum-5-asyncio": quorum.tasks,
    "elsewhere": elsewhere.case,
    "far": far.case,
    "far-quorum-5": far.quorum,
    "hooks": hooked.case,
    "java-pair": java.pair,
    "java-2p8t": java.contended,
    "growth": growth.case,
    "cli-startup": startup.case,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0], epilog=f"Cases: {', '.join(CASES)}."
    )
    add = parser.add_argument
    add("--only", metavar="CASE,...", help="these cases; all without it")
    add("--quick", action="store_true", help="fewer rounds, and redis-py alone of the peers")
    add("--json", metavar="FILE", type=Path, help="write the results there")
    add("--plot", metavar="FILE", type=Path, help="draw rate and fairness over waiters, as SVG")
    add("--plot-growth", metavar="FILE", type=Path, help="draw what grows with what, as SVG")
    add("--url", help="a server to use, redis://HOST:PORT; without it, one is started")
    add("--peers", metavar="NAME,...", help="these peers, none with ''")
    add("--slow-ours", metavar="US", type=int, default=0, help="delay each operation of ours")
    add("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser.parse_args()


def chosen(only: str | None, *, quick: bool) -> list[str]:
    every = [name for name in CASES if not (quick and name in SLOW)]
    names = [name.strip() for name in only.split(",")] if only else every
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise SystemExit(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    return names


def setting_of(options: argparse.Namespace, server: Server) -> Setting:
    pids = () if server.pid is None else (server.pid,)
    base = Setting(server.address, pids, options.quick, options.slow_ours)
    if options.peers is None:
        return base._replace(peers=QUICK_PEERS) if options.quick else base
    names = [name.strip() for name in options.peers.split(",") if name.strip()]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise SystemExit(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return base._replace(peers=names)


def run(names: list[str], setting: Setting) -> tuple[list[report.Result], list[str]]:
    """Return the rows of all cases, and the names of those that failed: they cost no other its."""
    rows, failed = [], []
    for name in names:
        begin = time.monotonic()
        try:
            for row in CASES[name](setting):
                print(report.show(row), flush=True)
                rows.append(row)
        except Exception:  # noqa: BLE001  # shown, and the exit status tells it
            traceback.print_exc()
            failed.append(name)
        print(f"    ({time.monotonic() - begin:.0f} s)\n", flush=True)
    return rows, failed


def draw(case: str, file: Path, rows: list[report.Result], about: dict[str, Any]) -> None:
    """Draw what a case with several sizes has found."""
    told = f"{about['server']}, Python {about['python']}, {about['cores']} cores, {about['cpu']}"
    if case == SWEPT:
        (swept,) = (row for row in rows if row.case == SWEPT)
        title = "One lock, 2 to 1,000 waiters in one process"
        plot.draw(file, title, plot.PANELS, waiters.lines_of(swept), told)
    else:
        title = "A pair or a turn with 10 to 100,000 clients, waiting tasks or held locks"
        plot.draw(file, title, plot.GROWTH, growth.lines_of(rows), told)


def main() -> int:
    options = arguments()
    names = chosen(options.only, quick=options.quick)
    pictures = {SWEPT: options.plot, GROWTH: options.plot_growth}
    names += [case for case, file in pictures.items() if file and case not in names]
    with serving(options.url) as server:
        setting = setting_of(options, server)
        about = head.about(setting)
        print("\n".join(f"{key}: {value}" for key, value in about.items()), end="\n\n")
        rows, failed = run(names, setting)
    for case, file in pictures.items():
        if file and case not in failed:
            draw(case, file, rows, about)
    print(report.summary(rows))
    if options.json:
        report.write_json(options.json, rows, about)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    missed = any(row.met is False for row in rows)
    return int(bool(failed) or (options.check and missed))


if __name__ == "__main__":
    sys.exit(main())
