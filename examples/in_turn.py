"""Cohorts: the threads of a client take turns by themselves, or strictly in the order of arrival.

    python examples/in_turn.py [--threads N] [--turns N]

Two clients with N threads each want one lock. By default the lock stays with a client for a few
milliseconds, from thread to thread, and then goes to the other client; with ``cohort=None`` every
thread stands in line by itself. Both are timed; the fencing tokens prove that no turn was lost.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from itertools import pairwise

import fencelock


def take_turns(lock: fencelock.Lock, client: int, turns: int, seen: list[tuple[int, int]]) -> None:
    """Hold the lock that often; note which client had it, and with which fence."""
    for _ in range(turns):
        with lock as lease:
            seen.append((lease.fence, client))  # nothing else protects this list's order


def run(clients: list[fencelock.Client], args: argparse.Namespace, *, strict: bool) -> str:
    """Let all threads of both clients take their turns; return how it went."""
    seen: list[tuple[int, int]] = []
    threads = []
    for number, client in enumerate(clients):
        lock = client.lock("examples:in-turn", ttl=10, timeout=30)
        if strict:
            lock = client.lock("examples:in-turn", ttl=10, timeout=30, cohort=None)
        given = (lock, number, args.turns, seen)
        threads += [threading.Thread(target=take_turns, args=given) for _ in range(args.threads)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - begin
    if len(seen) != len(threads) * args.turns:
        sys.exit(f"turns are missing: {len(seen)}")
    if any(one >= next_one for (one, _), (next_one, _) in pairwise(seen)):
        sys.exit("a fence did not grow")
    changes = sum(one != other for (_, one), (_, other) in pairwise(seen))
    kind = "strict" if strict else "cohort"
    print(f"{kind}: {len(seen)} turns in {taken * 1000:.0f} ms, {changes} from client to client")
    return f"{len(seen)} turns"


def main() -> None:
    """Run both ways, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--turns", type=int, default=50)
    args = parser.parse_args()
    with fencelock.Client(label="one") as one, fencelock.Client(label="other") as other:
        told = {run([one, other], args, strict=strict) for strict in (False, True)}
    print(f"twice {told.pop()}, fences grew")


if __name__ == "__main__":
    main()
