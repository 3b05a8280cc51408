"""How fair semaphores and reader/writer locks are: ``python -m tests.scale.fairness [SECONDS]``.

Processes take turns as fast as they can. For each kind it prints how many turns the least and the
most lucky had, how long the longest wait was, and how many commands a turn cost.
"""

# ruff: noqa: T201 - its output is its purpose

import json
import subprocess
import sys
import threading
import time

import fencelock
from tests.faults.children import ROOT
from tests.servers import Server

SECONDS = 5.0
WORK_SECONDS = 0.001
# Each with its roles: how many processes do what.
WORLDS = {
    "semaphore, limit 3, 16 processes": {"semaphore": 16},
    "semaphore, limit 3, 15 processes for 1, 1 for all 3": {"semaphore": 15, "large": 1},
    "rwlock, 16 readers, 2 writers": {"read": 16, "write": 2},
    "rwlock, 2 readers, 16 writers": {"read": 2, "write": 16},
}


def handle(client, role):
    """Return what a role takes, and with which options."""
    if role in {"semaphore", "large"}:
        permits = 3 if role == "large" else 1
        semaphore = client.semaphore("fair", 3)
        return lambda: semaphore.acquire(permits=permits), lambda: semaphore.release(permits)
    side = getattr(client.rwlock("fair"), role)
    return side.acquire, side.release


def worker(url, role, seconds):
    """Take turns for so long, from the moment that stdin says so; print what came of it."""
    with fencelock.Client(url) as client:
        acquire, release = handle(client, role)
        with client.lock(f"warm {id(client)}"):
            print("ready", flush=True)
        sys.stdin.readline()
        pause = threading.Event()
        turns, longest, end = 0, 0.0, time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            acquire()
            longest = max(longest, time.monotonic() - began)
            pause.wait(WORK_SECONDS)
            release()
            turns += 1
        print(json.dumps([turns, longest]), flush=True)


def measure(roles, seconds):
    """Return each role's turns and longest waits, and the commands of all."""
    with Server() as server:
        words = [sys.executable, "-m", "tests.scale.fairness", "worker", server.tcp_url]
        pipe = subprocess.PIPE
        started = [
            (
                role,
                subprocess.Popen([*words, role, str(seconds)], cwd=ROOT, stdin=pipe, stdout=pipe),
            )
            for role, count in roles.items()
            for _ in range(count)
        ]
        for _, process in started:
            process.stdout.readline()
        server.command("CONFIG", "RESETSTAT")
        for _, process in started:
            process.stdin.write(b"go\n")
            process.stdin.flush()
        told = [(role, json.loads(process.stdout.readline())) for role, process in started]
        for _, process in started:
            process.communicate()
        sent = server.commandstats()
    calls = sent.get("evalsha", 0) + sent.get("eval", 0)
    found = {role: [each for name, each in told if name == role] for role in roles}
    return found, calls


def main():
    if sys.argv[1:2] == ["worker"]:
        url, role, seconds = sys.argv[2:]
        worker(url, role, float(seconds))
        return
    seconds = float(sys.argv[1]) if sys.argv[1:] else SECONDS
    for title, roles in WORLDS.items():
        found, calls = measure(roles, seconds)
        turns = sum(each[0] for role in found.values() for each in role)
        print(f"{title}: {turns / seconds:.0f} turns/s, {calls / turns:.2f} commands a turn")
        for role, each in found.items():
            counts, longest = [one[0] for one in each], max(one[1] for one in each)
            print(f"  {role:10} {min(counts)} to {max(counts)} turns, longest wait {longest:.3f} s")


if __name__ == "__main__":
    main()
