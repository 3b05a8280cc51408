"""Several locks, hand-overs and runs on a server that is frozen: each ends in time."""

import pytest

from fencelock import OutcomeUnknown, ServerUnreachable
from tests.faults.world import View, outcome, spawn, wait_until
from tests.waiting import machine_seconds

pytestmark = pytest.mark.either_face


def both_free(server, names):
    for name in names:
        View(server, name).until_free()


def test_a_multi_on_a_frozen_server_ends_in_time_and_leaves_nothing(own_server, connect, name):
    names = [f"{name}-{each}" for each in "ba"]
    face = connect(own_server.url)
    multi = face.multi(names, ttl=60)
    assert multi.acquire(timeout=10)
    multi.release()
    own_server.pause()
    told, took = outcome(multi.acquire, timeout=0.3)
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    assert took < 0.4 + machine_seconds()
    own_server.resume()
    both_free(own_server, names)


def test_a_release_of_a_multi_that_nobody_answered_is_repeated(own_server, connect, name):
    names = [f"{name}-{each}" for each in "ba"]
    multi = connect(own_server.url, server_timeout=1.5).multi(names, ttl=60)
    assert multi.acquire(timeout=10)
    own_server.pause()
    told, _ = outcome(multi.release)
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    own_server.resume()
    both_free(own_server, names)


def test_a_hand_over_that_nobody_answered_ends_the_leadership(own_server, connect, name):
    ann = connect(own_server.url, server_timeout=1.5).election(name, candidate="ann", ttl=60)
    bob = connect(own_server.url).election(name, candidate="bob", ttl=60)
    assert ann.campaign(timeout=10)
    elected = spawn(bob.campaign)
    View(own_server, name).until_waiting(1)
    own_server.pause()
    told, _ = outcome(ann.hand_over, "bob")
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    assert not ann.is_leader
    own_server.resume()
    assert elected.result(20)
    wait_until(lambda: bob.is_leader)
    bob.resign()


def test_a_wait_for_a_result_ends_in_time_on_a_frozen_server(own_server, connect, name):
    face = connect(own_server.url)
    assert face.once(name, within=60).run(face.body(lambda: 1)).ran
    own_server.pause()
    waits = face.once(name, within=60, wait=True, timeout=0.3)
    told, took = outcome(waits.run, face.body(lambda: 2))
    assert isinstance(told, (OutcomeUnknown, ServerUnreachable))
    assert took < 0.4 + machine_seconds()
    own_server.resume()
