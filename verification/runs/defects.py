"""Whether the runs see what they are there for: defects sown into fencelock, one at a time.

python -m verification.runs.defects [--seconds N] [--seed N] [--jobs N] [--write] [NAME ...]

The defects are those that the simulator's tests sow (tests/flows/seeds, of locks and shares): each
changes one place of a shipping script or flow, in the client processes of one run. Prints a table
of what each run found; ``--write`` puts it into README.md, between the marks there.

Not every one can show here: some need an order of events that real servers meet once in a million,
which is what the simulator is for; and some break what no run looks at.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.faults import resp
from tests.flows.seeds import locks, shares
from tests.flows.sowing import Lua
from verification.runs.run import Run

# Where all faults together show nothing, fewer kinds may: each of them then strikes more often.
FOCI = (
    None,
    ["drop", "delay", "one-way cut", "kill client"],
    ["clock back", "freeze client"],
)
PAGE = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- defects: begin -->", "<!-- defects: end -->"
HEAD = "| defect | breaks | found by |\n| --- | --- | --- |"
VARIABLE = "RUNS_DEFECT"
SEEDS = {seed.name: seed for seed in locks.SEEDS}
# Its second script is known to the simulator's server only.
del SEEDS["a place in line that is requested after the refusal"]
SEEDS |= {f"shares: {seed.name}": seed for seed in shares.SEEDS}
_sown = contextlib.ExitStack()  # stays for as long as the process lives


def sow() -> None:
    """Change this process's fencelock as the environment says."""
    _sown.enter_context(SEEDS[os.environ[VARIABLE]].change.applied())


def sown(name: str) -> dict[str, str]:
    """Return the environment of a client with that defect; the proxy learns the script's digest."""
    change = SEEDS[name].change
    if isinstance(change, Lua):
        resp.NAMES[change.digest] = change.where
    return {VARIABLE: name}


def main() -> None:
    chosen = _arguments()
    rows = []
    print(HEAD)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for row in pool.map(partial(_row, chosen), chosen.names or SEEDS):
            rows.append(row)
            print(row, flush=True)
    if chosen.write:
        _write(rows, chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at once (1)")
    parser.add_argument("--write", action="store_true", help="the table in README.md")
    parser.add_argument("names", nargs="*", help="only these")
    chosen = parser.parse_args()
    if chosen.write and chosen.names:
        parser.error("the table is of all defects: --write goes without names")
    return chosen


def _write(rows: list[str], chosen: argparse.Namespace) -> None:
    seen = sum(not row.endswith(" nothing |") for row in rows)
    told = (
        f"Written by `python -m verification.runs.defects --seed {chosen.seed}"
        f" --seconds {chosen.seconds:g} --write`: {seen} of {len(rows)} found."
    )
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    table = "\n".join([HEAD, *rows])
    PAGE.write_text(f"{before}{BEGIN}\n\n{told}\n\n{table}\n\n{END}{after}")


def _row(chosen: argparse.Namespace, name: str) -> str:
    found = next(filter(None, (_found(name, chosen, focus) for focus in FOCI)), "nothing")
    return f"| {name} | {', '.join(sorted(SEEDS[name].breaks))} | {found} |"


def _found(name: str, chosen: argparse.Namespace, faults: list[str] | None) -> str:
    """Return which checks of a run with that defect found something."""
    with Run("one", seed=chosen.seed, faults=faults, environment=sown(name)) as run:
        run.rage(chosen.seconds)
        run.finish()
        return ", ".join(text.split(":")[0] for text in run.violations())


if __name__ == "__main__":
    main()
