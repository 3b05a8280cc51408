"""The scripts of elections, call by call."""

import pytest

from fencelock import scripts
from fencelock._core.objects.election import _leader
from tests.scripts.calls import HOME, MINUTE, keys
from tests.scripts.lock import acquire, alive, entry, fence, release, take_away

LOCK, LAST, QUEUE, ALIVE, *_ = A = keys(b"a")
WATCHERS = keys(b"a", "watchers")


def watch(space, *words):
    return space.run(scripts.ELECTION_WATCH, [LOCK, LAST, *WATCHERS], *words)


def test_who_watches_learns_the_holder_and_of_each_change(space):
    assert watch(space) == [b"", -2, b""]
    assert space.ttls(*WATCHERS) == [-2]
    acquire(space, b"h", A)
    said = [b"h", 9000, space.command(b"GET", LAST)]
    for who in (b"w", b"v", b"u"):
        assert watch(space, who, b"c-" + who) == said
    assert watch(space) == said
    space.deaf = {b"c-v"}
    assert space.run(scripts.ELECTION_ANNOUNCE, WATCHERS) == 2
    assert space.heard == [(b"c-u", b"granted u 0 0 0"), (b"c-w", b"granted w 0 0 0")]
    assert space.line(*WATCHERS) == [b"u c-u", b"w c-w"]


@pytest.mark.parametrize("info", [b"{}", b"not JSON", b""])
def test_a_leader_that_says_nothing_of_itself_is_a_leader_all_the_same(space, info):
    acquire(space, b"h", A)
    first = fence(space, A)
    space.command(b"SET", LAST, b"%d h 9000 7000 0 home %s" % (first, info))
    leader = _leader(watch(space))
    assert (leader.fence, leader.since) == (first, first / 1e6)
    space.command(b"SET", LOCK, b"theirs")
    assert _leader(watch(space)).fence == 0
    space.command(b"DEL", LOCK)
    assert _leader(watch(space)) is None


def test_who_does_not_look_any_more_is_not_told_any_more(space):
    watch(space, b"gone", b"c")
    space.wait(9.999)
    watch(space, b"w", b"c")
    assert space.line(*WATCHERS) == [b"gone c", b"w c"]
    space.wait(0.001)
    watch(space, b"w", b"c")
    assert space.line(*WATCHERS) == [b"w c"]
    assert space.score(*WATCHERS, b"w c") == space.now
    assert space.ttls(*WATCHERS) == [MINUTE]


def hand_over(space, to, holder=b"h", sure=b"1", number=None):
    number = b"%d" % space.now if number is None else number
    space.wait(0.001)
    return space.run(scripts.ELECTION_HAND_OVER, A, holder, HOME, to, sure, number)


def test_a_leadership_goes_to_the_candidate_that_was_named(space):
    acquire(space, b"h", A)
    for who in (b"x", b"y", b"z"):
        acquire(space, who, A)
    space.wait(1)
    assert hand_over(space, b"nobody") == [0, b""]
    assert hand_over(space, b"c-y", b"other") == [-1, b""]
    assert hand_over(space, b"c-y") == [1, b"y"]
    assert space.command(b"GET", LOCK) == b"y"
    assert space.ttls(LOCK) == [9000]
    assert space.line(QUEUE) == [entry(b"x"), entry(b"z")]
    assert hand_over(space, b"c-z") == [-1, b""]
    take_away(space, A)
    assert hand_over(space, b"c-z", b"y") == [-1, b"a word"]
    release(space, b"x")
    release(space, b"z")
    assert hand_over(space, b"c-z", b"nobody") == [-1, None]


def test_a_hand_over_that_was_answered_with_no_gives_up_nothing_when_it_comes_again(space):
    acquire(space, b"h", A, ttl=900_000)
    assert hand_over(space, b"c-x", number=b"1") == [0, b""]
    assert space.ttls(ALIVE) == [MINUTE]
    acquire(space, b"x", A)
    assert hand_over(space, b"c-x", number=b"1") == [0, b""]
    space.wait(30)
    alive(space, (A, [entry(b"x")]))
    assert hand_over(space, b"c-x", number=b"1") == [0, b""]
    assert space.command(b"GET", LOCK) == b"h"
    assert hand_over(space, b"c-x", number=b"2") == [1, b"x"]


@pytest.mark.parametrize(("sure", "reply"), [(b"1", b""), (b"0", b"silent")])
def test_a_candidate_that_does_not_listen_is_handed_nothing(space, sure, reply):
    acquire(space, b"h", A)
    acquire(space, b"x", A)
    space.deaf = {b"c-x"}
    assert hand_over(space, b"c-x", sure=sure) == [0, reply]
    assert space.command(b"GET", LOCK) == b"h"
    assert space.line(QUEUE) == ([entry(b"x")] if reply else [])


def test_a_candidate_that_waited_long_is_handed_the_lock_if_it_lives(space):
    acquire(space, b"h", A, ttl=900_000)
    acquire(space, b"x", A)
    acquire(space, b"y", A, client_channel=b"gone")
    for _ in range(10):
        space.wait(5)
        alive(space, (A, [entry(b"x")]))
    assert hand_over(space, b"c-y", sure=b"0") == [0, b""]
    assert space.line(QUEUE) == [entry(b"x")]
    acquire(space, b"z", A)
    assert hand_over(space, b"c-z") == [1, b"z"]
    assert space.score(ALIVE, HOME) == space.now
    assert space.ttls(ALIVE) == [MINUTE]
