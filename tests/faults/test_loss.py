"""A holder learns of a lost lease in time: before anybody else can be granted it (I8).

All instants are CLOCK_BOOTTIME, which every process of this host reads alike.
"""

import contextlib
import os
import subprocess
import sys
import threading
from subprocess import PIPE

import pytest

from fencelock import LeaseLost
from fencelock._core.deadlines import PING_SECONDS, PONG_SECONDS
from fencelock._core.look.show import Looker
from fencelock._io.threads import run_blocking
from fencelock._runtime.clock import now
from tests.faults.world import Threads, View, outcome, wait_until
from tests.waiting import machine_seconds
from verification.runs.shims import Clock, library, why_not


def callback_seconds():
    """Return by how much it may be late."""
    return 0.05 + machine_seconds()


REVOKED_SECONDS = 5.0

# Prints its wall clock; then, once it was renewed twice since the test went on, also what it has.
HOLDER = """
import sys, threading, time, fencelock
with fencelock.Client(sys.argv[1]) as client:
    with client.lock(sys.argv[2], ttl=1) as lease:
        print(time.time(), flush=True)
        sys.stdin.readline()
        ends = {lease.deadline}
        while len(ends) < 3 and not lease.lost:
            threading.Event().wait(0.01)
            ends.add(lease.deadline)
        print(time.time(), lease.lost, flush=True)
"""


class Losses:
    """What ``on_lost`` told, by lock: when, and how long after the local deadline."""

    def __init__(self):
        self.at, self.late = {}, {}

    def __call__(self, lease):
        self.at[lease.name] = now()
        self.late[lease.name] = now() - lease.deadline


@pytest.fixture
def losses():
    return Losses()


@pytest.fixture
def operator(server):
    """Revoke a lock as an operator's command does."""
    client = Threads(server.url)
    yield lambda view: run_blocking(Looker(client.port, view.keys.prefix).revoke(view.keys, "test"))
    client.close()


def until_told(losses, name, seconds=8.0):
    wait_until(lambda: name in losses.at, seconds, f"the loss of {name} is told")


@pytest.mark.parametrize("renew", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_first_look_of_a_holder_that_was_frozen(server, proxy, start, view, renew):
    """It says lost without asking anybody, and nothing is renewed any more."""
    child = start(proxy.url)
    child.lock(view.name, ttl=0.4, renew=renew)
    child.acquire(view.name)
    child.pause()
    wait_until(lambda: view.holder() is None, what="the server let it end")
    asked = proxy.seen.total()
    child.resume()
    assert child.tell("lost", view.name)["lost"] is True
    assert child.tell("check", view.name)["error"] == "LeaseLost"
    assert child.tell("renew", view.name)["error"] == "LeaseLost"
    assert proxy.seen["renew"] <= asked
    assert view.holder() is None
    assert child.tell("release", view.name)["error"] == "LeaseLost"


@pytest.mark.slow
def test_a_holder_that_was_frozen_for_less_than_its_ttl_goes_on(server, start, view):
    child = start(server.url)
    child.lock(view.name, ttl=3)
    child.acquire(view.name)
    child.pause()
    wait_until(lambda: view.remaining() < 1.5, what="renewals were missed")
    child.resume()
    wait_until(lambda: view.remaining() > 2, what="it renews again")
    assert child.tell("lost", view.name)["lost"] is False
    assert child.losses == []
    child.tell("release", view.name)
    assert view.free()


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_the_holders_wall_clock_says_nothing_of_its_lease(server, tmp_path, view, seconds):
    """Its clock is set forward, or back: it renews as before, and holds on."""
    with contextlib.closing(Clock(tmp_path)) as clock:
        shim = {"LD_PRELOAD": str(library("clock")), **clock.environment}
        command = [sys.executable, "-c", HOLDER, server.url, view.name]
        with subprocess.Popen(
            command, env=os.environ | shim, stdin=PIPE, stdout=PIPE, text=True
        ) as holder:
            try:
                started = float(holder.stdout.readline())
                clock.jump(seconds)
                said, _ = holder.communicate("\n", timeout=20)
            finally:
                holder.kill()
    shown, lost = said.split()
    assert abs(float(shown) - started - seconds) < 60, "it saw the jump"
    assert lost == "False"
    assert view.free()


@pytest.mark.parametrize("ttl", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "how",
    ["blackhole", *(pytest.param(each, marks=pytest.mark.slow) for each in ("rst", "one way"))],
)
def test_the_loss_is_told_before_the_next_can_be_granted(connect, proxy, losses, ttl, how):
    """The holder's network is gone; another client, on the server itself, waits in line.

    One way: its requests still arrive, so that a renewal it never hears of may prolong the wait.
    """
    view = View(proxy.server, "told-in-time")
    lock = connect(proxy.url).lock(view.name, ttl=ttl, on_lost=losses)
    lock.acquire()
    lease = lock.lease
    if how == "one way":
        proxy.cut(requests=False)
    else:
        proxy.new_connections = "blackhole" if how == "blackhole" else "refuse"
        proxy.drop_all(how)
    other = connect(proxy.server.url).lock(view.name, ttl=60)
    assert other.acquire(timeout=10)
    granted = now()
    assert lease.lost
    assert lease.deadline <= granted
    until_told(losses, view.name)
    assert losses.late[view.name] < callback_seconds()
    other.release()
    assert outcome(lock.release)[0].reason == "expired"


def test_losses_are_told_in_time_when_many_leases_wait_for_a_silent_server(
    connect, own_server, name, losses
):
    """Renewals of some leases are under way, unanswered; others end meanwhile."""
    client = connect(own_server.url)
    for number in range(8):
        client.lock(f"{name}-long-{number}", ttl=2.0 + number / 4).acquire()
    short = [f"{name}-short-{number}" for number in range(6)]
    for number, each in enumerate(short):
        client.lock(each, ttl=0.7 + number * 0.13, on_lost=losses).acquire()
    own_server.pause()
    for each in short:
        until_told(losses, each)
    own_server.resume()
    assert max(losses.late.values()) < callback_seconds(), losses.late


@pytest.mark.slow
def test_a_refused_renewal_is_a_loss_without_an_operators_reason(
    server, proxy, connect, view, losses
):
    """As found: while the question for the reason got no answer, the lease counted as held."""
    lock = connect(proxy.url).lock(view.name, ttl=9, on_lost=losses)
    lock.acquire()
    silent = proxy.on("revoked", "drop_request", then="blackhole")
    server.command("SET", view.keys.lock.decode(), "another", "PX", 30_000)
    silent.wait()
    asked = now()
    until_told(losses, view.name)
    assert losses.at[view.name] - asked < callback_seconds() + 0.2
    with pytest.raises(LeaseLost, match="taken"):
        lock.lease.check()


@pytest.mark.parametrize("how", ["in line", "try"])
def test_a_revoked_holder_is_told_soon(connect, view, losses, operator, how):
    """Long before its next renewal, which is ten seconds away."""
    client = connect(view.server.url)
    lock = client.lock(view.name, ttl=30, on_lost=losses)
    lock.acquire(blocking=how == "in line")
    wait_until(lambda: hears(view, client), what="it listens for revocations")
    revoked = now()
    assert operator(view) is not None
    until_told(losses, view.name)
    assert losses.at[view.name] - revoked < REVOKED_SECONDS
    with pytest.raises(LeaseLost) as told:
        lock.release()
    assert (told.value.reason, told.value.detail) == ("revoked", "test")


def hears(view, client):
    """Return True if a client listens where revocations are told."""
    return client.port.client_channel.decode() in view.server.command("PUBSUB", "CHANNELS", "*")


@pytest.mark.slow
def test_a_revoked_holder_is_told_although_the_connection_that_listens_has_died(
    connect, proxy, view, losses, operator
):
    """Nothing says that it died, and a fixed lease is not renewed: a PING finds out."""
    client = connect(proxy.url)
    lock = client.lock(view.name, ttl=60, renew=False, on_lost=losses)
    lock.acquire()
    wait_until(lambda: hears(view, client), what="it listens for revocations")

    def looked():  # in threads, as it began to listen
        with client.port.mutex:
            due = client.port.renewals.next_at()
        return due and due > now() + 30 and (proxy.seen["renew"] or not isinstance(client, Threads))

    wait_until(looked)
    proxy.drop_all("blackhole")
    assert operator(view) is not None
    until_told(losses, view.name, 2 * (PING_SECONDS + PONG_SECONDS))


def test_a_holder_that_is_revoked_at_once_is_told_soon(connect, view, losses, operator):
    """Also when it did not listen yet: that costs the time until it does."""
    lock = connect(view.server.url).lock(view.name, ttl=30, on_lost=losses)
    lock.acquire()
    revoked = now()
    operator(view)
    until_told(losses, view.name)
    assert losses.at[view.name] - revoked < REVOKED_SECONDS


@pytest.mark.slow
def test_a_revoked_holder_is_told_after_an_outage(connect, proxy, view, losses, operator):
    """Its first try to listen again fails: it is not the last."""
    client = connect(proxy.url, server_timeout=0.5)
    lock = client.lock(view.name, ttl=60, on_lost=losses)
    lock.acquire()
    wait_until(lambda: hears(view, client))
    proxy.new_connections = "refuse"
    proxy.drop_all()
    wait_until(lambda: not hears(view, client), what="it does not listen")
    threading.Event().wait(2.0)  # nothing tells when a try was given up
    proxy.new_connections = "pass"
    wait_until(lambda: hears(view, client), what="it listens again")
    revoked = now()
    operator(view)
    until_told(losses, view.name)
    assert losses.at[view.name] - revoked < REVOKED_SECONDS
