"""Requests for permits and sides of a reader/writer lock: what they ask for, and beside what."""

from datetime import UTC, datetime

import pytest

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.keys import LockKeys
from fencelock._core.objects.semaphore_rwlock import ShareTerms
from fencelock.options import LeaseOptions

NOW, TTL = 100.0, 30.0


def template(**ends):
    return ShareTerms(
        keys=LockKeys("p:", "a"),
        options=LeaseOptions(
            ttl=TTL, renew=not ends, instant=datetime.max.replace(tzinfo=UTC) if ends else None
        ),
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
