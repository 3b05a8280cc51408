"""What is said of dropped handles, of processes that end, and of calls in a wrong place."""

import asyncio
import sys
from types import ModuleType

import pytest

import fencelock
from tests.threads.state import program

HOLDING = {
    "lock": lambda client: client.lock("left"),
    "semaphore": lambda client: client.semaphore("left", 1),
    "multi": lambda client: client.multi(["left"]),
    "write": lambda client: client.rwlock("left").write,
}


@pytest.mark.parametrize("kind", HOLDING)
@pytest.mark.refcounts
def test_a_handle_that_is_dropped_while_it_holds_is_logged(client, caplog, kind):
    """Its ResourceWarning is hidden by default."""
    handle = HOLDING[kind](client)
    handle.acquire()
    with pytest.warns(ResourceWarning, match="'left' was dropped while it held"):
        del handle
    assert "a handle of 'left' was dropped while it held the lock" in caplog.text


def test_a_client_that_is_closed_names_what_it_held(server, prefix, caplog):
    """The first ten, in order, and how many more there are."""
    with fencelock.Client(server.url, key_prefix=prefix) as client:
        locks = [client.lock(f"{number:02}") for number in range(12)]
        assert all(lock.acquire() for lock in locks)
    assert (
        "12 lease(s) were still held and are no longer renewed: closed ('00', '01'," in caplog.text
    )
    assert "'09' and 2 more)" in caplog.text


ENDS = {
    "tasks": """
import asyncio
client = fencelock.AsyncClient(url, key_prefix=prefix)
lock = client.lock("left", ttl=5)
asyncio.run(lock.acquire())
""",
    "released": """
client = fencelock.Client(url, key_prefix=prefix)
with client.lock("left"):
    pass
""",
    "lost": """
client = fencelock.Client(url, key_prefix=prefix)
lock = client.lock("left", ttl=0.3, renew=False)
lock.acquire()
while not lock.lease.lost:
    pass
""",
    "a child": """
import os
client = fencelock.Client(url, key_prefix=prefix)
lock = client.lock("left")
lock.acquire()
pid = os.fork()
if pid == 0:
    sys.exit()
os.waitpid(pid, 0)
lock.release()
""",
}
SAID = {"tasks": "the process ends while it holds 1 lease(s), which end by their ttl: 'left'"}


@pytest.mark.parametrize("case", ENDS)
def test_a_process_that_ends_names_what_it_holds(server, prefix, case):
    """And says nothing where it holds nothing."""
    head = "import sys, fencelock\nurl, prefix = sys.argv[1:]\n"
    with program(head + ENDS[case], server.url, prefix) as running:
        out, err = running.communicate()
    assert (running.returncode, out) == (0, ""), err
    said = [line for line in err.splitlines() if not line.startswith("lost lease of")]
    assert said == ([SAID[case]] if case in SAID else [])


def test_a_process_that_ends_sends_what_its_history_lacks(server, prefix):
    """Such as the loss that ended it."""
    text = """
import sys, fencelock
url, prefix = sys.argv[1:]
client = fencelock.Client(url, key_prefix=prefix, history=True)
with client.lock("a", ttl=0.3, renew=False) as lease:
    while not lease.lost:
        pass
    lease.check()
"""
    with program(text, server.url, prefix) as running:
        _, err = running.communicate()
    assert "LeaseLost" in err
    with fencelock.Client(server.url, key_prefix=prefix) as client:
        told = [(each.kind, each.name) for each in client.history()]
    assert ("lost", "a") in told


CALLS = {
    "lock": lambda client: client.lock("a").acquire(blocking=False),
    "with": lambda client: client.semaphore("a", 1).__enter__(),
    "multi": lambda client: client.multi(["a"]).acquire(blocking=False),
    "event": lambda client: client.event("a").wait(0),
    "latch": lambda client: client.latch("a", 1).wait(0),
    "barrier": lambda client: client.barrier("a", 1).wait(1),
    "once": lambda client: client.once("a", within=60).run(lambda: 1),
    "election": lambda client: client.election("a").campaign(blocking=False),
    "rlock": lambda client: client.rlock("a").acquire(timeout=1),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_blocking_call_in_a_running_loop_is_noticed(client, call):
    """At the line of the caller, before anything is sent."""

    async def main():
        with pytest.raises(RuntimeWarning, match=r"use fencelock\.AsyncClient"):
            CALLS[call](client)

    asyncio.run(main())
    assert client._port.pool.idle() is None  # it did not even connect


def test_the_warning_names_the_line(client):
    """So that it is shown once for each line, and can be silenced there."""

    async def main():
        lock = client.lock("a")
        with pytest.warns(RuntimeWarning, match="blocks all tasks") as caught, lock:
            pass
        assert [each.filename for each in caught] == [__file__]

    asyncio.run(main())


@pytest.mark.refcounts
def test_outside_a_loop_nothing_is_said(client):
    """In a thread that a loop gave the work to, for one."""

    async def main():
        await asyncio.to_thread(client.lock("a").acquire)

    lock = client.lock("b")
    with lock:
        pass
    with pytest.warns(ResourceWarning, match="'a' was dropped"):
        asyncio.run(main())


def test_a_lock_is_taken_while_another_thread_imports_asyncio(client, monkeypatch):
    """As found: until the import has ended the module is there, and lacks what is asked of it."""
    monkeypatch.setitem(sys.modules, "asyncio.events", ModuleType("asyncio.events"))
    with client.lock("a") as lease:
        assert not lease.lost
