"""The scripts of semaphores and reader/writer locks, call by call: replies, line, what stays."""

import pytest

from fencelock import scripts
from fencelock.scripts.constants import FENCE_ROOM, HOLDS_BYTES
from tests.scripts.calls import HOME, MINUTE, PATIENCE, RECORD, keys
from tests.scripts.shares import (
    LIMIT,
    SHORT,
    acquire,
    alive,
    entry,
    holders,
    holds_of,
    options,
    release,
    taken,
)
from verification.simulator.keyspace import CommandError

LOCK, LAST, QUEUE, _, HOLDS, REVOKED = A = keys(b"a")
B = keys(b"b")


def show(space, most, *holders, name=A):
    """Return taken permits, holders, listed, waiting, line, and 1 for each that holds.

    With less than 0 none are listed, and instead of those that wait it is 1 if one of them lives.
    """
    record, out, count, awaited, *holds = space.run(scripts.SHARES_SHOW, name[:5], *holders)
    now, shown = space.run(scripts.SHOW, name[:5], max(0, most))
    _, _, _, told, waiting, line, taken, holding, listed, _ = shown
    assert (now, told, taken, holding) == (space.now, record, out, count)
    if most < 0:
        return out, count, [], awaited, [], holds
    return out, count, listed, waiting, line, holds


def test_each_holder_has_a_lease_of_its_own_and_the_keys_stay_as_long_as_the_last(space):
    for number, (who, ttl) in enumerate(((b"x", 9000), (b"y", 20_000), (b"z", 1000))):
        fence = int(acquire(space, who, ttl=ttl))
        assert fence == space.now + number * FENCE_ROOM
        assert space.score(LOCK, who) == space.now + ttl * 1000
        assert holds_of(space)[who] == b"1 %d %s" % (fence, options(ttl=ttl))
        last = max(9000, ttl) if number < 2 else 20_000
        assert space.ttls(*A) == [last, RECORD + last, -2, -2, -2, -2]
        assert taken(space) == (fence, LIMIT, number + 1)


def test_keys_stay_as_long_as_the_longest_of_those_that_are_granted_together(space):
    for who, permits, ttl in ((b"h", LIMIT, 1000), (b"x", 1, 9000), (b"y", 1, 2000)):
        acquire(space, who, permits, ttl=ttl)
    space.wait(1.001)
    acquire(space, b"x")
    assert holders(space) == [b"y", b"x"]
    assert space.ttls(LOCK, LAST, HOLDS) == [9000, RECORD + 9000, 9000]


def test_permits_that_are_released_later_end_then_whatever_renews_them(space):
    fences = [acquire(space, who, ttl=5000) for who in (b"x", b"y")]
    acquire(space, b"z", LIMIT)
    for _ in range(2):
        assert space.run(scripts.SHARES_LEAVE, A, b"x", 7000) == 1
    assert space.run(scripts.SHARES_RENEW, [LOCK, LAST, HOLDS], 3, b"x", 60_000) == [1, b"expired"]
    assert release(space, b"x") == [-1, None]
    assert space.heard == [(b"c-z", b"again z")]
    assert taken(space)[2] == 2
    assert space.command(b"HGET", HOLDS, b"x~left") == b"1 %s %s" % (fences[0], options(ttl=5000))
    space.wait(7)
    assert acquire(space, b"z", permits=LIMIT, line=False) > fences[1]
    assert space.run(scripts.SHARES_LEAVE, A, b"x", 7000) == [-1, None]


def test_a_record_never_has_many_holds(space):
    """Else each acquire and release would read and write them all."""
    names = [b"%03d" % number for number in range(200)]
    for each in names:
        acquire(space, each, limit=1000)
        assert len(space.command(b"GET", LAST)) < HOLDS_BYTES + 200
    assert space.command(b"HLEN", HOLDS) > 150
    assert holders(space) == names
    for left in range(199, -1, -1):
        assert release(space, names[left]) == 1
        assert holders(space) == names[:left]


def test_permits_of_the_usual_case_are_counted_like_all_others(space):
    """In any order of their release, however many each has, in the record or apart."""
    has = {b"x": 1, b"y": 2, b"z": 4}
    for moved in (b"", *has):
        fences = {who: acquire(space, who, has[who], limit=7) for who in has}
        assert [*fences.values()] == sorted(set(fences.values()))
        if moved:
            assert acquire(space, moved, has[moved], limit=7) == fences[moved]
            assert release(space, moved, keep=has[moved]) == 1
        assert space.command(b"EXISTS", HOLDS) == (moved != b"")
        for left, who in ((5, b"y"), (4, b"x"), (0, b"z")):
            assert release(space, who) == 1
            assert release(space, who) == [-1, None]
            assert taken(space)[1:] == (7, left)


def test_a_free_name_keeps_the_limit_that_was_set(space):
    acquire(space, b"x")
    limited(space, 5)
    release(space, b"x")
    acquire(space, b"y")
    assert taken(space)[1:] == (5, 1)


def test_who_waits_learns_its_place_and_when_its_permits_may_be_back(space):
    first, _, _ = (acquire(space, b"h%d" % each, ttl=each * 10_000) for each in (1, 2, 3))
    space.wait(1)
    whose = b"%s {}" % first
    for place, (who, permits) in enumerate(((b"z", 2), (b"y", 1), (b"x", 3))):
        assert acquire(space, who, permits) == [space.now, 19_000, place, 0, whose]
        assert space.score(QUEUE, entry(who, permits)) == space.now + place
    assert acquire(space, b"t", line=False) == [space.now, 19_000, -1, 0, whose]
    assert space.ttls(QUEUE) == [MINUTE]
    space.wait(2)
    assert acquire(space, b"y") == [space.now, 17_000, 1, 0, whose]
    assert space.ttls(QUEUE) == [MINUTE]
    assert holders(space) == [b"h1", b"h2", b"h3"]


def test_a_dead_waiter_holds_up_no_other_where_the_user_may_not_count_subscribers(space):
    """A message finds out then."""
    acquire(space, b"h", LIMIT - 1)
    acquire(space, b"x", 2)
    acquire(space, b"y")
    space.deaf = {b"c-x"}

    def refuse(_channel):
        raise CommandError("NOPERM this user has no permissions to run the 'pubsub|numsub' command")

    space.keyspace.listeners = refuse
    alive(space, (A, [entry(b"y")]))
    assert holders(space) == [b"h", b"y"]


@pytest.mark.parametrize("mark", [b"", b"!", b"+"])
def test_each_kind_of_channel_of_a_cluster_is_heard_and_known_to_be_silent(space, mark):
    acquire(space, b"h", LIMIT)
    channels = [b"c-%s%s" % (who, mark) for who in (b"x", b"y", b"z")]
    for who, channel in zip((b"x", b"y", b"z"), channels, strict=True):
        said = (options(2 if who == b"x" else 1), b"semaphore", LIMIT, b"")
        mine = b"%s %s %s " % (who, who, channel)
        space.run(scripts.SHARES_ACQUIRE, A[:5], who, mine, *said)
    space.deaf = {channels[0]}
    release(space, b"h", keep=2)
    assert holders(space) == [b"h", b"y"]
    release(space, b"y")
    assert holders(space) == [b"h", b"z"]
    space.deaf = set()
    release(space, b"z")
    assert holders(space) == [b"h"]
    assert [channel for channel, _ in space.heard] == channels[1:]


def test_so_many_are_granted_by_one_script_that_it_holds_up_nobody_and_the_next_goes_on(space):
    crowd = [b"w%03d" % number for number in range(520)]
    acquire(space, b"h", 600, limit=600)
    for who in crowd:
        acquire(space, who, limit=600)
    release(space, b"h")
    count = len(holders(space))
    assert count < len(crowd)
    assert holders(space) == crowd[:count]
    assert space.heard[count:] == [(b"c-" + crowd[count], b"again " + crowd[count])]
    assert int(acquire(space, crowd[count], limit=600))
    assert holders(space) == crowd


def limited(space, limit, named=LIMIT, number=None):
    space.wait(0.001)
    number = b"%d" % space.now if number is None else number
    return space.run(scripts.SHARES_LIMIT, A[:5], b"semaphore", named, limit, HOME, number)


def test_a_limit_may_be_changed_while_it_is_in_use(space):
    acquire(space, b"h", 2)
    acquire(space, b"x", 2)
    assert limited(space, 4) == [4, LIMIT]
    assert holders(space) == [b"h", b"x"]
    acquire(space, b"y", 4)
    acquire(space, b"z", 2)
    assert limited(space, 2) == [4, LIMIT]
    release(space, b"h")
    release(space, b"x")
    assert holders(space) == [b"z"]
    assert (b"c-y", b"again y") in space.heard
    for limit in (2, 3, 4):
        assert acquire(space, b"t", limit=limit, line=False)[2:4] == [-1, 0]
    with pytest.raises(CommandError, match="OTHERLIMIT it has 2, not 5"):
        acquire(space, b"t", limit=5)


def test_the_first_limit_and_the_last_seven_may_be_named(space):
    acquire(space, b"h")
    for limit in range(11, 22):
        limited(space, limit)
    assert space.command(b"GET", LAST).split()[2] == b"3,14,15,16,17,18,19,20"
    for limit in (3, 14, 20, 21):
        acquire(space, b"x", limit=limit)
    for limit in (1, 11, 13):
        with pytest.raises(CommandError, match="OTHERLIMIT"):
            acquire(space, b"y", limit=limit)


def test_leases_are_renewed_each_with_its_own_ttl(space):
    """Two leases of one name, one of another, one that has ended and one of another kind."""
    c, d = keys(b"c"), keys(b"d")
    acquire(space, b"x", ttl=5000)
    acquire(space, b"y", ttl=5000)
    acquire(space, b"z", name=B, ttl=5000)
    acquire(space, b"v", name=c, ttl=1000)
    acquire(space, b"other", name=c, ttl=9000)
    space.command(b"SET", d[0], b"a lock's holder", b"PX", 9000)
    space.wait(1)
    wanted = [name[i] for name in (A, B, A, c, d) for i in (0, 1, 4)]
    renewed = ((b"x", 20_000), (b"z", 40_000), (b"y", 30_000), (b"v", 50_000), (b"w", 60_000))
    words = [word for each in renewed for word in each]
    reply = space.run(scripts.SHARES_RENEW, wanted, 3, *words)
    assert reply == [4, b"expired", 5, b"expired"]
    assert space.ttls(*A) == [30_000, RECORD + 30_000, -2, -2, -2, -2]
    assert space.ttls(*B) == [40_000, RECORD + 40_000, -2, -2, -2, -2]
    assert space.ttls(*c) == [8000, RECORD + 8000, -2, -2, -2, -2]
    assert space.ttls(*d) == [8000, -2, -2, -2, -2, -2]
    for name, who, ttl in ((A, b"x", 20_000), (A, b"y", 30_000), (B, b"z", 40_000)):
        assert space.score(name[0], who) == space.now + ttl * 1000


def test_a_renewal_shortens_no_lease(space):
    acquire(space, b"x")
    assert space.run(scripts.SHARES_RENEW, [LOCK, LAST, HOLDS], 3, b"x", 4000) == []
    assert space.score(LOCK, b"x") == space.now + 9_000_000
    assert space.ttls(LOCK, LAST, HOLDS) == [9000, RECORD + 9000, -2]


def test_a_look_treats_each_name_by_its_own_arguments(space):
    c, d = keys(b"c"), keys(b"d")
    first = b"%s {}" % acquire(space, b"h", LIMIT, ttl=5000)
    acquire(space, b"h", LIMIT, name=B, ttl=6000)
    for who in (b"w", b"x", b"y"):
        acquire(space, who)
    acquire(space, b"v", 2, name=B)
    space.command(b"SET", d[0], b"a lock's holder", b"PX", 9000)
    space.wait(1)
    reply = alive(
        space,
        (A, [entry(b"x"), entry(b"w"), entry(b"gone")]),
        (c, []),
        (d, [entry(b"x"), entry(b"y")]),
        (B, [entry(b"v", 2)]),
    )
    assert reply == [
        space.now,
        [b"", first, 4000, 0, [1, 0, -1]],
        [b"", b"", -1, 0, []],
        [b"", b"", -1, 0, [-1, -1]],
        [b"", first, 5000, 0, [0]],
    ]
    for name in (A, B):
        assert space.ttls(name[2], name[3]) == [MINUTE, MINUTE]
        assert space.score(name[3], HOME) == space.now
    assert space.ttls(*c, *d[1:]) == [-2] * 11


@pytest.mark.parametrize("client_channel", [HOME, b"other"])
def test_a_look_grants_what_ended_leases_left(space, client_channel):
    for name in (A, B):
        acquire(space, b"h", 2, name=name, ttl=1000)
        kept = acquire(space, b"k", 1, name=name)
        for who in (b"x", b"y", b"z"):
            acquire(space, who, name=name)
    space.wait(2)
    waiting = [entry(each) for each in (b"x", b"y", b"z")]
    reply = alive(space, (A, waiting), (B, waiting), client_channel=client_channel)
    assert reply == [space.now] + [[b"", b"%s {}" % kept, 7000, 0, [-1, -1, 0]]] * 2
    lease = 9000 if client_channel == HOME else SHORT
    for name in (A, B):
        assert space.score(name[0], b"x") == space.now + lease * 1000
        assert holders(space, name) == [b"k", b"x", b"y"]
        assert taken(space, name)[2] == LIMIT


def test_a_name_with_a_line_is_in_use_though_all_leases_have_ended(space):
    acquire(space, b"h", LIMIT, ttl=1000)
    acquire(space, b"x", LIMIT)
    space.wait(2)
    with pytest.raises(CommandError, match="OTHERLIMIT it has 3, not 4"):
        acquire(space, b"y", limit=4)
    with pytest.raises(CommandError, match="WRONGTYPE the name holds a semaphore"):
        acquire(space, b"y", kind=b"rwlock")
    assert acquire(space, b"y", line=False)[2:4] == [-1, 0]
    assert holders(space) == [b"x"]


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    ("words", "held"),
    [
        ((b"SET", b"h"), "a lock"),
        ((b"ZADD", 1, b"x"), "something else"),
        ((b"SADD", b"x"), "something else"),
        ((b"HSET", b"kind", b"event"), "an event"),
        ((b"HSET", b"kind", b"latch"), "a latch"),
        ((b"HSET", b"kind", b"barrier"), "a barrier"),
        ((b"HSET", b"other", b"x"), "something else"),
    ],
)
def test_a_name_that_holds_another_thing_is_refused_by_what_it_is(space, used, words, held):
    if used:
        acquire(space, b"x")
        release(space, b"x")
        if words[0] == b"ZADD":
            return  # with a record it is its own
    space.command(words[0], LOCK, *words[1:])
    before = space.keyspace.freeze()
    calls = (
        lambda: acquire(space, b"y"),
        lambda: limited(space, 4),
        lambda: space.run(scripts.SHARES_BREAK, A, b"a word", 5000, b"", b"1"),
    )
    for call in calls:
        with pytest.raises(CommandError, match=f"WRONGTYPE the name holds {held}"):
            call()
    assert release(space, b"y") == [-1, None]
    assert alive(space, (A, [entry(b"y")])) == [space.now, [b"", b"", -1, 0, [-1]]]
    assert space.run(scripts.SHARES_ABANDON, A[:5], b"y", entry(b"y"), HOME)[:2] == [0, 0]
    assert space.keyspace.freeze() == before


def test_a_name_in_another_layout_of_the_keys_is_refused_as_that(space):
    space.command(b"ZADD", LOCK, 1, b"x")
    space.command(b"SET", LAST, b"1795729593867702 =semaphore/9 some other form")
    before = space.keyspace.freeze()
    with pytest.raises(CommandError, match="OTHERLAYOUT the name holds a semaphore of layout 9"):
        acquire(space, b"y")
    assert release(space, b"x") == [-1, None]
    assert space.keyspace.freeze() == before


def test_an_operator_takes_permits_from_some_or_all(space):
    def broken(text=b"", number=None):
        space.wait(0.001)
        number = b"%d" % space.now if number is None else number
        return space.run(scripts.SHARES_BREAK, A, b"a word", 5000, text, number)

    assert broken() == [0]
    acquire(space, b"x", 1, client_channel=b"hx")
    acquire(space, b"y", 2, client_channel=b"hy")
    acquire(space, b"w", 1)
    assert broken(b"p7 ") == [0]
    assert space.ttls(REVOKED) == [-2]
    assert broken(b"p2 ") == [1]
    assert space.ttls(REVOKED) == [5000]
    assert (b"hy", b"revoked y a word") in space.heard
    assert holders(space) == [b"w", b"x"]
    assert release(space, b"y") == [-1, b"a word"]
    assert release(space, b"v") == [-1, None]
    assert broken() == [2]
    assert {(b"hx", b"revoked x a word"), (HOME, b"revoked w a word")} <= set(space.heard)
    assert holders(space) == []
    assert [release(space, who) for who in (b"x", b"w")] == [[-1, b"a word"]] * 2


def test_leases_that_have_ended_are_not_shown(space):
    assert show(space, 9, b"x") == (0, 0, [], 0, [], [0])
    acquire(space, b"x", 2, ttl=1000)
    acquire(space, b"y")
    space.wait(1)
    hold = holds_of(space)[b"y"]
    end = space.command(b"ZSCORE", LOCK, b"y")
    for most in (9, 0):  # one holder is listed in any case
        assert show(space, most, b"x", b"y") == (1, 1, [hold, end], 0, [], [0, 1])
    space.wait(9)
    assert show(space, 9, b"x", b"y") == (0, 0, [], 0, [], [0, 0])


def test_a_waiter_is_awaited_as_long_as_it_lives_and_listens(space):
    assert show(space, -1)[3] == 0
    acquire(space, b"h", LIMIT, ttl=900_000)
    assert show(space, -1)[2:5] == ([], 0, [])
    acquire(space, b"x")
    acquire(space, b"y")
    assert show(space, -1)[2:5] == ([], 1, [])
    space.run(scripts.SHARES_ABANDON, A[:5], b"y", entry(b"y"), HOME)
    assert show(space, -1)[3] == 1
    acquire(space, b"y")
    space.deaf = {b"c-x"}
    assert show(space, -1)[3] == 1
    space.deaf = {b"c-x", b"c-y"}
    assert show(space, -1)[3] == 0
    space.deaf = set()
    space.wait(PATIENCE + 0.01)
    assert show(space, -1)[3] == 0
    alive(space, (A, []))
    assert show(space, -1)[3] == 1


def probe(space, waiter, permits, holder=b""):
    return space.run(scripts.SHARES_PROBE, A[:5], holder, b"probe", permits, waiter)


def test_a_probe_counts_the_waiters_before_it_and_none_behind_it(space):
    acquire(space, b"h", 2)
    acquire(space, b"g")
    acquire(space, b"first", 1)
    acquire(space, b"w", 2)
    acquire(space, b"last", LIMIT)
    assert probe(space, b"first", 1) == 0
    assert probe(space, b"w", 2) == 1
    assert probe(space, b"last", LIMIT) == 2
    acquire(space, b"behind", 1)
    assert probe(space, b"behind", 1) == 2, "the waiter before it needs all permits"
    assert probe(space, b"gone", 1) == 0, "it is in no line"
    space.deaf = {b"c-last"}
    assert probe(space, b"behind", 1) == 1, "a dead waiter before it is passed over"
