"""Decorated functions: calls for one order take turns, calls for two do not wait for each other.

    python examples/decorated.py [--calls N]

`bill` must not run twice at the same time for the same order. Its lock is named by the call's
arguments; `report` is left out when somebody is at it.
"""

from __future__ import annotations

import argparse
import threading
import time

import fencelock

CLIENT = fencelock.Client(label="decorated")
INSIDE: set[int] = set()
FENCES: list[int] = []


@CLIENT.locked("examples:order:{order_id}", timeout=30, lease="lease")
def bill(order_id: int, lease: fencelock.Lease | None = None) -> None:
    assert order_id not in INSIDE, "two calls for one order"
    assert lease is not None
    INSIDE.add(order_id)
    time.sleep(0.01)
    FENCES.append(lease.fence)
    INSIDE.remove(order_id)


@CLIENT.locked("examples:report", on_busy="skip")
def report() -> str:
    return f"{len(FENCES)} bills"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=20)
    calls = parser.parse_args().calls
    threads = [threading.Thread(target=bill, args=(number % 2,)) for number in range(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with CLIENT.lock("examples:report"):
        assert report() is None, "somebody is at it: skipped"
    assert report() == f"{calls} bills"
    CLIENT.close()
    print(f"{calls} calls, 2 orders, none overlapped")


if __name__ == "__main__":
    main()
