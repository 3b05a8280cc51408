"""Giving up leaves nothing: no place in line, no grant, no unread answer, no renewal (I9).

The leases are an hour long and the tests seconds, so nothing disappears by expiring.
"""

import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys

import pytest

from fencelock import ClientClosed, FencelockError, OutcomeUnknown, ServerUnreachable
from fencelock._runtime.clock import now
from tests.faults.children import ROOT
from tests.faults.world import Tasks, Threads, View, outcome, spawn, wait_until

pytestmark = pytest.mark.one_face

TTL = 3600.0
SEED = random.SystemRandom().randrange(10**6)
CANCELLATIONS = 300
# A clean-up on a connection that went silent must find another way within this.
UNDONE_SECONDS = 5.0


@pytest.fixture
def dice(request):
    """Random numbers whose seed a failure shows."""
    request.node.add_report_section("setup", "seed", f"SEED = {SEED}")
    return random.Random(SEED)


@pytest.fixture
def tasks(proxy, request):
    """A client of the asyncio face behind the proxy, which delays if the test says so."""
    delay = request.node.callspec.params["delay"]
    proxy.on("acquire", "delay_reply", seconds=delay, times=10**6)
    proxy.on("release", "delay_request", seconds=delay, times=10**6)
    face = Tasks(proxy.url)
    yield face
    face.close()


@pytest.mark.parametrize("fellows", [0, 1, 3], ids=["free", "contended", "crowded"])
@pytest.mark.parametrize(
    "delay", [0.0, pytest.param(0.001, marks=pytest.mark.slow)], ids=["direct", "delayed"]
)
def test_cancelled_at_random_points(tasks, view, dice, fellows, delay):
    """Tasks that are cancelled while they connect, ask, wait, are granted, hold and release."""
    span = 0.0015 + 4 * delay

    async def use():
        async with tasks.client.lock(view.name, ttl=TTL):
            await asyncio.sleep(0)

    async def cancel_one():
        several = [asyncio.create_task(use()) for _ in range(fellows + 1)]
        await asyncio.wait(several, timeout=dice.random() * span)
        dice.choice(several).cancel()
        ended = await asyncio.gather(*several, return_exceptions=True)
        return sum(isinstance(result, asyncio.CancelledError) for result in ended)

    async def cancel_all():
        return [await cancel_one() for _ in range(CANCELLATIONS)]

    cancelled = sum(tasks.run(cancel_all()))
    assert cancelled > CANCELLATIONS / 10, f"only {cancelled} were cancelled in the middle"
    view.until_free(1.0)  # sooner than a claim ends by itself
    port = tasks.port
    wait_until(lambda: len(port.lines) == 0, what="nobody is in line")
    wait_until(lambda: port.renewals.holds == 0, what="nothing is held")


def test_time_runs_out_at_random_moments(start, view, dice, connect):
    """Another process takes and gives the lock; each timeout ends before, in or after a grant."""
    child, lock = start(view.server.url), connect(view.server.url).lock(view.name, ttl=TTL)
    child.lock(view.name, ttl=TTL)
    granted, span = 0, 0.01
    for _ in range(100):
        child.acquire(view.name)
        waiting = spawn(outcome, lock.acquire, timeout=dice.random() * span)
        begun = now()
        child.tell("release", view.name)
        span = min(2 * (now() - begun), 0.5)  # as this machine has it now
        result, _ = waiting.result(20)
        assert result in {True, False} or isinstance(result, ServerUnreachable | OutcomeUnknown)
        if result is True:
            granted += 1
            lock.release()
        view.until_free(1.0)
    assert granted > 0


@pytest.mark.slow
def test_signals_in_the_middle_of_anything(server, name):
    """A handler that raises 400 times: no answer is taken for another's, no lock stays held.

    But for some: an exception on the first line of ``__exit__``, or on the last of ``__enter__``,
    finds nothing in pure Python that could undo it. Then the ttl does. Seven in a thousand were
    seen, and twenty are let pass: ten would be too many in every sixth run, by chance.
    """
    names = [f"{name}-{number}" for number in range(40)]
    command = [sys.executable, "-m", "tests.faults.interrupts", server.url, "400", str(SEED)]
    with subprocess.Popen(
        [*command, *names],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        found = json.loads(child.stdout.readline())
        left = [each for each in names if not soon_free(View(server, each))]
        child.stdin.close()
    assert found["turns"] > 0
    assert found["false_grants"] == 0, found
    assert found["unread"] == 0, found
    assert len(left) <= found["interrupted"] / 50, f"{len(left)} held by nobody: {found}"


def soon_free(view):
    with contextlib.suppress(AssertionError):
        view.until_free(1.0)
    return view.free()


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_ctrl_c_while_several_threads_wait(server, connect, view, times):
    """The process ends at once, its place in line is given up, and the line goes on."""
    holding = connect(server.url).lock(view.name, ttl=TTL)
    holding.acquire()
    command = [sys.executable, "-m", "tests.faults.interrupted", server.url, view.name]
    for _ in range(times):
        program = [*command, str(3 if times == 1 else 0)]
        with subprocess.Popen(
            program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            view.until_waiting(4 if times == 1 else 1, 20)
            child.send_signal(signal.SIGINT)
            told, _ = child.communicate(timeout=20)
            assert told == "interrupted\n"
        if times > 1:
            view.until_waiting(0, 3)
    holding.release()
    view.until_free(1.5)  # sooner than a claim ends by itself


def test_ctrl_c_while_the_grant_is_on_its_way(server, proxy, view):
    """The server has granted, the answer is delayed, the process ends: nobody holds the lock."""
    command = [sys.executable, "-m", "tests.faults.interrupted", proxy.url, view.name, "0"]
    fault = proxy.on("acquire", "delay_reply")
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        wait_until(view.holder, 20, what="granted")
        fault.wait()
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=30)[0] == "interrupted\n"
    fault.release()
    view.until_free()


def test_close_while_others_wait(connect, view, face):
    """Who waits is told; no ghost stays in line; and the line goes on."""
    holding = connect(view.server.url).lock(view.name, ttl=TTL)
    holding.acquire()
    client = connect(view.server.url)
    waiting = [spawn(outcome, client.lock(view.name, ttl=TTL).acquire) for _ in range(3)]
    view.until_waiting(3)
    closing = client.close if face is Threads else lambda: client.run(client.client.aclose())
    spawn(closing).result(20)
    for each in waiting:
        result, _ = each.result(20)
        assert isinstance(result, ClientClosed)
    view.until_waiting(0, 3)
    assert view.holder() == holding.lease.holder
    holding.release()
    assert view.free()


def test_close_while_another_connects(connect, proxy, name, face):
    """It ends with an error of ours, not as if somebody had cancelled it."""
    client = connect(proxy.url)
    proxy.new_connections = "blackhole"
    waiting = spawn(outcome, client.lock(name).acquire, timeout=0.5)
    wait_until(proxy.links)
    closing = client.close if face is Threads else lambda: client.run(client.client.aclose())
    spawn(closing).result(20)
    assert isinstance(waiting.result(20)[0], FencelockError)


@pytest.mark.slow
def test_one_silent_connection_does_not_hold_up_other_clean_ups(proxy, view, name, request):
    """Two give up, one behind a connection that says nothing any more: both leave nothing."""
    client = Threads(proxy.url, server_timeout=0.5)
    request.addfinalizer(client.close)
    proxy.on("acquire", "drop_reply", then="blackhole")
    first = outcome(client.lock(name, ttl=TTL).acquire, timeout=0.2)[0]
    assert isinstance(first, OutcomeUnknown)
    second = View(view.server, f"{name}-second")
    fault = proxy.on("acquire", "drop_reply", then="rst")
    waiting = spawn(outcome, client.lock(second.name, ttl=TTL).acquire, timeout=0.3)
    fault.wait()
    proxy.new_connections = "refuse"
    waiting.result(20)
    proxy.new_connections = "pass"
    begun = now()
    second.until_free(UNDONE_SECONDS)
    view.until_free(UNDONE_SECONDS - (now() - begun))
