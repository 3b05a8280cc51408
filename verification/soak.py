"""Mixed faults for as long as wanted, and what is left behind.

python -m verification.soak --minutes N [--seed N] [--write [FILE]]

All faults that the guarantees cover, on one server that persists, minute after minute. After each
minute everybody stands aside for a moment: what happened is checked, nothing may be held, and two
clients that live through the whole run count what they have. Prints a report; ``--write`` keeps it.
The exit status is 0 when nothing was violated and nothing leaked.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencelock._runtime.clock import now
from verification.runs.crew import Client
from verification.runs.run import Run

REPORT = Path(__file__).resolve().parent / "soak-report.md"
CHAPTER_SECONDS = 60.0
LASTING = 2  # one of each face
# A process's memory settles within the first chapter; then it may not grow by more than its noise.
GROWTH_KB = 4096


class Soak:
    """One long run, and the samples that it takes between its chapters."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.server: list[dict[str, Any]] = []

    def go_on(self, seconds: float) -> None:
        end = now() + seconds
        chapter = min(CHAPTER_SECONDS, seconds / 3)
        for number in range(10**6):
            self.run.rage(min(chapter, max(1.0, end - now())))
            last = now() >= end - 1
            self.run.pause("end" if last else "warm" if number == 0 else f"chapter {number}")
            self.server.append(self.run.servers.sample())
            if last:
                break
            self.run.crew.resume()
        self.run.finish()

    def leaks(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield what was counted: after the first chapter, at the end, and how much more may be."""
        for face, samples in self._lasting():
            warm, end = samples["warm"], samples["end"]
            begin, closed = samples["begin"], samples["closed"]
            for what in ("threads", "tasks"):
                yield f"{what} of a client ({face}), idle", warm[what], end[what], 0
                yield f"{what} of a client ({face}), closed", begin[what], closed[what], 0
            yield f"open files of a client ({face}), idle", warm["files"], end["files"], 20
            yield f"open files of a client ({face}), closed", begin["files"], closed["files"], 0
            memory = warm["memory_kb"], end["memory_kb"]
            yield f"memory of a client ({face}), KB", *memory, GROWTH_KB
        warm, end = self.server[0], self.server[-1]
        after = self.run.servers.sample()
        yield "memory of the server, KB", warm["memory_kb"], end["memory_kb"], GROWTH_KB
        yield "connections to the server after all closed", 0, after["connections"], 0

    def lasting(self) -> list[Client]:
        """Return the clients that live through the whole run."""
        return [client for client in self.run.crew.clients if client.lasting]

    def _lasting(self) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
        for client in self.lasting():
            every = self.run.crew.history.samples
            mine = [sample for sample in every if sample["pid"] == client.process.pid]
            yield client.face, {sample["label"]: sample for sample in mine}


def main() -> None:
    chosen = _arguments()
    with Run("persistent", seed=chosen.seed, lasting=LASTING) as run:
        soak = Soak(run)
        soak.go_on(chosen.minutes * 60)
        text, bad = told(soak, f"python -m verification.soak --minutes {chosen.minutes:g}")
    print(text)
    if chosen.write:
        chosen.write.write_text(text)
    sys.exit(bool(bad))


def told(soak: Soak, command: str) -> tuple[str, list[str]]:
    """Return the report, and what may not be."""
    report, bad = soak.run.report(), soak.run.violations()
    leaks = list(soak.leaks())
    for name, before, after, more in leaks:
        bad += [f"{name}: {before} → {after}"] if after > before + more else []
    found = "; ".join(bad) or "nothing"
    lines = ["# Soak report", "", f"Written by `{command} --write`."]
    lines += [f"What was violated or leaked: {found}.", ""]
    lines += _table(("what", "found"), [(k, _cell(v)) for k, v in report.items()])
    series = soak.run.crew.history.samples
    for face, pid in sorted({(client.face, client.process.pid) for client in soak.lasting()}):
        memory = [str(sample["memory_kb"]) for sample in series if sample["pid"] == pid]
        lines += [f"| memory of a client ({face}), KB, over time | {' '.join(memory)} |"]
    rows = [(name, before, after) for name, before, after, _ in leaks]
    lines += ["", *_table(("left behind", "after the first chapter", "at the end"), rows)]
    return "\n".join(lines) + "\n", bad


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--write", type=Path, nargs="?", const=REPORT, help="keep the report")
    return parser.parse_args()


if __name__ == "__main__":
    main()
