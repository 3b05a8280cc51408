"""Failovers behind Sentinels: what holds, waits, renews and releases meanwhile goes on, or is told.

Each test is one failover of real servers, met by clients of both faces.
"""

import pytest

from tests.faults.failover import FAULTS, Busy, Trial, pushed_twice, told_after, zombies
from tests.faults.world import FACES, View, wait_until
from tests.servers import Refused
from tests.waiting import machine_seconds

pytestmark = [pytest.mark.slow, pytest.mark.sentinel]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failover_while_holding_waiting_renewing_and_releasing(fault):
    with Trial(fault) as trial:
        busy = [Busy(trial, kind) for kind in FACES]
        trial.strike()
        for each in busy:
            each.struck()
        trial.fail_over()
        for each in busy:
            each.check_short()
        for each in busy:
            each.check()


@pytest.mark.parametrize("fault", ["freeze", "cut"])
def test_an_old_master_that_comes_back_grants_nothing(fault):
    assert zombies(fault, checked=True) == (0, len(FACES))


def test_without_the_check_an_old_master_grants_twice():
    """The test before this one would see it."""
    assert zombies("freeze", checked=False) == (len(FACES), len(FACES))


@pytest.mark.parametrize("checked", [True, False])
def test_a_waiter_does_not_believe_an_old_masters_handoff(checked):
    assert (pushed_twice(checked=checked) == 0) is checked


def test_what_only_the_old_master_granted_is_told_at_the_next_renewal():
    ttl = 3.0
    assert max(told_after(ttl)) < ttl / 3 + machine_seconds() + 0.5  # and a reconnect


def test_a_demoted_master_is_left_for_its_successor():
    """READONLY is "not now" behind Sentinels, by itself: the other check is off here."""
    with Trial("order", checked=False) as trial:
        clients = [trial.client(kind) for kind in FACES]
        new = trial.fail_over()
        trial.old.command("REPLICAOF", "127.0.0.1", new.port)
        for client in clients:
            lock = client.lock(f"demoted-{client.name}")
            assert lock.acquire(timeout=5)
            View(new, lock.name).until_held_by(lock.lease)


def test_a_master_that_refuses_writes_is_left_for_its_successor():
    """Cut off from its replicas it answers NOREPLICAS: told only while it is the master."""
    args = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
    with Trial("cut", args=args) as trial:
        clients = [trial.client(kind) for kind in FACES]
        trial.strike()
        trial.fail_over()
        wait_until(lambda: _refuses(trial.old), what="a refusal")
        for client in clients:
            lock = client.lock(f"refused-{client.name}")
            assert lock.acquire(timeout=5)
            trial.view(lock.name).until_held_by(lock.lease)


def _refuses(server):
    try:
        server.command("SET", "x", "y", "PX", "1")
    except Refused as error:
        return "NOREPLICAS" in str(error)
    return False
