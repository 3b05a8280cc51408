"""A machine that sleeps: timers stand still, and the lease ends all the same (I8, I13).

The clock of leases goes on meanwhile. Here it jumps, and no timer of the program does.
"""

import pytest

from fencelock._core.keys import LockKeys
from tests.threads.state import program
from tests.waiting import until

HEAD = """
import sys, time
usual, slept = time.clock_gettime, 0.0
time.clock_gettime = lambda which: usual(which) + (slept if which == time.CLOCK_BOOTTIME else 0.0)
import asyncio, threading, fencelock
url, prefix = sys.argv[1:]

def suspend():  # waits for the test
    global slept
    print("ready", flush=True)
    sys.stdin.readline()
    slept += 120.0

def suspend_at_rest(port):
    usual = port.sleep
    def sleep(until):
        threading.Thread(target=suspend).start()
        port.sleep = usual
        return usual(until)
    port.sleep = sleep
"""
THREADS = {
    "holder": """
told = threading.Event()
client = fencelock.Client(url, key_prefix=prefix)
lock = client.lock("a", ttl=60, on_lost=lambda _: told.set())
lock.acquire()
first, until = lock.lease.deadline, time.monotonic() + 8
while lock.lease.deadline == first:  # revocations are heard, and it rests for long from here on
    assert time.monotonic() < until
suspend()
told.wait()
print(lock.lease.lost, flush=True)
""",
    "waiter": """
client = fencelock.Client(url, key_prefix=prefix)
threading.Thread(target=suspend).start()
print(client.lock("a").acquire(timeout=60), flush=True)
""",
    "poller": """
client = fencelock.Client(url, key_prefix=prefix)
suspend_at_rest(client._port)
print(client.lock("a", wait=fencelock.Poll(interval=30)).acquire(timeout=60), flush=True)
""",
}
TASK = """
async def main():
    async with fencelock.AsyncClient(url, key_prefix=prefix) as client:
        {body}

asyncio.run(main())
"""
TASKS = {
    "holder": """
        told = asyncio.Event()
        lock = client.lock("a", ttl=60, on_lost=lambda _: told.set())
        await lock.acquire()
        threading.Thread(target=suspend).start()
        await told.wait()
        print(lock.lease.lost, flush=True)
""",
    "cancelled holder": """
        try:
            async with client.lock("a", ttl=60, on_lost="cancel"):
                threading.Thread(target=suspend).start()
                await asyncio.Event().wait()
        except fencelock.LeaseLost:
            print("lost", flush=True)
""",
    "waiter": """
        threading.Thread(target=suspend).start()
        print(await client.lock("a").acquire(timeout=60), flush=True)
""",
    "poller": """
        suspend_at_rest(client._port())
        lock = client.lock("a", wait=fencelock.Poll(interval=30))
        print(await lock.acquire(timeout=60), flush=True)
""",
}
STORIES = {f"threads, {name}": story for name, story in THREADS.items()} | {
    f"tasks, {name}": TASK.replace("{body}", story.strip()) for name, story in TASKS.items()
}
OUTCOMES = {"holder": "True\n", "cancelled holder": "lost\n"}


@pytest.mark.parametrize("case", STORIES)
def test_what_was_due_meanwhile_is_seen_to_soon(client, server, prefix, case):
    """Within a rest, and not when a timer of the time before the sleep ends."""
    holds = case.endswith(("waiter", "poller"))
    lock = client.lock("a")
    if holds:
        lock.acquire()
    with program(HEAD + STORIES[case], server.url, prefix) as running:
        assert running.stdout.readline() == "ready\n"
        if "waiter" in case:
            until(lambda: server.command("ZCARD", LockKeys(prefix, "a").grant[2]) == 1)
        elif not holds:
            until(lambda: server.command("EXISTS", f"{prefix}a") == 1)
        # The timers of holders and pollers would end after 20 s.
        out, err = running.communicate("\n")
    assert (running.returncode, out) == (0, OUTCOMES.get(case.rpartition(", ")[2], "False\n")), err
    if holds:
        lock.release()
