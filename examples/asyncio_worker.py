"""asyncio: workers settle accounts, each account by one worker at a time.

    python examples/asyncio_worker.py [--workers N] [--accounts N]

Every worker goes through all accounts, in an order of its own. It waits for an account that another
one is working on, but not for long, and leaves alone what is settled already. A worker whose lease
is lost is cancelled in the middle of its work and goes on with the next account.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys

import fencelock

Ledger = dict[str, tuple[str, int]]  # account: who settled it, under which fence


async def worker(
    name: str, client: fencelock.AsyncClient, accounts: list[str], ledger: Ledger
) -> int:
    """Settle what is left; return how many accounts were settled before it had its turn."""
    settled = 0
    for account in random.sample(accounts, len(accounts)):
        lock = client.lock(f"examples:{account}", ttl=5, timeout=3, on_lost="cancel", label=name)
        try:
            async with lock as lease:
                if account in ledger:
                    settled += 1
                    continue
                await settle(account)
                lease.check()
                ledger[account] = (name, lease.fence)
        except fencelock.AcquireTimeout:
            print(f"{name} leaves {account} to whoever works on it")
        except fencelock.LeaseLost as lost:
            print(f"{name} lost {account}: {lost.reason}")
    return settled


async def settle(account: str) -> None:
    """Do the work; an await like any other, so a lost lease ends it."""
    await asyncio.sleep(0.01 + len(account) / 10_000)


async def run(workers: int, accounts: list[str]) -> None:
    """Let the workers run, and look whether every account was settled once."""
    ledger: Ledger = {}
    async with fencelock.AsyncClient() as client:
        names = [f"worker-{number}" for number in range(workers)]
        jobs = [worker(name, client, accounts, ledger) for name in names]
        settled = sum(await asyncio.gather(*jobs))
    for account in accounts:
        who, fence = ledger.get(account, ("nobody", 0))
        print(f"{account} settled by {who}, fence {fence}")
    print(
        f"{len(ledger)} accounts settled by {workers} workers, {settled} times it was done already"
    )
    if len(ledger) != len(accounts):
        sys.exit("some were left over")


def main() -> None:
    """Read the arguments and start the loop."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--accounts", type=int, default=12)
    args = parser.parse_args()
    asyncio.run(run(args.workers, [f"account-{number}" for number in range(args.accounts)]))


if __name__ == "__main__":
    main()
