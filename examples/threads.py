"""Threads: a counter that nothing else protects, and a reentrant lock.

    python examples/threads.py [--threads N] [--rounds N]

N threads share one handle and count in a file: read, add one, write. Without the lock some of the
additions would be lost. Each addition goes through a function that takes the same lock again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path

import fencelock


def add_one(lock: fencelock.RLock, counter: Path) -> int:
    """Read, add one, write: only ever done by one thread at a time, in any process."""
    with lock as lease:
        number = int(counter.read_text()) + 1
        lease.check()
        counter.write_text(str(number))
        return number


def work(lock: fencelock.RLock, counter: Path, rounds: int) -> None:
    """Count two at a time: the inner lock is the outer one, entered again, and costs nothing."""
    for _ in range(rounds):
        with lock as lease:
            first, second = add_one(lock, counter), add_one(lock, counter)
            assert second == first + 1, "somebody counted in between"
        print(f"{threading.current_thread().name} counted to {second}, fence {lease.fence}")


def main() -> None:
    """Let the threads count, and look whether they counted everything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, fencelock.Client(label="counter") as client:
        counter = Path(folder) / "counter"
        counter.write_text("0")
        lock = client.rlock("examples:counter", ttl=10, timeout=30)
        threads = [
            threading.Thread(
                target=work, args=(lock, counter, args.rounds), name=f"thread-{number}"
            )
            for number in range(args.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counted = int(counter.read_text())
    expected = args.threads * args.rounds * 2
    print(f"{args.threads} threads counted to {counted}")
    if counted != expected:
        sys.exit(f"it should have been {expected}")


if __name__ == "__main__":
    main()
