"""The noon draw: many processes, one of them draws ten winners, the others go home.

    python examples/noon_draw.py [--processes N]

Every process of the fleet runs this at noon. Whoever gets the lock looks whether today's draw is
done, draws if not, and stores the winners with its fencing token: the store refuses a draw with an
older token, so that even a process that slept through its lease cannot overwrite a later one.
Here the store is a SQLite file and the fleet are N processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import fencelock

ELIGIBLE = [f"user-{number:03}" for number in range(500)]
WINNERS = 10


def draw(database: str, day: str) -> None:
    """Draw once a day, whoever comes first; leave at once when somebody else is drawing."""
    with fencelock.Client(label="noon draw") as client:
        lock = client.lock(f"examples:draw:{day}", ttl=10)
        if not lock.acquire(blocking=False):
            print(f"pid {os.getpid()}: somebody else is drawing")
            return
        try:
            lease = lock.lease
            assert lease is not None  # we acquired it
            store = sqlite3.connect(database)
            if drawn(store, day):
                print(f"pid {os.getpid()}: today's winners are drawn already")
                return
            winners = random.sample(ELIGIBLE, WINNERS)
            lease.check()
            save(store, day, winners, lease.fence)
            print(f"pid {os.getpid()}: drew {len(winners)} winners with fence {lease.fence}")
        finally:
            lock.release()


def drawn(store: sqlite3.Connection, day: str) -> bool:
    """Tell whether the day has its winners."""
    return store.execute("SELECT 1 FROM draws WHERE day = ?", (day,)).fetchone() is not None


def save(store: sqlite3.Connection, day: str, winners: list[str], fence: int) -> None:
    """Store the winners unless a newer token was here: the resource checks the fence."""
    with store:
        changed = store.execute(
            "INSERT INTO draws (day, winners, fence) VALUES (?, ?, ?)"
            " ON CONFLICT (day) DO UPDATE SET winners = excluded.winners, fence = excluded.fence"
            " WHERE draws.fence < excluded.fence",
            (day, ",".join(winners), fence),
        ).rowcount
        store.execute("INSERT INTO log (day, fence) VALUES (?, ?)", (day, fence))
    if changed != 1:
        raise SystemExit("a newer holder has drawn: this one was too late")


def main() -> None:
    """Run a small fleet and count the draws."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=8)
    processes = parser.parse_args().processes
    day = datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "draws.sqlite")
        store = sqlite3.connect(database)
        store.execute("CREATE TABLE draws (day TEXT PRIMARY KEY, winners TEXT, fence INTEGER)")
        store.execute("CREATE TABLE log (day TEXT, fence INTEGER)")
        context = multiprocessing.get_context("spawn")
        fleet = [context.Process(target=draw, args=(database, day)) for _ in range(processes)]
        for process in fleet:
            process.start()
        for process in fleet:
            process.join()
        draws = store.execute("SELECT count(*) FROM log").fetchone()[0]
        winners = store.execute("SELECT winners FROM draws").fetchone()[0].split(",")
        store.close()
    print(f"{processes} processes, {draws} draw, {len(winners)} winners")
    if draws != 1 or any(process.exitcode for process in fleet):
        sys.exit("that was not exactly one draw")


if __name__ == "__main__":
    main()
