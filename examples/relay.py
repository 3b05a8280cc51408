"""Workers start together, meet after each round, and tell when they are done.

    python examples/relay.py [--workers N] [--rounds N]

Each worker is a process. They wait for the event "go", meet at a barrier after each round, put what
they have made onto a shelf under a lock, push to a list on which the collector waits, and count the
latch "done" down.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import redis

import fencelock

PREFIX = "examples:relay"


def work(number: int, workers: int, rounds: int, shelf: str) -> None:
    """Take part as one worker."""
    with fencelock.Client(label=f"worker {number}") as client:
        client.event(f"{PREFIX}:go").wait(timeout=30)
        rounds_end = client.barrier(f"{PREFIX}:round", workers, timeout=30)
        lock, server = client.lock(f"{PREFIX}:shelf"), connected()
        for turn in range(rounds):
            with lock:
                put(shelf, {"worker": number, "round": turn})
                server.rpush(f"{PREFIX}:filled", number)
            if rounds_end.wait() == 0:
                print(f"round {turn + 1} is done by all {workers}", flush=True)
        client.latch(f"{PREFIX}:done", workers).count_down()


def put(shelf: str, thing: dict[str, int]) -> None:
    """Add to the shelf; the lock is held."""
    things = json.loads(Path(shelf).read_text(encoding="utf-8"))
    Path(shelf).write_text(json.dumps([*things, thing]), encoding="utf-8")


def connected() -> redis.Redis:
    """Return a client for plain commands, on the server of the locks.

    redis-py 8 waits for an answer for 5 s, where not told otherwise: too short for a BLPOP of 30 s.
    """
    url = os.environ.get("FENCELOCK_URL") or fencelock.embedded.ensure()
    return redis.Redis.from_url(url, socket_timeout=None)


def collect(client: fencelock.Client, shelf: str, expected: int) -> int:
    """Wait until the shelf holds as much as is expected; return how often it looked."""
    lock, server, looks = client.lock(f"{PREFIX}:shelf"), connected(), 0
    while True:
        with lock:
            looks += 1
            if len(json.loads(Path(shelf).read_text(encoding="utf-8"))) == expected:
                return looks
        if not server.blpop([f"{PREFIX}:filled"], timeout=30):  # the lock is free meanwhile
            sys.exit("the workers did not fill the shelf in time")


def main() -> None:
    """Start the workers, say go, and wait until they are done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, fencelock.Client() as client:
        shelf = str(Path(folder) / "shelf.json")
        Path(shelf).write_text("[]", encoding="utf-8")
        connected().delete(f"{PREFIX}:filled")
        client.event(f"{PREFIX}:go").clear()
        client.barrier(f"{PREFIX}:round", args.workers).reset()
        done = client.latch(f"{PREFIX}:done", args.workers)
        done.reset()
        context = multiprocessing.get_context("spawn")
        given = (args.workers, args.rounds, shelf)
        workers = [context.Process(target=work, args=(n, *given)) for n in range(args.workers)]
        for worker in workers:
            worker.start()
        client.event(f"{PREFIX}:go").set()
        things = args.workers * args.rounds
        looks = collect(client, shelf, things)
        if not done.wait(timeout=30):
            sys.exit("not all workers were done in time")
        for worker in workers:
            worker.join()
    print(f"{args.workers} workers made {things} things; the collector looked {looks} times")


if __name__ == "__main__":
    main()
