"""How many pairs a second the threads of one process make, by their number, each with its lock.

python benchmarks/threads.py [--seconds S] [--url URL]

For builds of Python with and without the GIL: run it with each of them in turn, at one server. It
needs no other package than fencelock; a server is started when none is named.
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import statistics
import sys
import threading
import time

import fencelock

NUMBERS = (1, 2, 4, 8)
ROUNDS = 5  # of each number, in turns


def rate(client: fencelock.Client, number: int, seconds: float) -> float:
    """Return the pairs a second that so many threads make together."""
    made, begin = [0] * number, threading.Barrier(number + 1)

    def run(mine: int) -> None:
        lock = client.lock(f"bench:threads:{mine}")
        with lock:  # its connection is open
            pass
        begin.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            lock.acquire()
            lock.release()
            made[mine] += 1

    threads = [threading.Thread(target=run, args=(each,)) for each in range(number)]
    for thread in threads:
        thread.start()
    begin.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(made) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--url", help="a server to use; without it, one is started")
    options = parser.parse_args()
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    with contextlib.closing(fencelock.Client(options.url)) as client:
        taken = [[rate(client, each, options.seconds) for each in NUMBERS] for _ in range(ROUNDS)]
    print(f"Python {platform.python_version()}, GIL {'on' if gil else 'off'}")
    for number, rates in zip(NUMBERS, zip(*taken, strict=True), strict=True):
        print(f"{number} threads: {statistics.median(rates):,.0f} pairs/s")


if __name__ == "__main__":
    main()
