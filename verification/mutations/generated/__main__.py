"""Make mutants and see which tests kill them: ``python -m verification.mutations.generated``.

``record`` runs the tests once and records what each of them runs; then ``try`` draws a sample of
mutants and runs, for each, the tests that can kill it. Results are kept in build/mutants, so that
a run that was ended goes on where it was. ``page`` writes docs/explanation/generated-mutants.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from verification.mutations.generated.mutants import Mutant
from verification.mutations.generated.page import write
from verification.mutations.generated.sample import sample
from verification.mutations.generated.selection import BUILD, DAILY, NIGHT, Recordings, record
from verification.mutations.generated.trial import killer

RECORDED = [
    f"tests/{name}"
    for name in (
        *("pure", "flows", "conformance", "threads", "tasks"),
        *("quorum", "cluster", "faults", "embedded", "cli", "scale", "integrations"),
    )
]
BUDGETS = (30.0, 150.0)  # seconds of recorded time: the cheapest tests first, then more


def results_of(seed: int) -> Path:
    return BUILD / f"results-{seed}.jsonl"


def done(seed: int) -> dict[str, dict[str, str]]:
    """Return the results so far, by the mutant's key; the last word on each counts."""
    path = results_of(seed)
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {row["key"]: row for row in rows}


def try_all(chosen: argparse.Namespace) -> None:
    """Try every mutant of a sample that has no result yet, or that survived."""
    seed, parts = chosen.seed, chosen.parts
    known, recordings, budgets = done(seed), Recordings(), tuple(chosen.budgets)
    wanted = [
        mutant
        for mutant in sample(seed, chosen.size)
        if mutant.key not in known or (chosen.survivors and not known[mutant.key]["killer"])
    ]

    def one(mutant: Mutant) -> None:
        part, found = next(
            ((part, test) for part in parts if (test := killer(mutant, recordings, part, budgets))),
            ("", ""),
        )
        row = {"key": mutant.key, "file": mutant.file, "operator": mutant.operator}
        row |= {"before": mutant.before, "after": mutant.after, "killer": found, "part": part}
        if found and chosen.later:
            row["later"] = "1"
        with results_of(seed).open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{mutant.file}:{mutant.line} {mutant.before} → {mutant.after}", flush=True)
        print(f"    {found or 'SURVIVED'}", flush=True)

    with ThreadPoolExecutor(chosen.jobs) as pool:
        list(pool.map(one, wanted))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.mutations.generated")
    parser.add_argument("command", choices=("record", "try", "page"))
    parser.add_argument("tests", nargs="*", help="for record: other tests than all")
    parser.add_argument("--seed", type=int, default=1, help="draws the sample (1)")
    parser.add_argument("--size", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once (2)")
    parser.add_argument("--survivors", action="store_true", help="try those again that survived")
    parser.add_argument("--later", action="store_true", help="tests were written for those")
    parser.add_argument("--parts", nargs="+", default=(DAILY, NIGHT), choices=(DAILY, NIGHT))
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS, metavar="SECONDS")
    chosen = parser.parse_intermixed_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if chosen.command == "record":
        return record(chosen.tests or RECORDED, chosen.jobs, chosen.parts)
    if chosen.command == "try":
        try_all(chosen)
    else:
        write(chosen.seed, list(done(chosen.seed).values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
