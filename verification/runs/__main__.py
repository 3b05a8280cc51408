"""Real clients, real servers, faults by a seed, and a verdict.

python -m verification.runs [--seconds N] [--seed N] [--servers KIND,...] [--faults NAME,...]
                            [--kinds N] [--json FILE]

Without arguments: every kind of servers for 20 seconds each, with all faults that the guarantees
cover there, and then what they exclude, where overlaps must show. The exit status is 0 when every
run shows what it must.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

from tests.servers import binaries
from verification.runs.run import Run
from verification.runs.topologies import SERVERS

# What loses leases, or their time, by the server's own doing: no guarantee can cover it.
EXCLUDED = {
    "one": ["clock forward"],
    "persistent": ["clock far too fast"],
    "forgetful": ["restart"],
    "everysec": ["power loss"],
    "quorum": ["node's clock forward"],
    "sentinel": ["kill cut off master", "kill master", "freeze master for long", "failover"],
    "sentinel acknowledged": ["failover"],
    "cluster failover": ["kill cut off master", "kill master", "freeze master for long"],
}
COVERED = (
    *("one", "persistent", "quorum", "sentinel acknowledged", "sentinel acknowledged by all"),
    *("cluster", "cluster failover", "cluster acknowledged", "address"),
)


def main() -> None:
    chosen = _arguments()
    reports = []
    for kind, faults in _plan(chosen):
        for binary in binaries()[: chosen.kinds]:
            with Run(kind, seed=chosen.seed, faults=faults, binary=binary) as run:
                if not run.faults:
                    print(f"{kind}: not run: {run.not_run}\n")
                    continue
                run.rage(chosen.seconds)
                run.finish()
                reports.append(run.report() | {"violations": run.violations()})
            _show(reports[-1], run)
    if chosen.json:
        chosen.json.write_text(json.dumps(reports, indent=2))
    sys.exit(any(report["violations"] for report in reports))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run (20)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--servers", type=_names, help=f"of {', '.join(SERVERS)}")
    parser.add_argument("--faults", type=_names, help="only these, covered or not")
    parser.add_argument("--kinds", type=int, default=1, help="on the N newest server programs (1)")
    parser.add_argument("--json", type=Path, help="keep the report in a file")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _plan(chosen: argparse.Namespace) -> list[tuple[str, list[str] | None]]:
    if chosen.faults:
        return [(kind, chosen.faults) for kind in chosen.servers or ["one"]]
    kinds = chosen.servers or list(SERVERS)
    covered = [(kind, None) for kind in kinds if kind in COVERED]
    return [*covered, *((kind, EXCLUDED[kind]) for kind in kinds if kind in EXCLUDED)]


def _show(report: dict[str, Any], run: Run) -> None:
    for name, value in report.items():
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        print(f"{name:28} {text}")
    if run.verdict.covered:
        for pair in [*run.verdict.overlaps, *run.verdict.fences_back][:5]:
            print("   ", *pair)
    print(flush=True)


if __name__ == "__main__":
    main()
