"""How a quorum counts, and who may vote after a restart: decided without a server or a clock."""

from itertools import permutations
from math import inf
from types import SimpleNamespace as Made

import pytest

from fencelock import AsyncClient, Client
from fencelock._core.deadlines import validity
from fencelock._core.quorum.lease import Majority
from fencelock._core.quorum.membership import (
    CLAIMED_TTLS,
    Membership,
    decided,
    majority,
    order,
    proved_until,
)
from fencelock._io.sources import resolve
from fencelock.options import LeaseOptions
from tests import factories

URLS = ["redis://a:1/0", "redis://b:1/0", "redis://c:1/0"]
TTL = 30.0


@pytest.mark.parametrize("nodes", range(3, 10))
def test_two_majorities_have_a_node_in_common(nodes):
    """And one fewer would not."""
    assert 2 * majority(nodes) > nodes
    assert 2 * (majority(nodes) - 1) <= nodes


def test_everybody_asks_in_the_same_order():
    """However the lists are ordered; and not the same node first for every lock."""
    firsts = set()
    for key in (b"lock %d" % number for number in range(50)):
        orders = {
            tuple(labels[number] for number in order(key, labels)) for labels in permutations(URLS)
        }
        assert len(orders) == 1
        firsts.add(orders.pop()[0])
    assert firsts == set(URLS)


def test_the_lease_is_what_a_majority_proves():
    assert proved_until([5.0, 1.0, 9.0, 3.0, 7.0], 3) == 5.0
    assert proved_until([5.0, 9.0], 3) == -inf
    assert decided(3, 2, 3)
    assert decided(1, 1, 3)
    assert not decided(2, 1, 3)


def met(nodes, *, heard=None, rosters=()):
    """Return the membership of a client that met its nodes, at 100 s on its clock."""
    membership = Membership(nodes)
    for number in range(nodes):
        membership.saw(number, b"run%d" % number, 100.0)
    for number in range(nodes) if heard is None else heard:
        membership.read(number, TTL, rosters, 100.0)
    membership.longest = max(membership.longest, TTL)
    membership.judge()
    return membership


def may(membership, now=100.0):
    return [node for node in range(membership.nodes) if membership.eligible(node, now)]


def restarted(**how):
    """Return the membership of a client that saw the second of three nodes restart at 200 s."""
    membership = met(3)
    membership.saw(1, b"another", 200.0)
    for number, longest in how.pop("longest", {0: TTL, 1: TTL, 2: TTL}).items():
        membership.read(number, longest, (), 200.0)
    membership.read_claims(how.pop("claims", [(0.0, 0.0)] * 3), 200.0)
    membership.judge()
    return membership


def test_a_claim_counts_until_its_leases_can_have_ended():
    """From the restart for their longest ttl, and no longer than the claim."""
    membership = restarted(claims=[(3600.0, 100.0), (0.0, 0.0), (0.0, 0.0)])
    assert may(membership, 299.0) == [0, 2]
    assert may(membership, 303.0) == [0, 1, 2], "it ended 1 % later, by a clock that may be slow"
    membership = restarted(claims=[(90.0, 3600.0), (0.0, 0.0), (0.0, 0.0)])
    assert may(membership, 290.0) == [0, 2]
    assert may(membership, 291.1) == [0, 1, 2]


def test_a_claim_that_was_given_up_makes_no_later_one_longer():
    membership = met(3)
    for ttl, now in ((3600.0, 100.0), (90.0, 200.0)):
        number, claimed, until = membership.claim(ttl, now)
        assert (claimed, until) == (ttl, now + validity(CLAIMED_TTLS * ttl))
        assert membership.drop_claim() == number + 1


@pytest.mark.parametrize("limit", [None, 5])
def test_a_node_that_lacks_a_lease_is_asked_by_a_new_id_each_time_unless_renewals_are_counted(
    limit,
):
    options = LeaseOptions(ttl=TTL, renew=True, max_renewals=limit)
    hold = Made(holder_id=b"h", terms=Made(options=options))
    lease = Majority(Made(nodes=range(3), jitter=lambda: 0.5), hold, first=0)
    lease.plan_reacquire(100.0)
    assert (lease.reacquire_at == inf) is (limit is not None)
    assert len({lease.another_id() for _ in range(3)}) == 3


@pytest.mark.parametrize(("witnesses", "at"), [((0, 2), 155.0), ((0, 1), 231.0), ((1, 2), 231.0)])
def test_two_other_nodes_vouch_for_how_long_one_is_up(witnesses, at):
    membership = restarted()
    for node in witnesses:
        membership.read(node, TTL, [b"another 80000"], 200.0)
    assert [may(membership, at + late) for late in (-5.0, 0.0)] == [[0, 2], [0, 1, 2]]


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(
    "source", [URLS, tuple(URLS), ",".join(URLS), " ".join(URLS), ", ".join(URLS)], ids=str
)
def test_several_sources_are_a_quorum(make, source):
    assert "quorum of redis://a:1/0, redis://b:1/0, redis://c:1/0" in repr(make(source))


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_the_environment_may_name_a_quorum(make, monkeypatch):
    monkeypatch.setenv("FENCELOCK_URL", " ".join(URLS))
    assert "quorum" in repr(make())


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        (URLS[:1], ValueError, "at least 3"),
        (URLS[:2], ValueError, "at least 3"),
        ([*URLS, URLS[0]], ValueError, "different servers"),
        ([*URLS, None], TypeError, "None"),
        ([*URLS, 7], TypeError, "source must be"),
        ([*URLS, "nonsense"], ValueError, "must look like"),
    ],
    ids=str,
)
def test_what_is_no_quorum(make, source, error, says):
    with pytest.raises(error, match=says):
        make(source)


def test_nodes_whose_address_is_not_known_are_numbered_as_people_count(monkeypatch):
    """Their places in the list tell them apart in messages, and nothing else does."""
    monkeypatch.setattr(resolve, "_label", lambda _source: "a pool")
    found = resolve.quorum_source(URLS[:3], asynchronous=False)
    assert found.labels == ["a pool 1", "a pool 2", "a pool 3"]
    assert found.label == "a quorum of a pool 1, a pool 2, a pool 3"


# The error names what to use.
REFUSED = r"(\w+) does not work over a quorum: .*; use lock, .*, or \1 with one"


@pytest.mark.parametrize("face", [Client, AsyncClient])
@pytest.mark.parametrize("factory", sorted({*factories.FACTORIES} - {"lock", "rlock", "locked"}))
def test_what_a_quorum_cannot_do_is_refused_at_once(face, factory):
    with pytest.raises(ValueError, match=REFUSED):
        factories.make(face(URLS), factory)


@pytest.mark.parametrize("face", [Client, AsyncClient])
def test_an_owner_is_refused_at_once_by_a_quorum(face):
    with pytest.raises(ValueError, match=REFUSED):
        face(URLS).rlock("a", owner="me")
