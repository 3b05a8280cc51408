"""Behind Sentinels: work goes on while its master is replaced.

    python examples/sentinel.py redis+sentinel://s1,s2,s3/orders/0 [--steps N]

The work is done in steps under one lock. While it runs, kill the master, or order a failover with
`redis-cli -p 26379 SENTINEL FAILOVER orders`: the lease is renewed on the new master, and nothing
is seen of it. When the new master had never heard of the grant, or the failover takes longer than
the lease, the lease is lost: the work is told, stops, and goes on under a new one with a higher
fence. Without a URL, FENCELOCK_URL is used.
"""

from __future__ import annotations

import argparse
import os
import time

import fencelock


def work(lease: fencelock.Lease, done: int, steps: int) -> int:
    """Do steps until all are done or the lease is lost; return how many are done."""
    while done < steps and not lease.lost:
        time.sleep(0.1)  # a step; what it writes carries lease.fence, for the case of the two
        done += 1
    return done


def main() -> None:
    """Do all steps, under as few leases as the servers allow."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", nargs="?", default=os.environ.get("FENCELOCK_URL"))
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    if not args.url:
        parser.error("give the Sentinels' URL: redis+sentinel://s1,s2,s3/service/0")
    done, fences = 0, []
    # A failover takes some seconds: calls ask again for longer, and leases last longer, than that.
    with fencelock.Client(args.url, server_timeout=30, ttl=30, label="worker") as client:
        while done < args.steps:
            try:
                with client.lock("examples:sentinel") as lease:
                    fences.append(lease.fence)
                    print(f"fence {lease.fence}: from step {done + 1}", flush=True)
                    done = work(lease, done, args.steps)
            except fencelock.LeaseLost as lost:
                print(f"fence {lost.fence}: lost after step {done} ({lost.reason})", flush=True)
    assert fences == sorted(set(fences)), "fences grow, over failovers too"
    print(f"{done} steps under {len(fences)} lease(s)")


if __name__ == "__main__":
    main()
