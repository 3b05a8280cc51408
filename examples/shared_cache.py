"""Many read and one writes, and at most two load at a time.

    python examples/shared_cache.py [--readers N] [--rounds N]

Threads read a file under the read side of a lock, all at once, and one writes it under the write
side, alone. A reader that finds it too old loads a part anew; a semaphore lets two of them load.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path

import fencelock


class Most:
    """Counts how many are inside at a time, and the most there ever were."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


def read(lock: fencelock.RWLock, slots: fencelock.Semaphore, file: Path, loading: Most) -> None:
    """See two lines that are the same: nobody writes meanwhile."""
    with lock.read:
        one, other = file.read_text().splitlines()
        assert one == other, "somebody wrote meanwhile"
    with slots, loading:
        assert loading.inside <= 2, "more than two load"


def write(lock: fencelock.RWLock, file: Path, rounds: int) -> None:
    """Write two lines, one after the other: nobody reads meanwhile."""
    for number in range(rounds):
        with lock.write as lease:
            file.write_text(f"{number}\n")
            lease.check()
            file.write_text(f"{number}\n{number}\n")


def main() -> None:
    """Let them read and write, and tell how many loaded at a time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    loading, failed = Most(), []
    with tempfile.TemporaryDirectory() as folder, fencelock.Client() as client:
        file = Path(folder) / "cache"
        file.write_text("new\nnew\n")
        lock = client.rwlock("examples:cache", read_ttl=5, write_ttl=10, timeout=30)
        slots = client.semaphore("examples:loads", 2, timeout=30)

        def reads() -> None:
            try:
                for _ in range(args.rounds):
                    read(lock, slots, file, loading)
            except BaseException as error:
                failed.append(error)
                raise

        threads = [threading.Thread(target=reads) for _ in range(args.readers)]
        threads.append(threading.Thread(target=write, args=(lock, file, args.rounds)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        sys.exit(f"{len(failed)} readers failed")
    reads_done = args.readers * args.rounds
    print(f"{reads_done} reads beside {args.rounds} writes, {loading.most} loaded at a time")


if __name__ == "__main__":
    main()
