"""Two processes take turns under one lock, on a server that starts by itself.

    python examples/take_turns.py [--turns N]

Each process wants the lock N times. Whoever holds it appends to a shared file that nothing else
protects; at the end the file proves that no two turns overlapped, and that the fencing tokens grew.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import fencelock

NAMES = ("anna", "berta")


def take_turns(who: str, turns: int, ledger: str) -> None:
    """Hold the lock ``turns`` times; write one line at the start and one at the end of each."""
    with fencelock.Client(label=who) as client:
        lock = client.lock("examples:take-turns", ttl=5, timeout=30)
        for turn in range(1, turns + 1):
            with lock as lease:
                note(ledger, who, "begins", turn, lease.fence)
                time.sleep(0.05)  # the work
                lease.check()
                note(ledger, who, "ends", turn, lease.fence)


def note(ledger: str, who: str, what: str, turn: int, fence: int) -> None:
    """Append to the ledger and tell the terminal."""
    with Path(ledger).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"who": who, "what": what, "fence": fence}) + "\n")
    if what == "begins":
        print(f"{who:>6} (pid {os.getpid()}) has turn {turn}, fence {fence}", flush=True)


def check(entries: Sequence[dict[str, Any]], turns: int) -> None:
    """Raise unless every turn ended before the next began, with a higher fence."""
    if len(entries) != 2 * turns * len(NAMES):
        raise SystemExit(f"turns are missing: {len(entries)} lines in the ledger")
    last = 0
    for begin, end in zip(entries[::2], entries[1::2], strict=True):
        if (begin["what"], end["what"]) != ("begins", "ends") or begin["fence"] != end["fence"]:
            raise SystemExit(f"two turns overlapped: {begin} {end}")
        if begin["fence"] <= last:
            raise SystemExit(f"a fence did not grow: {begin}")
        last = begin["fence"]


def main() -> None:
    """Run both processes and check their ledger."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        ledger = str(Path(folder) / "ledger.jsonl")
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=take_turns, args=(name, turns, ledger)) for name in NAMES]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if any(worker.exitcode for worker in workers):
            sys.exit("a process failed")
        lines = Path(ledger).read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    check(entries, turns)
    order = [entry["who"] for entry in entries[::2]]
    changes = sum(a != b for a, b in pairwise(order))
    print(f"{turns * len(NAMES)} turns, none overlapped, fences grew, {changes} changes of hands")


if __name__ == "__main__":
    main()
