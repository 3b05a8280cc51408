"""_core/lock/maintain.py: which leases a round renews when some of them get no answer."""

import asyncio
from contextlib import nullcontext

import pytest

from fencelock import ServerDenied
from fencelock._core.engine import Engine
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.maintain import LEASES_PER_CALL
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.terms import Terms
from fencelock._core.types import NoReply
from fencelock.options import LeaseOptions

NOW = 1000.0


class OneServer(Engine):
    """A port whose requests end as ``ends`` says, one after the other; then they succeed."""

    client_channel, label, mutex = b"h", "", nullcontext()

    def __init__(self, *ends):
        self.renewals, self.asked, self.ends = RenewalSchedule(), 0, list(ends)

    def now(self):
        return NOW

    def jitter(self):
        return 0.5

    async def run(self, *_):
        self.asked += 1
        if self.ends and (end := self.ends.pop(0)) is not None:
            raise end
        return []


def maintained(*ends):
    """Have a round renew so many leases that it takes three requests; return what was prolonged."""
    port, told = OneServer(*ends), LeaseOptions(ttl=30.0, renew=True)
    holds = []
    for number in range(LEASES_PER_CALL * 2 + 1):
        keys = LockKeys("p:", str(number))
        terms = Terms(keys=keys, options=told, client_channel=b"h", ttl=30.0)
        holds.append(Hold(port, Attempt(terms, b"%d" % number), 1, NOW + 20))
    port.renewals.add_all(holds, NOW)
    asyncio.run(port.maintain())
    assert port.renewals.holds == len(holds)
    assert not port.renewals.under_way
    return port.asked, sum(each.deadline > NOW + 20 for each in holds)


def test_a_round_renews_all_that_is_due():
    assert maintained() == (3, LEASES_PER_CALL * 2 + 1)


def test_a_refused_request_holds_up_no_other():
    assert maintained(ServerDenied("no right", code="NOPERM")) == (3, LEASES_PER_CALL + 1)


def test_a_silent_server_is_asked_no_more_in_this_round():
    assert maintained(None, NoReply("silent", sent=True)) == (2, LEASES_PER_CALL)


def test_a_round_that_is_cut_off_loses_no_lease():
    port = OneServer(KeyboardInterrupt())
    told = LeaseOptions(ttl=30.0, renew=True)
    terms = Terms(keys=LockKeys("p:", "a"), options=told, client_channel=b"h", ttl=30.0)
    port.renewals.young[Hold(port, Attempt(terms, b"w"), 1, NOW + 20)] = NOW
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(port.maintain())
    assert (port.renewals.holds, list(port.renewals.under_way)) == (1, [])
