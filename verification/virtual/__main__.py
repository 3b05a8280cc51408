"""Run for hours of virtual time: ``python -m verification.virtual [--hours N] [--seed N]``.

Prints what happened and what may not have; ends with 1 when something did. The last line is a
digest of every request and answer with its time: the same seed gives the same.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time

from verification.virtual import loop as virtual

# As long as everybody is at work; then all stop, and what is left is looked at.
ROUND_SECONDS = 1800.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.virtual", description=__doc__)
    parser.add_argument("--hours", type=float, default=100.0, help="of virtual time (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    text = "of the server's clock; more than 0.01 breaks the promise, and is found (%(default)s)"
    parser.add_argument("--drift", type=float, default=0.008, help=text)
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a run
        os.environ["PYTHONHASHSEED"] = "0"
        module = [sys.executable, "-m", "verification.virtual"]
        os.execv(sys.executable, [*module, *sys.argv[1:]])  # noqa: S606 - ourselves, with one hash
    return run(chosen.hours, chosen.seed, chosen.drift)


def run(hours: float, seed: int, drift: float) -> int:
    """Run rounds until the hours are over; print the summary and return the exit status."""
    began = time.perf_counter()
    clock = virtual.Clock()
    virtual.install(clock, seed)
    from verification.virtual.world import World  # noqa: PLC0415 - after the clock

    logging.getLogger("fencelock").setLevel(logging.CRITICAL)  # its callers are told
    loop = virtual.VirtualLoop(clock)
    world = World(loop, seed, drift)
    start, rounds = clock.now, 0
    try:
        while clock.now - start < hours * 3600 and not world.violations:
            loop.run_until_complete(world.round(ROUND_SECONDS))
            rounds += 1
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    summary = {
        "seed": seed,
        "hours": round((clock.now - start) / 3600, 1),
        "rounds": rounds,
        "asked": dict(world.counts.most_common()),
        "faults": dict(world.weather.faults.most_common()),
        "scripts": dict(world.server.served.most_common()),
        "violations": world.violations[:10],
        "seconds": round(time.perf_counter() - began, 1),
        "trace": world.server.trace.hexdigest(),
    }
    print(json.dumps(summary, indent=2))
    return 1 if world.violations else 0


if __name__ == "__main__":
    sys.exit(main())
