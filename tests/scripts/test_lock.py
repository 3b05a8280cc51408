"""The scripts of a lock, call by call: replies, the line, and how long each key stays."""

import pytest

from fencelock import scripts
from fencelock._core.look.show import Shown, describe
from fencelock.scripts.constants import FENCE_ROOM
from tests.scripts import shares
from tests.scripts.calls import HOME, RECORD, keys
from tests.scripts.lock import (
    acquire,
    alive,
    entry,
    fence,
    options,
    place,
    release,
    take_away,
    whose,
)
from verification.simulator.keyspace import CommandError

LOCK, LAST, QUEUE, ALIVE, HOLDS, REVOKED = A = keys(b"a")
B = keys(b"b")


@pytest.mark.parametrize("microseconds", [0, 7, 12, 99_999, 100_000, 123_456])
@pytest.mark.parametrize("owner", [None, b"me"])
def test_a_free_lock_is_granted_at_once(space, microseconds, owner):
    space.keyspace.now_us += microseconds
    assert int(acquire(space, b"h", owner=owner)) == space.now
    assert space.ttls(LOCK, LAST) == [9000, RECORD + 9000]
    said = options(owned=int(owner is not None))
    assert space.command(b"GET", LAST) == b"%d %s %s" % (space.now, owner or b"h", said)


def test_a_held_lock_that_nobody_waits_for_has_two_keys(space):
    acquire(space, b"h")
    assert space.ttls(*A) == [9000, RECORD + 9000, -2, -2, -2, -2]


def test_a_holder_of_another_program_is_told_apart(space):
    acquire(space, b"h")
    for who in (b"another", b"hh", b""):
        space.command(b"SET", LOCK, who, b"PX", 5000)
        assert acquire(space, b"x") == [space.now, 5000, 0, 1, b""]
        assert alive(space, (A, [entry(b"x")]))[1] == [who, b"", 5000, 1, [0]]


@pytest.mark.parametrize("ahead", [0, 1, 5_000_000])
def test_fences_grow_though_the_clock_does_not(space, ahead):
    space.command(b"SET", LAST, b"%d old %s" % (space.now + ahead, options()))
    first = int(acquire(space, b"x"))
    assert first == space.now + ahead + FENCE_ROOM
    for number, who in enumerate((b"y", b"z"), 1):
        acquire(space, who, owner=b"me" if number == 2 else None)
        assert space.run(scripts.RELEASE, A, b"x" if number == 1 else b"y", HOME) == 1
        assert fence(space) == first + number * FENCE_ROOM


@pytest.mark.parametrize("owner", [None, b"me"])
def test_a_short_fence_of_another_clock_counts_as_a_number(space, owner):
    space.command(b"SET", LAST, b"99 old " + options())
    assert int(acquire(space, b"x", owner=owner)) == space.now


def test_a_re_entry_prolongs_all_that_the_owner_has_and_shortens_nothing(space):
    first = acquire(space, b"x", owner=b"me")
    assert space.ttls(*A) == [9000, RECORD + 9000, -2, -2, 9000, -2]
    assert acquire(space, b"y", owner=b"me", ttl=20_000) == first
    assert space.ttls(*A) == [20_000, RECORD + 20_000, -2, -2, 20_000, -2]
    assert acquire(space, b"z", owner=b"me", ttl=1000) == first
    assert space.ttls(*A) == [20_000, RECORD + 20_000, -2, -2, 20_000, -2]
    assert sorted(space.command(b"SMEMBERS", HOLDS)) == [b"x", b"y", b"z"]
    for who, left in ((b"y", 2), (b"z", 1)):
        assert space.run(scripts.RELEASE, A, b"me", HOME, who, b"") == [0, left]
        assert space.run(scripts.RELEASE, A, b"me", HOME, who, b"") == [-2, left]
    assert space.run(scripts.RELEASE, A, b"me", HOME, b"x", first + b"0") == [-1, b""]
    assert space.run(scripts.RELEASE, A, b"me", HOME, b"x", first) == 1
    assert space.ttls(LOCK, HOLDS) == [-2, -2]


@pytest.mark.parametrize("mark", [b"", b"!", b"+"])
def test_a_grant_that_nobody_would_hear_here_is_published_on_no_kind_of_channel(space, mark):
    """Replicas and other nodes would pass it on, to a client that listens there."""
    acquire(space, b"h")
    channels = [b"c-%s%s" % (who, mark) for who in (b"x", b"y")]
    for who, channel in zip((b"x", b"y"), channels, strict=True):
        mine = b"%s %s %s " % (who, who, channel)
        space.run(scripts.ACQUIRE, A[:5], who, mine, 9000, RECORD + 9000, options())
    space.deaf = {channels[0]}
    release(space, b"h")
    assert space.command(b"GET", LOCK) == b"y"
    assert space.heard == [(channels[1], b"granted y %d %d 9000" % (fence(space), space.now))]
    assert space.unheard == []


def test_a_look_moves_a_line_whose_holder_is_gone(space):
    for name in (A, B):
        acquire(space, b"h", name, ttl=1000)
        acquire(space, b"x", name)
        acquire(space, b"y", name)
    space.wait(2)
    reply = alive(space, *((name, [entry(b"x"), entry(b"y")]) for name in (A, B)))
    assert reply == [space.now] + [[b"x", whose(space), 9000, 0, [-1, 0]]] * 2
    assert all({b"n x 2", b"n y 2"} < {*space.line(name[3])} for name in (A, B))
    assert [channel for channel, _ in space.heard] == [b"c-x", b"c-x"]


@pytest.mark.parametrize("first", [True, False])
def test_a_look_at_a_name_of_another_kind_stops_no_other(space, first):
    space.command(b"SADD", LOCK, b"x")
    acquire(space, b"h", B)
    acquire(space, b"x", B)
    names = [(A, [entry(b"v"), entry(b"w")]), (B, [entry(b"x")])]
    reply = alive(space, *(names if first else names[::-1]))
    assert (reply[1:] if first else reply[:0:-1]) == [
        [b"", b"", -1, 0, [-1, -1]],
        [b"h", whose(space, B), 9000, 0, [0]],
    ]
    assert space.ttls(QUEUE, ALIVE) == [-2, -2]


@pytest.mark.parametrize("holds", [False, True])
def test_leases_are_renewed_each_with_its_own_ttl(space, holds):
    """Five in one call: one is another's by now, one another kind of thing, and one has ended."""
    names = [keys(each) for each in (b"a", b"b", b"set", b"c", b"d")]
    for name in (names[0], names[1], names[3]):
        acquire(space, b"x", name, owner=b"me" if holds else None)
    space.command(b"SET", names[1][0], b"thief", b"PX", 3000)
    space.command(b"SADD", names[2][0], b"x")
    each, holder = (3, b"me") if holds else (2, b"x")
    ttls = (20_000, 30_000, 35_000, 40_000, 50_000)
    wanted = [name[i] for name in names for i in (0, 1, 4)[:each]]
    words = [word for ttl in ttls for word in (holder, ttl)]
    reply = space.run(scripts.RENEW, wanted, each, *words)
    assert reply == [2, b"taken", 3, b"taken", 5, b"expired"]
    left = 20_000 if holds else -2
    assert space.ttls(*names[0]) == [20_000, RECORD + 20_000, -2, -2, left, -2]
    assert space.ttls(*names[1][:2]) == [3000, RECORD + 9000]
    left = 40_000 if holds else -2
    assert space.ttls(*names[3]) == [40_000, RECORD + 40_000, -2, -2, left, -2]
    assert space.ttls(*names[4]) == [-2] * 6


@pytest.mark.parametrize("holds", [0, 1])
def test_a_renewal_shortens_no_lease(space, holds):
    acquire(space, b"x", owner=b"me" if holds else None)
    wanted = [A[i] for i in (0, 1, 4)[: 2 + holds]]
    args = (2 + holds, b"me" if holds else b"x", 4000)
    assert space.run(scripts.RENEW, wanted, *args) == []
    assert space.ttls(LOCK, LAST) == [9000, RECORD + 9000]


def test_a_record_that_was_lost_is_written_anew_for_its_holder(space):
    acquire(space, b"h")
    space.command(b"DEL", LAST)
    assert int(acquire(space, b"h")) == space.now
    assert space.ttls(*A) == [9000, RECORD + 9000, -2, -2, -2, -2]
    assert space.command(b"GET", LAST) == b"%d h %s" % (space.now, options())


@pytest.mark.parametrize("left", [4000, 20_000])
def test_a_lock_that_is_released_later_ends_then_whatever_renews_it(space, left):
    """A renewal under way finds another id there, and people the client that held."""
    first = int(acquire(space, b"h"))
    assert acquire(space, b"z")[2:] == [0, 0, whose(space)]
    for _ in range(2):
        assert space.run(scripts.LEAVE, A, b"h", left) == 1
    assert space.run(scripts.RENEW, A[:2], 2, b"h", 60_000) == [1, b"taken"]
    assert release(space, b"h") == [-1, b""]
    assert space.ttls(LOCK, LAST) == [left, RECORD + left]
    assert acquire(space, b"z") == [space.now, left, 0, 0, b"%d {}" % first]
    space.wait(left / 1000 + 0.001)
    assert int(acquire(space, b"z")) > first
    assert space.run(scripts.LEAVE, A, b"h", left) == [-1, b""]


def test_the_plain_form_touches_its_key_only_while_it_is_its_own(space):
    space.command(b"SET", LOCK, b"h", b"PX", 1000)
    assert space.run(scripts.POLL_RENEW, [LOCK], b"another", 5000) == 0
    assert space.ttls(LOCK) == [1000]
    assert space.run(scripts.POLL_RENEW, [LOCK], b"h", 5000) == 1
    assert space.ttls(LOCK) == [5000]
    assert space.run(scripts.POLL_RENEW, [LOCK], b"h", 4000) == 1
    assert space.ttls(LOCK) == [5000]
    assert space.run(scripts.POLL_RELEASE, [LOCK], b"another") == 0
    assert space.run(scripts.POLL_RELEASE, [LOCK], b"h") == 1
    for reply in (-1, 0):  # it is free, it is no lock
        for script in (scripts.POLL_RENEW, scripts.POLL_RELEASE):
            assert space.run(script, [LOCK], b"h", 5000) == reply
        space.command(b"SADD", LOCK, b"x")


def shown(space):
    """Return the status of a lock."""
    return describe("a", Shown(*space.run(scripts.SHOW, A[:5], 9)))


def test_what_is_shown_of_a_lock_is_in_seconds_and_of_no_permits(space):
    free = shown(space)
    assert (free.held, free.fence, free.remaining, free.holder) == (False, 0, None, None)
    first = int(acquire(space, b"h"))
    acquire(space, b"x")
    space.wait(2)
    held = shown(space)
    assert (held.held, held.fence, held.remaining, held.holder.held_for) == (True, first, 7.0, 2.0)
    assert (held.waiting, len(held.waiters)) == (1, 1)
    for info in (free, held):
        assert (info.kind, info.limit, info.taken, info.holding) == ("lock", 0, 0, int(info.held))


def test_what_is_no_lock_is_shown_as_what_it_is(space):
    nothing = [b"none", b"", -2, b"", 0, [], 0, 0, [], []]
    assert space.run(scripts.SHOW, A[:5], 2) == [space.now, nothing]
    space.command(b"HSET", LOCK, b"kind", b"event")
    assert space.run(scripts.SHOW, A[:5], 2)[1][:3] == [b"hash", b"", -1]


@pytest.mark.parametrize("owner", [None, b"me"])
def test_an_acquire_that_is_given_up_leaves_the_line_or_gives_back(space, owner):
    owned = b"1" if owner else b"0"
    acquire(space, b"h")
    acquire(space, b"x", owner=owner)
    acquire(space, b"y")

    def abandon(who, holder, line=b""):
        left, released, now, by = space.run(scripts.ABANDON, A[:5], who, holder, owned, line, HOME)
        held = space.command(b"GET", LOCK)
        assert (now, by) == (
            space.now,
            whose(space) if held not in {None, holder} and not released else b"",
        )
        return [left, released]

    assert abandon(b"x", owner or b"x") == [0, 0]
    assert abandon(b"x", owner or b"x", entry(b"x", owner)) == [1, 0]
    assert abandon(b"x", owner or b"x", entry(b"x", owner)) == [0, 0]
    assert space.line(QUEUE) == [entry(b"y")]
    acquire(space, b"x", owner=owner)
    release(space, b"h")
    release(space, b"y")
    if owner:
        acquire(space, b"z", owner=owner)
        assert abandon(b"never", owner) == [0, 0]
        assert abandon(b"z", owner) == [0, 1]
        assert space.command(b"GET", LOCK) == owner
    acquire(space, b"v")
    assert abandon(b"x", owner or b"x") == [0, 1]
    assert space.command(b"GET", LOCK) == b"v"
    assert space.run(scripts.ABANDON, A[:5], b"v", b"v", b"0", b"", HOME)[:2] == [0, 1]
    assert space.ttls(LOCK) == [-2]


def test_a_holder_of_another_program_has_no_record_and_no_client(space):
    acquire(space, b"h")
    acquire(space, b"x")
    space.command(b"SET", LOCK, b"theirs", b"PX", 5000)
    assert take_away(space, A) == [1, b"theirs", b""]
    assert [channel for channel, _ in space.heard] == [b"c-x"]
    assert space.command(b"GET", LOCK) == b"x"
    assert space.ttls(LOCK) == [7000]


GIVEN_BACK = {
    "release": lambda space: release(space, b"h"),
    "abandon": lambda space: space.run(scripts.ABANDON, A[:5], b"h", b"h", b"0", b"", HOME),
    "break": lambda space: take_away(space, A),
    "multi": lambda space: space.run(scripts.MULTI_RELEASE, A, HOME, b"h"),
}


@pytest.mark.parametrize("how", GIVEN_BACK)
@pytest.mark.parametrize("waiting", [0, 1, 3])
def test_a_lock_in_whose_line_nobody_lives_is_free_and_its_record_stays(space, how, waiting):
    acquire(space, b"h")
    first = fence(space)
    waiters = [b"w%d" % number for number in range(waiting)]
    for who in waiters:
        acquire(space, who)
    space.deaf = {b"c-" + who for who in waiters}
    GIVEN_BACK[how](space)
    assert space.ttls(LOCK, QUEUE) == [-2, -2]
    assert fence(space) == first
    assert int(acquire(space, b"next")) > first


def take(space, *names):
    """Take several locks; each name is (keys, holder, ttl)."""
    words = [word for _, holder, ttl in names for word in (holder, ttl, options(ttl))]
    return space.run(
        scripts.MULTI_ACQUIRE, [key for name, _, _ in names for key in name[:5]], *words
    )


@pytest.mark.parametrize(("back", "position"), [(0, 0), (10, 1)])
def test_who_waited_inside_its_client_comes_by_its_arrival_unless_the_clock_was_set_back(
    space, back, position
):
    acquire(space, b"h", ttl=900_000)
    acquire(space, b"x")
    space.wait(1)
    space.keyspace.now_us -= back * 1_000_000
    asks = (b"y", place(b"y"), 9000, RECORD + 9000, options(), b"", b"", b"", 5_000_000)
    verdict, answer = space.run(scripts.ACQUIRE_NEXT, A, *asks)
    assert (verdict, answer[2]) == (0, position)


def test_several_locks_are_taken_each_by_its_own_arguments(space):
    wanted = ((A, b"x", 5000), (B, b"y", 8000))
    space.command(b"SET", B[1], b"%d old" % (space.now + 5))
    fences = take(space, *wanted)
    assert fences == [b"%d" % space.now, b"%d" % (space.now + 5 + FENCE_ROOM)]
    for (name, holder, ttl), got in zip(wanted, fences, strict=True):
        assert space.ttls(*name) == [ttl, RECORD + ttl, -2, -2, -2, -2]
        assert space.command(b"GET", name[0]) == holder
        assert space.command(b"GET", name[1]) == b"%s %s %s" % (got, holder, options(ttl))
    space.wait(3)
    assert take(space, *wanted) == fences
    assert space.ttls(A[0], A[1], B[0], B[1]) == [5000, RECORD + 5000, 8000, RECORD + 8000]
    reply = space.run(scripts.MULTI_RELEASE, [*A, *B], HOME, b"x", b"z")
    assert reply == [1, b""]
    assert space.ttls(A[0], B[0]) == [-2, 8000]
    assert space.run(scripts.MULTI_RELEASE, [*A, *B], HOME, b"x", b"y") == [None, 1]
    assert space.ttls(A[0], B[0]) == [-2, -2]


def test_several_locks_go_each_to_its_own_next_waiter(space):
    take(space, (A, b"x", 5000), (B, b"y", 8000))
    acquire(space, b"v", A, ttl=3000)
    acquire(space, b"w", B, ttl=4000)
    take_away(space, B)
    assert space.run(scripts.MULTI_RELEASE, [*A, *B], HOME, b"x", b"y") == [1, b"a word"]
    assert [space.command(b"GET", name[0]) for name in (A, B)] == [b"v", b"w"]
    assert space.ttls(A[0]) == [3000]


@pytest.mark.parametrize("owner", [None, b"me"])
def test_a_name_whose_leases_have_ended_is_a_semaphore_as_long_as_somebody_waits(space, owner):
    for who in (b"h", b"x"):
        shares.acquire(space, who, limit=1)
    for seconds in (0, 10):
        space.wait(seconds)
        with pytest.raises(CommandError, match="WRONGTYPE the name holds a semaphore"):
            acquire(space, b"y")
        with pytest.raises(CommandError, match="WRONGTYPE the name holds a semaphore"):
            space.run(scripts.QUORUM_VOTE, A[:5], b"y", 9000, options(), b"1")
    space.command(b"DEL", QUEUE)
    acquire(space, b"y", owner=owner)
    assert space.command(b"GET", LOCK) == (owner or b"y")


@pytest.mark.parametrize(
    ("kind", "said"), [(b"event", "an event"), (b"latch", "a latch"), (b"barrier", "a barrier")]
)
def test_a_name_that_holds_another_thing_is_refused_by_what_it_is(space, kind, said):
    space.command(b"HSET", LOCK, b"kind", kind)
    with pytest.raises(CommandError, match=f"WRONGTYPE the name holds {said}"):
        acquire(space, b"x")
    space.command(b"DEL", LOCK)
    space.command(b"SADD", LOCK, b"x")
    with pytest.raises(CommandError, match="WRONGTYPE the name holds no lock"):
        acquire(space, b"x")
