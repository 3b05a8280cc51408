"""Plays the same faults on fencelock and on its peers.

.venv-benchmarks/bin/python -m verification.peers [--write] [--only KEY,…] [--columns NAME,…]

Prints the tables. What was measured is kept in measured.json beside this file with ``--write``,
which also generates docs/explanation/peers-under-faults.md from all that is kept there; with
``--only`` and ``--columns`` the other cells stay as they were measured before.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

from verification.peers.columns import COLUMNS
from verification.peers.page import page, tables
from verification.peers.play import ROWS, play
from verification.peers.seen import faults as faults_of
from verification.peers.versions import about

HERE = Path(__file__).resolve().parent
MEASURED = HERE / "measured.json"
PAGE = HERE.parents[1] / "docs" / "explanation" / "peers-under-faults.md"


def main() -> int:
    asked = _arguments()
    columns = [each for each in COLUMNS if not asked.columns or _named(each, asked.columns)]
    faults = [each for each in ROWS if not asked.only or each.key in asked.only.split(",")]
    if not columns or not faults:
        keys = "\n".join(f"  {each.key}: {each.title}" for each in ROWS)
        raise SystemExit(f"no such column or fault; faults are\n{keys}")
    told = {} if asked.render else play(product(columns, faults), runs=asked.runs, jobs=asked.jobs)
    kept = json.loads(MEASURED.read_text()) if MEASURED.exists() else {"columns": {}}
    if asked.write:
        kept = _merged(kept, told)
        MEASURED.write_text(json.dumps(kept, indent=1, sort_keys=True, allow_nan=False) + "\n")
        PAGE.write_text(page(json.loads(MEASURED.read_text())))  # from the file, as it is checked
    print(tables(kept["columns"] if asked.render else told))
    ours = {name: cells for name, cells in told.items() if name.startswith("fencelock")}
    return int(any(map(_bad, (cell for cells in ours.values() for cell in cells.values()))))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.peers", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the results, write the page")
    parser.add_argument("--render", action="store_true", help="only print what is kept")
    parser.add_argument("--only", default="", metavar="KEY,…", help="these faults")
    parser.add_argument("--columns", default="", metavar="NAME,…", help="libraries or columns")
    parser.add_argument("--runs", type=int, default=5, help="runs of each fault (5)")
    parser.add_argument("--jobs", type=int, default=3, help="faults at a time (3)")
    return parser.parse_args()


def _named(column: Any, names: str) -> bool:
    return bool({column.name, column.library} & set(names.split(",")))


def _merged(kept: Any, told: Any) -> Any:
    for name, cells in told.items():
        kept["columns"].setdefault(name, {}).update(cells)
    if told:
        kept["about"] = about()
    return kept


def _bad(cell: Any) -> bool:
    """Return True if a cell of ours shows a fault, or could not be played."""
    return isinstance(cell, dict) and ("failed" in cell or faults_of(cell) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
