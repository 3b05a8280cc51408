"""The scripts of conditions, elections, `once` and quorum nodes, call by call."""

import pytest

from fencelock import scripts
from fencelock._core.objects.election import _leader
from fencelock.scripts.constants import FENCE_ROOM
from tests.flows.calls import HOME, MINUTE, PATIENCE, RECORD, Space, keys
from tests.flows.test_lock_calls import acquire, alive, entry, fence, options, take_away
from verification.simulator.keyspace import CommandError

LOCK, LAST, QUEUE, ALIVE, HOLDS, REVOKED, CONDITION, NOTIFIED = A = keys(
    b"a", "lock record queue alive holds revoked condition notified"
)
ONCE = keys(b"a", "once")
WATCHERS = keys(b"a", "watchers")


@pytest.fixture
def space():
    return Space()


# --- conditions -----------------------------------------------------------------------------------


def wait(space, holder, name=b".n", client_channel=HOME):
    """Give the lock back and wait as '~holder'."""
    who = b"~" + holder
    said = (holder, HOME, name, entry(who, client_channel=client_channel), who)
    return space.run(scripts.CONDITION_WAIT, A, *said)


def notify(space, holder, count=1, number=b"1", name=b".n", *, timeout=0):
    return space.run(scripts.CONDITION_NOTIFY, A, holder, name, count, number, timeout)


def look(space, *waiters, name=b".n", client_channel=HOME):
    words = [word for who in waiters for word in (name, entry(who), who)]
    return space.run(scripts.CONDITION_CHECK, A, client_channel, *words)


def leave(space, holder, how, name=b".n"):
    who = b"~" + holder
    return space.run(scripts.CONDITION_LEAVE, A, holder, HOME, name, entry(who), who, how)


def all_wait(space, *who, name=b".n", client_channel=HOME):
    for each in who:
        acquire(space, each, A[:6])
        wait(space, each, name, client_channel)


def test_a_wait_gives_the_lock_back_and_keeps_its_place_for_a_minute(space):
    acquire(space, b"x", A[:6])
    acquire(space, b"next", A[:6])
    assert wait(space, b"x") == [[space.now, 1]]
    assert space.command(b"GET", LOCK) == b"next"
    assert space.score(CONDITION, b".n " + entry(b"~x")) == space.now
    assert space.ttls(CONDITION, NOTIFIED) == [MINUTE, -2]
    assert wait(space, b"x") == [[space.now, 1]]
    assert wait(space, b"other") == [[space.now, 0, b""]]
    space.run(scripts.RELEASE, A[:6], b"next", HOME)
    assert wait(space, b"other") == [[space.now, 0, None]]
    acquire(space, b"y", A[:6])
    take_away(space, A[:6])
    assert wait(space, b"y") == [[space.now, 0, b"a word"]]
    assert wait(space, b"other") == [[space.now, 0, None]]


def test_those_who_wait_are_notified_in_order_and_only_by_the_holder(space):
    all_wait(space, b"c", b"b", b"a", b"d")
    assert notify(space, b"h") == -2
    acquire(space, b"h", A[:6])
    assert notify(space, b"x") == -1
    assert notify(space, b"h", 2) == 2
    assert notify(space, b"h", 2) == 0
    assert space.line(QUEUE) == [entry(b"~c"), entry(b"~b")]
    assert space.ttls(QUEUE, NOTIFIED) == [MINUTE, MINUTE]
    space.wait(1)
    assert notify(space, b"h", -1, b"2") == 2
    assert space.line(QUEUE) == [entry(b"~" + each) for each in (b"c", b"b", b"a", b"d")]
    assert space.line(CONDITION) == []
    assert notify(space, b"h", 1, b"3") == 0


def test_a_notification_is_for_those_who_wait_on_its_condition(space):
    for number, each in enumerate((b"x", b"y", b"z", b"v")):
        all_wait(space, each, name=(b".n", b".m")[number % 2])
    acquire(space, b"h", A[:6])
    assert notify(space, b"h", -1, name=b".m") == 2
    assert space.line(QUEUE) == [entry(b"~y"), entry(b"~v")]
    assert look(space, b"~x", b"~z") == [[space.now, 1]] * 2
    assert look(space, b"~y", name=b".m") == [[space.now, 0]]


def test_more_than_a_hundred_are_notified_at_once_and_one_behind_hundreds_of_others(space):
    others = [b"o%03d" % number for number in range(150)]
    all_wait(space, *others, name=b".m")
    all_wait(space, b"x")
    acquire(space, b"h", A[:6])
    assert notify(space, b"h", 1, b"1") == 1
    assert space.line(QUEUE) == [entry(b"~x")]
    assert notify(space, b"h", -1, b"2", name=b".m") == 150
    assert space.line(QUEUE)[1:] == [entry(b"~" + each) for each in others]


def test_a_notification_goes_to_one_who_listens_and_else_to_one_who_lives(space):
    all_wait(space, b"dead", client_channel=b"gone")
    space.wait(PATIENCE + 0.01)
    all_wait(space, b"deaf", b"x")
    space.deaf = {b"c-~deaf", b"c-~dead"}
    acquire(space, b"h", A[:6])
    assert notify(space, b"h", 1, b"1") == 1
    assert space.line(QUEUE) == [entry(b"~x")]
    assert space.line(CONDITION) == [b".n " + entry(b"~deaf")]
    assert notify(space, b"h", 2, b"2") == 1
    assert space.line(QUEUE) == [entry(b"~x"), entry(b"~deaf")]
    assert notify(space, b"h", 1, b"3") == 0


def test_a_look_proves_life_and_keeps_the_lines(space):
    all_wait(space, b"x", b"y")
    acquire(space, b"h", A[:6], ttl=900_000)
    notify(space, b"h")
    for _ in range(4):
        space.wait(20)
        assert look(space, b"~x", b"~y", b"~z") == [
            [space.now, 0],
            [space.now, 1],
            [space.now, 0],
        ]
        assert space.ttls(QUEUE, ALIVE, CONDITION) == [MINUTE] * 3
        assert space.score(ALIVE, HOME) == space.now


def test_a_look_passes_on_what_a_dead_waiter_was_told_and_moves_a_free_lock(space):
    all_wait(space, b"x", client_channel=b"gone")
    all_wait(space, b"y")
    acquire(space, b"h", A[:6])
    notify(space, b"h")
    space.deaf = {b"c-~x"}
    space.run(scripts.RELEASE, A[:6], b"h", HOME)
    assert space.command(b"GET", LOCK) is None
    assert look(space, b"~y") == [[space.now, 0]]
    assert space.command(b"GET", LOCK) == b"~y"
    assert look(space, b"~y") == [[space.now, 0]]
    assert space.line(NOTIFIED)[1:] == [b"told .n ~y"]


def test_notifications_are_remembered_for_a_minute(space):
    acquire(space, b"h", A[:6], ttl=900_000)
    notify(space, b"h", number=b"1")
    space.wait(30)
    notify(space, b"h", number=b"2")
    space.wait(30)
    assert space.ttls(NOTIFIED) == [MINUTE - 30_000]
    notify(space, b"h", number=b"3")
    assert space.line(NOTIFIED) == [b"asked 2", b"asked 3"]
    assert space.ttls(NOTIFIED) == [MINUTE]


def test_a_notification_is_remembered_as_long_as_it_may_be_sent_again(space):
    all_wait(space, b"x", b"y", b"z")
    acquire(space, b"h", A[:6], ttl=900_000)
    assert notify(space, b"h", timeout=50_000) == 1
    assert space.ttls(NOTIFIED) == [100_000 + MINUTE]
    for _ in range(15):
        space.wait(10)
        look(space, b"~y", b"~z")
        assert notify(space, b"h") == 0
    assert space.ttls(NOTIFIED) == [MINUTE - 50_000]
    notify(space, b"h", 0, number=b"2")
    assert notify(space, b"h") == 0
    assert space.ttls(NOTIFIED) == [MINUTE]
    assert space.line(NOTIFIED) == [b"asked 1", b"asked 2"]
    space.wait(10.001)
    assert notify(space, b"h", 0, number=b"3") == 0
    assert space.line(NOTIFIED) == [b"asked 2", b"asked 3"]


@pytest.mark.parametrize("how", [b"back", b"quit"])
def test_who_leaves_learns_whether_it_was_notified_and_passes_it_on_when_it_quits(space, how):
    all_wait(space, b"x", b"y", b"z")
    assert leave(space, b"x", how) == 0
    acquire(space, b"h", A[:6])
    notify(space, b"h")
    assert space.line(QUEUE) == [entry(b"~y")]
    assert leave(space, b"y", how) == 1
    quits = how == b"quit"
    assert space.line(QUEUE) == [entry(b"~z" if quits else b"~y")]
    assert leave(space, b"y", how) == int(not quits)
    acquire(space, b"late", A[:6])
    space.run(scripts.RELEASE, A[:6], b"h", HOME)
    who = b"z" if quits else b"y"
    assert space.command(b"GET", LOCK) == b"~" + who
    assert leave(space, who, how) == 1
    assert space.command(b"GET", LOCK) == (b"late" if quits else b"~y")


@pytest.mark.parametrize("how", [b"back", b"quit"])
def test_who_leaves_gives_back_what_its_acquire_from_before_was_granted_late(space, how):
    all_wait(space, b"x", b"y")
    acquire(space, b"h", A[:6])
    notify(space, b"h", 2)
    space.command(b"SET", LOCK, b"x")  # its acquire came once more, late
    assert leave(space, b"x", how) == 1
    assert space.command(b"GET", LOCK) == (b"~x" if how == b"back" else b"~y")
    assert space.line(QUEUE) == ([entry(b"~y")] if how == b"back" else [])


def test_a_wait_that_never_began_is_undone_by_giving_the_lock_back(space):
    for how in (b"back", b"quit"):
        acquire(space, b"x", A[:6])
        assert leave(space, b"x", how) == 0
        assert space.command(b"GET", LOCK) is None
    acquire(space, b"x", A[:6])
    acquire(space, b"y", A[:6])
    assert leave(space, b"x", b"quit") == 0
    assert space.command(b"GET", LOCK) == b"y"


GIVEN_BACK = {
    "wait": lambda space: wait(space, b"h"),
    "leave": lambda space: leave(space, b"h", b"back"),
    "finish": lambda space: finish(space, b"h"),
}


@pytest.mark.parametrize("how", GIVEN_BACK)
def test_a_lock_in_whose_line_nobody_lives_is_free_and_its_record_stays(space, how):
    acquire(space, b"h", A[:6])
    first = fence(space, A)
    acquire(space, b"w", A[:6])
    space.deaf = {b"c-w"}
    GIVEN_BACK[how](space)
    assert space.ttls(LOCK, QUEUE) == [-2, -2]
    assert fence(space, A) == first


# --- elections ------------------------------------------------------------------------------------


def watch(space, *words):
    return space.run(scripts.ELECTION_WATCH, [LOCK, LAST, *WATCHERS], *words)


def test_who_watches_learns_the_holder_and_of_each_change(space):
    assert watch(space) == [b"", -2, b""]
    assert space.ttls(*WATCHERS) == [-2]
    acquire(space, b"h", A[:6])
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
    acquire(space, b"h", A[:6])
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
    return space.run(scripts.ELECTION_HAND_OVER, A[:6], holder, HOME, to, sure, number)


def test_a_leadership_goes_to_the_candidate_that_was_named(space):
    acquire(space, b"h", A[:6])
    for who in (b"x", b"y", b"z"):
        acquire(space, who, A[:6])
    space.wait(1)
    assert hand_over(space, b"nobody") == [0, b""]
    assert hand_over(space, b"c-y", b"other") == [-1, b""]
    assert hand_over(space, b"c-y") == [1, b"y"]
    assert space.command(b"GET", LOCK) == b"y"
    assert space.ttls(LOCK) == [9000]
    assert space.line(QUEUE) == [entry(b"x"), entry(b"z")]
    assert hand_over(space, b"c-z") == [-1, b""]
    take_away(space, A[:6])
    assert hand_over(space, b"c-z", b"y") == [-1, b"a word"]
    space.run(scripts.RELEASE, A[:6], b"x", HOME)
    space.run(scripts.RELEASE, A[:6], b"z", HOME)
    assert hand_over(space, b"c-z", b"nobody") == [-1, None]


def test_a_hand_over_that_was_answered_with_no_gives_up_nothing_when_it_comes_again(space):
    acquire(space, b"h", A[:6], ttl=900_000)
    assert hand_over(space, b"c-x", number=b"1") == [0, b""]
    assert space.ttls(ALIVE) == [MINUTE]
    acquire(space, b"x", A[:6])
    assert hand_over(space, b"c-x", number=b"1") == [0, b""]
    space.wait(30)
    alive(space, (A, [entry(b"x")]))
    assert hand_over(space, b"c-x", number=b"1") == [0, b""]
    assert space.command(b"GET", LOCK) == b"h"
    assert hand_over(space, b"c-x", number=b"2") == [1, b"x"]


@pytest.mark.parametrize(("sure", "reply"), [(b"1", b""), (b"0", b"silent")])
def test_a_candidate_that_does_not_listen_is_handed_nothing(space, sure, reply):
    acquire(space, b"h", A[:6])
    acquire(space, b"x", A[:6])
    space.deaf = {b"c-x"}
    assert hand_over(space, b"c-x", sure=sure) == [0, reply]
    assert space.command(b"GET", LOCK) == b"h"
    assert space.line(QUEUE) == ([entry(b"x")] if reply else [])


def test_a_candidate_that_waited_long_is_handed_the_lock_if_it_lives(space):
    acquire(space, b"h", A[:6], ttl=900_000)
    acquire(space, b"x", A[:6])
    acquire(space, b"y", A[:6], client_channel=b"gone")
    for _ in range(10):
        space.wait(5)
        alive(space, (A, [entry(b"x")]))
    assert hand_over(space, b"c-y", sure=b"0") == [0, b""]
    assert space.line(QUEUE) == [entry(b"x")]
    acquire(space, b"z", A[:6])
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
    return space.run(scripts.ONCE_FINISH, [*A[:6], *ONCE], *args)


def test_a_result_is_kept_from_the_start_of_its_run_and_told_to_all_who_wait(space):
    began = int(start(space, b"x"))
    for who in (b"y", b"z"):
        start(space, who)
    acquire(space, b"plain", A[:6])
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
    take_away(space, A[:6])
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
    assert space.ttls(*A) == [9000, RECORD + 9000] + [-2] * 6
    assert space.command(b"GET", LAST) == b"%d x %s" % (least, options())
    space.wait(4)
    assert vote(space, b"y", least + 1) == [5000]
    assert vote(space, b"x", least + 5, ttl=20_000) == b"%d" % least
    assert vote(space, b"x", least + 5, ttl=1000) == b"%d" % least
    assert space.ttls(LOCK, LAST) == [20_000, RECORD + 20_000]
    space.run(scripts.RELEASE, A[:6], b"x", HOME)
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
    acquire(space, b"h", A[:6], ttl=1000)
    acquire(space, b"w", A[:6])
    space.wait(2)
    assert vote(space, b"x", space.now) == b"%d" % space.now


def raised(space, who, to):
    return space.run(scripts.RAISE_FENCE, A[:2], who, to)


def test_a_fence_is_raised_for_its_holder_only_and_never_lowered(space):
    assert raised(space, b"x", 5) == 0
    first = int(acquire(space, b"x", A[:6]))
    space.wait(1)
    assert raised(space, b"y", first + 5) == 0
    assert fence(space, A) == first
    for to, expected in ((first - 5, first), (first + 5, first + 5), (first + 2, first + 5)):
        assert raised(space, b"x", to) == 1
        assert space.command(b"GET", LAST) == b"%d x %s" % (expected, options())
        assert space.ttls(LOCK, LAST) == [8000, RECORD + 8000]
    space.run(scripts.RELEASE, A[:6], b"x", HOME)
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
