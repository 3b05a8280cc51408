"""In a Cluster: locks lie on all masters, and the two of one order in one slot.

    python examples/cluster.py redis+cluster://10.0.0.1:7000,10.0.0.2:7000 [--orders N]

Each order needs its stock and its cash. Their names share a tag, `{order:7}`, so both are taken by
one command; different orders are spread over the slots. Four workers go through all orders at the
same time. Name two or three nodes: any that answers tells the others. Without a URL, FENCELOCK_URL
is used.
"""

from __future__ import annotations

import argparse
import os
import threading
import time

import fencelock

WORKERS = 4


def serve(client: fencelock.Client, order: int, ledger: dict[int, list[int]]) -> None:
    """Serve one order: with both of its locks, or not at all."""
    names = [f"examples:{{order:{order}}}:{what}" for what in ("stock", "cash")]
    with client.multi(names, timeout=30) as lease:
        served = ledger[order]
        before = len(served)
        time.sleep(0.001)  # the work
        lease.check()
        assert len(served) == before, "somebody else served it meanwhile"
        served.append(lease.fences[names[0]])


def main() -> None:
    """Let the workers serve all orders, and look whether anybody came between."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", nargs="?", default=os.environ.get("FENCELOCK_URL"))
    parser.add_argument("--orders", type=int, default=20)
    args = parser.parse_args()
    if not args.url:
        parser.error("give the Cluster's URL: redis+cluster://host:port,host:port")
    ledger: dict[int, list[int]] = {order: [] for order in range(args.orders)}
    with fencelock.Client(args.url, label="orders") as client:

        def serve_all() -> None:
            for order in ledger:
                serve(client, order, ledger)

        workers = [threading.Thread(target=serve_all) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    for order, fences in ledger.items():
        assert len(fences) == WORKERS, f"order {order} was served {len(fences)} times"
        assert fences == sorted(set(fences)), f"the fences of order {order} did not grow"
    print(f"{len(ledger)} orders, each served {WORKERS} times, fences grew")


if __name__ == "__main__":
    main()
