"""A moment without a free descriptor ends no renewal, no notification and no clean-up (I16)."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.one_face

THREADS = """
def play(client):
    kept, lock = client.lock("kept"), client.lock("a", ttl=1.2, on_lost=told)
    kept.locked()  # it is connected
    with no_descriptors():
        lock.acquire()
        until(later(lock.lease))
        other(client.lock("b", ttl=30))
    until(later(lock.lease))
    revoke()
    until(lambda: losses)
    client.close()

def other(lock):
    lock.acquire()
    lock.release()

play(fencelock.Client(url))
"""
ASYNCIO = """
async def play():
    async with fencelock.AsyncClient(url) as client:
        lock = client.lock("a", ttl=1.2, on_lost=told)
        await client.lock("kept").locked()
        await asyncio.to_thread(until, lambda: True)  # loads what a thread needs
        with no_descriptors():
            await lock.acquire()
            await asyncio.to_thread(until, later(lock.lease))
            await other(client.lock("b", ttl=30))
        await asyncio.to_thread(until, later(lock.lease))
        await asyncio.to_thread(revoke)
        await asyncio.to_thread(until, lambda: losses)

async def other(lock):
    await lock.acquire()
    await lock.release()

asyncio.run(play())
"""
BOTH = """
import asyncio, contextlib, os, resource, sys
import fencelock
from tests.waiting import until

url, losses = sys.argv[1], []
operator = fencelock.Client(url)
with operator.lock("before"):
    pass  # from here on each client knows how to ask

def revoke():
    operator.revoke("a", reason="a test")

def told(lease):
    losses.append(lease)

def later(lease):
    before = lease.deadline
    return lambda: lease.deadline > before and not lease.lost

@contextlib.contextmanager
def no_descriptors():
    hoard = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.suppress(OSError):
        while True:
            hoard.append(os.open(os.devnull, os.O_RDONLY))
    try:
        yield
    finally:
        for each in hoard:
            os.close(each)
"""


@pytest.mark.parametrize("program", [THREADS, ASYNCIO], ids=["threads", "asyncio"])
def test_a_lease_that_begins_without_a_free_descriptor_is_renewed_and_its_loss_told(
    server, program
):
    """As found: the thread needed two for its pipe, the task one for its script."""
    words = [sys.executable, "-c", BOTH + program, server.url]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
