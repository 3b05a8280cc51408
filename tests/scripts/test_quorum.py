"""The scripts of a quorum's nodes, call by call."""

import pytest

from fencelock import scripts
from fencelock.scripts.constants import FENCE_ROOM
from tests.scripts.calls import RECORD, keys
from tests.scripts.lock import acquire, fence, options, release
from verification.simulator.keyspace import CommandError

LOCK, LAST, *_ = A = keys(b"a")


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
    release(space, b"x")
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
    release(space, b"x")
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


def test_a_roster_remembers_since_when_a_node_waits_for_its_vote(space):
    meet(space, b"n1", b"?n2")
    space.wait(3)
    assert meet(space, b"n1", b"?n2", b"?n3")[3] == [b"n1", b"n2 3000"]
    space.wait(2)
    assert meet(space, b"n2")[3] == [b"n1", b"n2 5000", b"n3 2000"]
    space.command(b"HSET", *ROSTER, b"~?n4", b"1 9999999999999 0")  # the clock was set back since
    assert meet(space)[3] == [b"n1", b"n2", b"n3 2000", b"n4 0"]
    space.wait(DAY / 1000 - 1)
    assert meet(space, b"n1")[3] == [b"n2", b"n4 0"]


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
    for who, days in ((b"x", 3), (b"y", 2)):
        meet(space, claim=(who, 1, days * DAY, days * DAY))
        assert space.ttls(*ROSTER) == [3 * DAY]
    space.wait(3600)
    meet(space)
    assert space.ttls(*ROSTER) == [3 * DAY - 3_600_000]
