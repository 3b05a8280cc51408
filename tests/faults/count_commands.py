"""How many commands clients send per acquisition, however many wait: a release hands over (I5).

python -m tests.faults.count_commands [WAITERS ...]

Prints a table for each face, counted by the server itself (INFO commandstats). What a connection
costs once stands beside it: each thread that waits has its own, the tasks of a process share one.
Every waiter takes turns at one lock as fast as it can, in threads or tasks of four processes.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading

import fencelock
from tests.faults.children import ROOT
from tests.faults.conftest import load
from tests.servers import Server

SIZES = (2, 16, 100, 1000)
PROCESSES = 4
ACQUISITIONS = 4000
TURNS_MIN = 10
CALLS = ("evalsha", "eval")
SENT_BY_CLIENTS = (*CALLS, "subscribe", "unsubscribe", "hello", "script|load")
NAME = "counted"


def counts(face, waiters):
    """Return what the server counted while so many waiters took their turns, and the turns."""
    with Server() as server, contextlib.ExitStack() as ends:
        load(server)
        server.command("CONFIG", "SET", "maxclients", "4000")
        processes = min(waiters, PROCESSES)
        turns = max(TURNS_MIN, ACQUISITIONS // waiters)
        command = [
            sys.executable,
            "-m",
            "tests.faults.count_commands",
            "worker",
            face,
            server.tcp_url,
        ]
        numbers = [str(waiters // processes), str(turns)]
        workers = [start([*command, *numbers], ends) for _ in range(processes)]
        for worker in workers:
            worker.stdout.readline()
        server.command("CONFIG", "RESETSTAT")
        for worker in workers:
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        taken = sum(json.loads(worker.stdout.readline()) for worker in workers)
        stats = server.commandstats()
    return {name: stats[name] for name in SENT_BY_CLIENTS if name in stats}, taken


def start(command, ends):
    """Start a worker that ends, whatever happens, with ``ends``."""
    pipe = subprocess.PIPE
    process = ends.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe))
    ends.callback(process.kill)
    return process


def calls(sent):
    """Return how many script calls are among what clients sent."""
    return sum(sent.get(name, 0) for name in CALLS)


def threads(url, waiters, turns):
    """Take turns in threads, each with a connection that the warm-up opened."""
    begin, warm = threading.Event(), threading.Barrier(waiters + 1)
    client = fencelock.Client(url, cohort=None)

    def take_turns():
        lock = client.lock(NAME)
        with client.lock(f"{NAME}-{threading.get_ident()}"):
            warm.wait(60)
        begin.wait()
        for _ in range(turns):
            with lock:
                pass

    crowd = [threading.Thread(target=take_turns) for _ in range(waiters)]
    for each in crowd:
        each.start()
    warm.wait(60)
    yield
    begin.set()
    for each in crowd:
        each.join()
    yield
    client.close()


def tasks(url, waiters, turns):
    """Take turns in the tasks of one loop."""
    loop = asyncio.new_event_loop()
    client = fencelock.AsyncClient(url, cohort=None)

    async def warm():
        async with client.lock(f"{NAME}-{id(loop)}"):
            pass

    async def take_turns():
        lock = client.lock(NAME)
        for _ in range(turns):
            async with lock:
                await asyncio.sleep(0)

    async def crowd():
        await asyncio.gather(*(take_turns() for _ in range(waiters)))

    loop.run_until_complete(warm())
    yield
    loop.run_until_complete(crowd())
    yield
    loop.run_until_complete(client.aclose())
    loop.close()


def worker(face, url, waiters, turns):
    """Warm up, wait for the word, take turns, say how many."""
    run = {"threads": threads, "tasks": tasks}[face](url, int(waiters), int(turns))
    next(run)
    say("ready")
    sys.stdin.readline()
    next(run)
    say(int(waiters) * int(turns))
    sys.stdin.read()
    next(run, None)


def say(value):
    print(json.dumps(value), flush=True)  # noqa: T201 - how it talks to its parent, and the table


def main():
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
        return
    row = "{:<8}{:>8}{:>14}{:>20}  {}".format
    print(row("face", "waiters", "acquisitions", "calls/acquisition", "once per connection"))  # noqa: T201 - as above
    for face in ("threads", "tasks"):
        for size in map(int, sys.argv[1:] or SIZES):
            sent, taken = counts(face, size)
            each = f"{calls(sent) / taken:.3f}"
            other = {name: count for name, count in sent.items() if name not in CALLS}
            print(row(face, size, taken, each, str(other or "")), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
