"""``shutdown`` and ``ashutdown``: what a process holds is given back before it ends."""

import asyncio
import contextlib
import signal
import sys
import threading
from weakref import WeakValueDictionary

import pytest

import fencelock
from fencelock._io import process_ports
from fencelock._runtime.mutex import mutex
from tests.threads.state import ended, program, thread, waiting
from tests.waiting import SOON, until

HEAD = """
import asyncio, signal, sys, threading, fencelock
url, prefix = sys.argv[1:]
"""
MIXED = """
client, second = [fencelock.Client(url, key_prefix=prefix) for _ in range(2)]
locks = [client.lock("a"), second.lock("b")]
for lock in locks:
    lock.acquire()
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
aio = fencelock.AsyncClient(url, key_prefix=prefix)
lock = aio.lock("c")
asyncio.run_coroutine_threadsafe(lock.acquire(), loop).result()
"""
IN_A_LOOP = """
client = fencelock.Client(url, key_prefix=prefix)
lock = client.lock("a")
lock.acquire()

async def main():
    aio = fencelock.AsyncClient(url, key_prefix=prefix)
    locks = [aio.lock(name) for name in "bc"]
    for each in locks:
        await each.acquire()
    print(await fencelock.ashutdown())

asyncio.run(main())
"""
BY_A_SIGNAL = """
client = fencelock.Client(url, key_prefix=prefix)
locks = [client.lock(name) for name in "abc"]
for lock in locks:
    lock.acquire()
done = threading.Event()

def ends(*_):
    print(fencelock.shutdown())
    done.set()

signal.signal(signal.SIGTERM, ends)
print("ready", flush=True)
done.wait()
"""
NAMES = "abc"


@pytest.fixture(autouse=True)
def _only_ours(monkeypatch):
    """Let a test shut down its own clients, and not those of other tests in this process."""
    monkeypatch.setattr(process_ports, "_ports", WeakValueDictionary())


def free(server, prefix):
    return [server.command("GET", prefix + name) for name in NAMES] == [None] * len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [MIXED + "print(fencelock.shutdown())", IN_A_LOOP], ids=["threads", "loop"]
)
def test_all_clients_of_a_process_give_back(server, prefix, text):
    with program(HEAD + text, server.url, prefix) as running:
        out, err = running.communicate()
    assert (running.returncode, out) == (0, "True\n"), err
    assert "the process ends while it holds" not in err
    assert free(server, prefix)


@pytest.mark.slow
def test_a_signal_handler_may_call_it(server, prefix):
    with program(HEAD + BY_A_SIGNAL, server.url, prefix) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate()
    assert (running.returncode, out) == (0, "True\n"), err
    assert free(server, prefix)


def test_inside_the_mutex_it_is_put_off(client):
    """As where a signal handler interrupts fencelock itself."""
    lock = client.lock("a")
    lock.acquire()
    with mutex():
        assert fencelock.shutdown() is False
    until(lambda: lock.lease.lost and client._port.pool.closed, "it is done after the unlock")


def test_in_a_loop_it_is_refused(client):
    """Before anything is done."""
    lock = client.lock("a")
    lock.acquire()

    async def main():
        with pytest.raises(RuntimeError, match=r"await fencelock\.ashutdown"):
            fencelock.shutdown()

    asyncio.run(main())
    lock.lease.check()
    lock.release()


def test_who_waits_ends_with_an_error(server, prefix):
    client = fencelock.Client(server.url, key_prefix=prefix)
    held, errors = client.lock("a"), []
    held.acquire()

    def waits():
        try:
            client.lock("a").acquire()
        except fencelock.ClientClosed as error:
            errors.append(str(error))

    waiter = thread(waits)
    until(lambda: waiting(server, prefix))
    assert fencelock.shutdown()
    ended(waiter)
    assert "this client was closed" in errors[0]


def test_the_last_entries_of_the_history_are_sent(server, prefix):
    """Of both faces: those that would have been sent within the next second."""
    keeping = fencelock.History(threshold=0.01, length=100)

    def clients():
        for made in (fencelock.Client, fencelock.AsyncClient):
            yield made(server.url, key_prefix=prefix, history=keeping)

    blocking, aio = clients()
    lock = blocking.lock("a")
    lock.acquire()
    assert not blocking.lock("a").acquire(timeout=0.02)

    async def main():
        assert not await aio.lock("a").acquire(timeout=0.02)
        assert await fencelock.ashutdown()

    asyncio.run(main())
    with fencelock.Client(server.url, key_prefix=prefix) as reader:
        outcomes = [entry.outcome for entry in reader.history("a")]
    assert outcomes.count("timed_out") == 2


def test_a_loop_that_stands_still_does_not_hold_it_up(server, prefix):
    ready, goes_on = threading.Event(), threading.Event()

    async def main():
        async with fencelock.AsyncClient(server.url, key_prefix=prefix) as aio:
            await aio.lock("a").locked()
            ready.set()
            goes_on.wait()

    loop = thread(lambda: asyncio.run(main()))
    assert ready.wait(SOON)
    assert fencelock.shutdown(timeout=0.1) is False
    goes_on.set()
    ended(loop)


def test_a_process_without_clients_has_nothing_to_give_back():
    assert fencelock.shutdown()
    assert threading.current_thread() is threading.main_thread()


def test_it_looks_through_the_clients_while_another_thread_makes_some(server):
    """As found: RuntimeError, as a set of them had changed meanwhile."""
    makes = thread(lambda: [fencelock.Client(server.url).close() for _ in range(300)])
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        while makes.is_alive():
            process_ports.everywhere()
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.parametrize("how", ["shutdown", "ashutdown"])
@pytest.mark.parametrize("ends", ["its wait", "its lease"])
def test_a_loop_that_ends_meanwhile_gives_back_all_the_same(client, server, prefix, how, ends):
    """The shutdown ends what ``main`` waits for, so ``asyncio.run`` cancels all that is left."""
    ready, gate = threading.Event(), client.lock("a", ttl=60)
    gate.acquire()

    async def main():
        aio = fencelock.AsyncClient(server.url, key_prefix=prefix)
        lost = asyncio.Event()
        held = [aio.lock(name, ttl=60, on_lost=lambda _: lost.set()) for name in "bc"]
        for each in held:
            await each.acquire()
        waiting = asyncio.ensure_future(aio.lock("a").acquire())
        await asyncio.sleep(0)
        ready.set()
        await (waiting if ends == "its wait" else lost.wait())

    def runs():
        with contextlib.suppress(fencelock.ClientClosed):
            asyncio.run(main())

    loop = thread(runs)
    assert ready.wait(SOON)
    given = fencelock.shutdown() if how == "shutdown" else asyncio.run(fencelock.ashutdown())
    assert given in {True, False}  # a release whose answer the loop did not wait for is no yes
    loop.join(SOON)
    until(lambda: free(server, prefix), "all is given back")
