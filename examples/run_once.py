"""The noon draw, the short way: of many processes one draws, and all know who has won.

    python examples/run_once.py [--processes N]

Every process of the fleet runs this at noon, each host by its own clock. `noon_draw.py` does the
same with a lock and a table of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from datetime import UTC, datetime

import fencelock

ELIGIBLE = [f"user-{number:03}" for number in range(500)]
WINNERS = 10


def draw() -> list[str]:
    return random.sample(ELIGIBLE, WINNERS)


def take_part(name: str) -> None:
    """Be one process of the fleet."""
    with fencelock.Client(label="noon draw") as client:
        outcome = client.once(name, within=3600, wait=True, timeout=30).run(draw)
    print(json.dumps({"ran": outcome.ran, "winners": outcome.value}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--take-part", metavar="NAME", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.take_part:
        take_part(args.take_part)
        return
    name = f"examples:draw:{datetime.now(UTC).date()}:{os.getpid()}"
    words = [sys.executable, __file__, "--take-part", name]
    fleet = [
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(args.processes)
    ]
    told = [json.loads(process.communicate()[0]) for process in fleet]
    draws = sum(each["ran"] for each in told)
    assert draws == 1
    assert all(each["winners"] == told[0]["winners"] for each in told)
    print(f"{len(told)} processes, {draws} draw, all know the {len(told[0]['winners'])} winners")


if __name__ == "__main__":
    main()
