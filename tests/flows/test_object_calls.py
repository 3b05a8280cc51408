"""The scripts of elections, `once` and quorum nodes, call by call."""

import pytest

from fencelock import scripts
from fencelock._core.objects.election import _leader
from fencelock.scripts.constants import FENCE_ROOM
from tests.flows.calls import HOME, MINUTE, RECORD, Space, keys
from tests.flows.test_lock_calls import acquire, alive, entry, fence, options, take_away
from verification.simulator.keyspace import CommandError

LOCK, LAST, QUEUE, ALIVE, HOLDS, REVOKED = A = keys(b"a", "lock record queue alive holds revoked")
ONCE = keys(b"a", "once")
WATCHERS = keys(b"a", "watchers")


@pytest.fixture
def space():
    return Space()


# --- elections ------------------------------------------------------------------------------------


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
    space.run(scripts.RELEASE, A, b"x", HOME)
    space.run(scripts.RELEASE, A, b"z", HOME)
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


# --- once -----------------------------------------------------------------------------------------


def start(space, who, info=b'{"once":1}'):
    said = b"9000 7000 0 home " + info
    mine = b"%s %s c-%s " % (who, who, who)
    args = (who, mine, 9000, RECORD + 9000, said)
    return space.run(scripts.ONCE_START, [*A[:5], *ONCE], *args)


def finish(space, who, within=50_000, least=1000):
    args = (who, HOME, within, least, b"json", b"the value")
    return space.run(scripts.ONCE_FINISH, [*A, *ONCE], *args)


def test_a_result_is_kept_from_the_start_of_its_run_and_told_to_all_who_wait(space):
    began = int(start(space, b"x"))
    for who in (b"y", b"z"):
        start(space, who)
    acquire(space, b"plain", A)
    space.wait(2)
    assert finish(space, b"other") == [-1, b""]
    assert finish(space, b"x") == 1
    info = b'{"once":1}'
    said = b"%d x %d %d json %d %sthe value" % (began, began, space.now, len(info), info)
    assert space.command(b"GET", *ONCE) == said
    assert space.ttls(*ONCE) == [48_000]
    told = [b"granted %s 0 %d 60000" % (who, space.now) for who in (b"y", b"z")]
    assert [message for _, message in space.heard][:2] == told
    assert space.command(b"GET", LOCK) == b"plain"
    assert space.line(QUEUE) == []
    assert finish(space, b"x") == 1
    assert start(space, b"v") == b"0"


@pytest.mark.parametrize(("within", "least", "kept"), [
    (50_000, 1000, 45_000), (3000, 1000, 1000), (5500, 1000, 1000), (6500, 1000, 1500), (0, 0, 1),
])  # fmt: skip
def test_a_result_is_kept_for_a_moment_from_the_end_at_least(space, within, least, kept):
    start(space, b"x")
    space.wait(5)
    assert finish(space, b"x", within, least) == 1
    assert space.ttls(*ONCE) == [kept]


def test_a_run_that_was_forgotten_or_taken_over_keeps_no_result(space):
    start(space, b"x")
    space.wait(10)
    assert finish(space, b"x") == 1
    kept = space.command(b"GET", *ONCE)
    for wrong in (b"1", b"%d" % (fence(space, A) + 1)):
        assert space.run(scripts.ONCE_FORGET, ONCE, wrong) == 0
    assert space.command(b"GET", *ONCE) == kept
    assert space.run(scripts.ONCE_FORGET, ONCE, b"%d" % fence(space, A)) == 1
    assert space.run(scripts.ONCE_FORGET, ONCE, b"%d" % fence(space, A)) == 0
    start(space, b"y")
    assert finish(space, b"x") == [-1, b""]
    take_away(space, A)
    assert finish(space, b"y") == [-1, b"a word"]
    assert finish(space, b"z") == [-1, None]


def test_a_run_whose_record_the_server_forgot_keeps_its_result_all_the_same(space):
    start(space, b"x")
    space.command(b"DEL", LAST)
    space.wait(2)
    assert finish(space, b"x") == 1
    said = b"0 x %d %d json 2 {}the value" % (space.now, space.now)
    assert space.command(b"GET", *ONCE) == said
    assert space.ttls(*ONCE) == [50_000]


# --- nodes of a quorum ----------------------------------------------------------------------------


def vote(space, who, least, ttl=9000):
    return space.run(scripts.QUORUM_VOTE, A[:5], who, ttl, options(ttl), least)


def test_a_further_node_grants_with_the_first_node_s_fence_or_a_later_one(space):
    least = space.now + 7
    assert vote(space, b"x", least) == b"%d" % least
    assert space.ttls(*A) == [9000, RECORD + 9000] + [-2] * 4
    assert space.command(b"GET", LAST) == b"%d x %s" % (least, options())
    space.wait(4)
    assert vote(space, b"y", least + 1) == [5000]
    assert vote(space, b"x", least + 5, ttl=20_000) == b"%d" % least
    assert vote(space, b"x", least + 5, ttl=1000) == b"%d" % least
    assert space.ttls(LOCK, LAST) == [20_000, RECORD + 20_000]
    space.run(scripts.RELEASE, A, b"x", HOME)
    assert vote(space, b"y", least - 3) == b"%d" % (least + FENCE_ROOM)
    assert space.command(b"GET", LAST) == b"%d y %s" % (least + FENCE_ROOM, options())
    space.command(b"DEL", LAST)
    assert vote(space, b"y", least + 9) == b"%d" % (least + 9)
    space.command(b"SET", LAST, b"%d z " % (least + 20))
    assert vote(space, b"y", least) == b"%d" % (least + 20 + FENCE_ROOM)
    space.command(b"DEL", LOCK)
    space.command(b"SADD", LOCK, b"x")
    with pytest.raises(CommandError, match="WRONGTYPE the name holds no lock"):
        vote(space, b"y", least)


def test_a_line_at_a_further_node_stops_no_grant(space):
    acquire(space, b"h", A, ttl=1000)
    acquire(space, b"w", A)
    space.wait(2)
    assert vote(space, b"x", space.now) == b"%d" % space.now


def raised(space, who, to):
    return space.run(scripts.RAISE_FENCE, A[:2], who, to)


def test_a_fence_is_raised_for_its_holder_only_and_never_lowered(space):
    assert raised(space, b"x", 5) == 0
    first = int(acquire(space, b"x", A))
    space.wait(1)
    assert raised(space, b"y", first + 5) == 0
    assert fence(space, A) == first
    for to, expected in ((first - 5, first), (first + 5, first + 5), (first + 2, first + 5)):
        assert raised(space, b"x", to) == 1
        assert space.command(b"GET", LAST) == b"%d x %s" % (expected, options())
        assert space.ttls(LOCK, LAST) == [8000, RECORD + 8000]
    space.run(scripts.RELEASE, A, b"x", HOME)
    assert raised(space, b"x", first + 9) == 0
    space.command(b"SADD", LOCK, b"x")  # another kind of object by now
    assert raised(space, b"x", first + 9) == 0


ROSTER = [b"membership"]
DAY = 86_400_000
NO_CLAIM = (b"me", 0, 0, 0)


def meet(space, *nodes, ttl=0, claim=NO_CLAIM):
    """Return longest ttl, longest claim, how long claims last, and the nodes that were known."""
    first, second, third, *known = space.run(scripts.MEMBERSHIP, ROSTER, DAY, ttl, *claim, *nodes)
    return first, second, third, sorted(known)


def test_a_roster_remembers_each_node_for_a_day_and_the_longest_ttl(space):
    assert meet(space, b"n1", b"n2", ttl=5000) == (0, 0, 0, [])
    assert space.ttls(*ROSTER) == [DAY]
    space.wait(3600)
    assert meet(space, b"n2", b"n3", ttl=9000) == (5000, 0, 0, [b"n1", b"n2"])
    assert meet(space, ttl=3000) == (9000, 0, 0, [b"n1", b"n2", b"n3"])
    space.wait(DAY / 1000 - 3600)
    assert meet(space)[3] == [b"n1", b"n2", b"n3"]
    space.wait(1)
    assert meet(space) == (9000, 0, 0, [b"n2", b"n3"])
    assert space.ttls(*ROSTER) == [DAY]


def test_claims_of_long_leases_last_as_long_as_they_were_claimed(space):
    meet(space, claim=(b"x", 1, 50_000, 20_000))
    meet(space, claim=(b"y", 7, 40_000, 30_000))
    space.wait(1.5)
    assert meet(space) == (0, 50_000, 28_500, [])
    meet(space, claim=(b"x", 0, 90_000, 90_000))
    space.wait(18.499)
    assert meet(space)[1:3] == (50_000, 10_001)
    space.wait(0.001)
    assert meet(space)[1:3] == (40_000, 10_000)
    space.wait(10)
    assert meet(space)[1:3] == (0, 0)


def test_a_claim_that_comes_late_changes_nothing_and_one_that_is_given_up_is_gone(space):
    meet(space, claim=(b"x", 2, 50_000, 20_000))
    meet(space, claim=(b"x", 1, 90_000, 90_000))
    assert meet(space)[1:3] == (50_000, 20_000)
    meet(space, claim=(b"x", 2, 60_000, 30_000))
    assert meet(space)[1:3] == (60_000, 30_000)
    meet(space, claim=(b"x", 3, 0, 0))
    assert meet(space)[1:3] == (0, 0)
    space.wait(59.999)
    meet(space, claim=(b"x", 2, 50_000, 20_000))
    assert meet(space)[1:3] == (0, 0)


def test_a_roster_stays_as_long_as_its_longest_claim(space):
    meet(space, claim=(b"x", 1, 2 * DAY, 2 * DAY))
    assert space.ttls(*ROSTER) == [2 * DAY]
    space.wait(3600)
    meet(space)
    assert space.ttls(*ROSTER) == [2 * DAY - 3_600_000]
