"""What locks and semaphores promise alike, call by call: each test is played by both families.

A semaphore that one holder has whole is a lock to those who wait for it.
"""

from functools import partial
from types import SimpleNamespace

import pytest

from tests.scripts import lock, shares
from tests.scripts.calls import HOME, MINUTE, PATIENCE, RECORD, keys

LOCK, LAST, QUEUE, ALIVE, HOLDS, _ = A = keys(b"a")
WHOLE = {"permits": shares.LIMIT}
KINDS = {
    "lock": lock,
    "semaphore": SimpleNamespace(
        **{
            **vars(shares),
            "acquire": partial(shares.acquire, **WHOLE),
            "entry": partial(shares.entry, **WHOLE),
        }
    ),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.mark.parametrize("back", [1, 10, 100])
@pytest.mark.parametrize("proof", [False, True])
def test_who_comes_last_is_last_though_the_clock_was_set_back(space, kind, back, proof):
    kind.acquire(space, b"h", ttl=900_000)
    kind.acquire(space, b"x")
    if proof:
        kind.alive(space, (A, [kind.entry(b"x")]))
    space.keyspace.now_us -= back * 1_000_000
    later = (b"y", b"a")
    assert [kind.acquire(space, who)[2] for who in later] == [1, 2]
    assert [kind.acquire(space, who)[2] for who in (b"x", *later)] == [0, 1, 2]


def test_a_holder_that_asks_again_has_a_full_lease_and_never_a_shorter_one(space, kind):
    first = kind.acquire(space, b"x")
    space.wait(4)
    for ttl in (9000, 2000):
        assert kind.acquire(space, b"x", ttl=ttl) == first
        assert space.ttls(*A) == [9000, RECORD + 9000, -2, -2, kind.APART, -2]
        assert kind.leases(space) == {b"x": 9000}
    assert kind.fence(space) == int(first)


@pytest.mark.parametrize(("silent", "granted"), [(PATIENCE, b"x"), (PATIENCE + 0.01, b"y")])
@pytest.mark.parametrize("proof", [False, True])
def test_who_has_proved_no_life_for_longer_than_patience_is_skipped(
    space, kind, silent, granted, proof
):
    kind.acquire(space, b"h", ttl=900_000)
    kind.acquire(space, b"x", client_channel=b"frozen")
    if proof:
        space.wait(20)
        kind.alive(space, (A, []), client_channel=b"frozen")
    space.wait(silent)
    kind.acquire(space, b"y")
    kind.release(space, b"h")
    assert list(kind.leases(space)) == [granted]


def test_who_does_not_listen_when_its_turn_comes_is_skipped(space, kind):
    kind.acquire(space, b"h")
    for who in (b"x", b"y", b"z"):
        kind.acquire(space, who)
    space.deaf = {b"c-x", b"c-y"}
    kind.release(space, b"h")
    assert list(kind.leases(space)) == [b"z"]
    assert space.line(QUEUE) == space.unheard == []


def test_a_proof_of_life_keeps_line_and_proofs_and_forgets_old_ones(space, kind):
    kind.acquire(space, b"h", ttl=900_000)
    kind.acquire(space, b"x")
    for client_channel, seconds in ((b"old", 30), (HOME, 30), (HOME, 0)):
        kind.alive(space, (A, [kind.entry(b"x")]), client_channel=client_channel)
        assert space.ttls(QUEUE, ALIVE) == [MINUTE, MINUTE]
        space.wait(seconds)
    assert [each for each in space.line(ALIVE) if b" " not in each] == [HOME]
