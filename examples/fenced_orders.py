"""A holder that slept through its lease is refused by the database.

    python examples/fenced_orders.py [--ttl SECONDS]

A worker locks an order, writes, and is stopped, as a busy or suspended machine would stop it. Its
lease ends, another worker locks the order and writes. Then the first one wakes up and writes on: it
cannot know yet, but the database does. Here the database is a SQLite file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import fencelock
from fencelock.fences import FenceGuard, FencingToken

guard = FenceGuard()


def save(database: str, state: str, token: FencingToken) -> None:
    """Write the state of the order, if no newer holder has written."""
    with closing(sqlite3.connect(database)) as store, store:
        guard.check(store, token)
        store.execute("UPDATE orders SET state = ?", (state,))


def sleepy(database: str, line: Connection, ttl: float) -> None:
    """Write, sleep as long as the parent likes, and write again with the same fence."""
    client = fencelock.Client()
    lock = client.lock("examples:order:42", ttl=ttl)
    lock.acquire()
    assert lock.lease is not None  # it was acquired
    token = FencingToken(lock.lease.name, lock.lease.fence)
    save(database, "paid", token)
    line.send("written")
    line.recv()  # stopped here
    try:
        save(database, "cancelled", token)
    except fencelock.Stale as refused:
        line.send(str(refused))


def main() -> int:
    """Stop the first holder, write as the second one, and let the first one go on."""
    options = argparse.ArgumentParser(description="A late write is refused by its fence.")
    options.add_argument("--ttl", type=float, default=1, help="length of the first lease, in s")
    ttl = options.parse_args().ttl
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "orders.db")
        with closing(sqlite3.connect(database)) as store, store:
            guard.create(store)
            store.execute("CREATE TABLE orders (state TEXT)")
            store.execute("INSERT INTO orders VALUES ('new')")

        ours, theirs = multiprocessing.Pipe()
        holder = multiprocessing.get_context("spawn").Process(
            target=sleepy, args=(database, theirs, ttl)
        )
        holder.start()
        theirs.close()  # only the holder has it: if that dies, this one does not wait for its words
        print("first holder:", ours.recv())
        assert holder.pid is not None  # it was started
        os.kill(holder.pid, signal.SIGSTOP)

        with fencelock.Client() as client, client.lock("examples:order:42", timeout=20) as lease:
            save(database, "sent", FencingToken(lease.name, lease.fence))
            print("second holder: written")
            os.kill(holder.pid, signal.SIGCONT)
            ours.send("go on")
            print("first holder:", ours.recv())
        holder.join()

        with closing(sqlite3.connect(database)) as store:
            (state,) = store.execute("SELECT state FROM orders").fetchone()
    print(f"the late write was refused, the order is {state!r}")
    return 0 if state == "sent" else 1


if __name__ == "__main__":
    sys.exit(main())
