"""Several locks at once: money moves between accounts in all directions, and nobody deadlocks.

    python examples/move_money.py [--moves N]

Each move takes the locks of two accounts, in whatever order it names them.
"""

from __future__ import annotations

import argparse
import itertools
import threading
import time

import fencelock

ACCOUNTS = ["ann", "bob", "eve"]


def move(client: fencelock.Client, balances: dict[str, int], source: str, target: str) -> None:
    names = [f"examples:account:{name}" for name in (source, target)]
    with client.multi(names, timeout=30) as lease:
        before = balances[source], balances[target]
        time.sleep(0.005)
        balances[source], balances[target] = before[0] - 1, before[1] + 1
        lease.check()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moves", type=int, default=24)
    moves = parser.parse_args().moves
    balances = dict.fromkeys(ACCOUNTS, 100)
    directions = itertools.islice(itertools.cycle(itertools.permutations(ACCOUNTS, 2)), moves)
    with fencelock.Client(label="money") as client:
        threads = [
            threading.Thread(target=move, args=(client, balances, *direction))
            for direction in directions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(balances.values()) == 100 * len(ACCOUNTS), balances
    print(f"{moves} moves, {len(ACCOUNTS)} accounts, nothing lost")


if __name__ == "__main__":
    main()
