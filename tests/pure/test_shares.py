"""Requests for permits and sides of a reader/writer lock: what they ask for, and beside what."""

import pytest

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.keys import LockKeys
from fencelock._core.lock.request import LeaseOptions
from fencelock._core.objects.semaphore_rwlock import ShareRequest, ShareTemplate
from tests.pure.made import held

NOW, TTL = 100.0, 30.0


def template(**ends):
    return ShareTemplate(
        keys=LockKeys("p:", "a"),
        options=LeaseOptions(ttl=TTL, renew=not ends, fixed_end=bool(ends)),
        client_channel=b"h",
        ttl=TTL,
        kind=b"semaphore",
        limit=3,
        permits=1,
        **ends,
    )


def test_a_lease_lasts_its_ttl_from_the_first_instant():
    assert template().lasting(NOW) == TTL


@pytest.mark.parametrize(("left", "lasts"), [(20.0, HANDOFF_TTL_SECONDS), (1.5, 1.5)])
def test_a_lease_until_an_instant_begins_short_and_grows(left, lasts):
    assert template(ends=NOW + left).lasting(NOW) == lasts


@pytest.mark.parametrize(("over", "named"), [({}, b"w"), ({"open": False}, b"")])
def test_a_node_that_is_asked_again_is_told_of_the_other_hold_while_that_lasts(over, named):
    other = held(NOW)
    for name, value in over.items():
        setattr(other, name, value)
    request = ShareRequest(template(), b"reader", b"{}", other)
    assert request.nested_under == b"w"
    assert request.again_on(request.template).nested_under == named


def test_a_lost_hold_is_not_named_nor_is_one_that_there_never_was():
    other = held(NOW)
    other.lose("taken", NOW)
    request = ShareRequest(template(), b"reader", b"{}", other)
    assert request.again_on(request.template).nested_under == b""
    alone = ShareRequest(template(), b"reader", b"{}")
    assert alone.again_on(alone.template).nested_under == b""
