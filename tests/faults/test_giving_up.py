"""Giving up leaves nothing: no place in line, no grant, no unread answer, no renewal (I9).

The leases are an hour long and the tests seconds, so nothing disappears by expiring.
"""

import signal
import subprocess
import sys

import pytest

from fencelock import ClientClosed, FencelockError, OutcomeUnknown
from fencelock._runtime.clock import now
from tests.faults.children import ROOT
from tests.faults.world import Threads, View, outcome, spawn, wait_until

pytestmark = pytest.mark.one_face

TTL = 3600.0
# A clean-up on a connection that went silent must find another way within this.
UNDONE_SECONDS = 5.0


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
