"""Deadlocks of processes, and of a process, a thread and a task together."""

import asyncio
import subprocess
import sys
import threading

import pytest

import fencelock
from tests.threads.state import waiting
from tests.waiting import until

pytestmark = pytest.mark.slow
AFTER = 0.3
# Takes one lock, and on a word from its stdin another one.
PROGRAM = f"""
import sys
import fencelock

url, prefix, first, second = sys.argv[1:]
with fencelock.Client(url, key_prefix=prefix, deadlock_after={AFTER}) as client:
    try:
        with client.lock(first):
            print("held", flush=True)
            sys.stdin.readline()
            with client.lock(second):
                pass
    except fencelock.Deadlock as error:
        print("refused", len(error.cycle), flush=True)
    else:
        print("granted", flush=True)
"""


class Program:
    """A process that takes two locks."""

    def __init__(self, server, prefix, first, second):
        command = [sys.executable, "-c", PROGRAM, server.url, prefix, first, second]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, **pipes)
        assert self._process.stdout.readline() == "held\n"

    def end(self):
        """Let it take the second lock, and return what it said."""
        told, _ = self._process.communicate()
        return told.strip()

    def go_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()


def test_one_of_two_processes_is_refused(server, prefix):
    programs = [Program(server, prefix, *pair) for pair in ("ab", "ba")]
    for program in programs:
        program.go_on()
    assert sorted(program.end() for program in programs) == ["granted", "refused 2"]


def test_one_of_a_process_a_thread_and_a_task_is_refused(server, prefix):
    program = Program(server, prefix, "a", "b")
    told, held = [], threading.Barrier(3)
    options = {"key_prefix": prefix, "deadlock_after": AFTER}

    def thread():
        with fencelock.Client(server.url, **options) as client:
            try:
                with client.lock("b"):
                    held.wait(20)
                    with client.lock("c"):
                        told.append("granted")
            except fencelock.Deadlock as error:
                told.append(f"refused {len(error.cycle)}")

    async def task():
        async with fencelock.AsyncClient(server.url, **options) as client:
            try:
                async with client.lock("c"):
                    await asyncio.to_thread(held.wait, 20)
                    async with client.lock("a"):
                        told.append("granted")
            except fencelock.Deadlock as error:
                told.append(f"refused {len(error.cycle)}")

    threads = [threading.Thread(target=each) for each in (thread, lambda: asyncio.run(task()))]
    for each in threads:
        each.start()
    held.wait(20)
    program.go_on()
    told.append(program.end())
    for each in threads:
        each.join(20)
    assert sorted(told) == ["granted", "granted", "refused 3"]


def test_a_killed_process_is_no_part_of_a_cycle(server, prefix):
    """Whoever waits for its lock, and holds what it waited for, is granted when its lease ends."""
    program = Program(server, prefix, "a", "b")
    options = {"key_prefix": prefix, "deadlock_after": AFTER}
    with fencelock.Client(server.url, **options) as client, client.lock("b"):
        program.go_on()
        until(lambda: waiting(server, prefix, "b") == 1, "it waits")
        program._process.kill()
        program._process.communicate()
        why = {"reason": "its process is gone"}
        ends = threading.Timer(3 * AFTER, client.revoke, ["a"], why)
        ends.start()
        with client.lock("a", timeout=20) as lease:
            lease.check()
        ends.join()
