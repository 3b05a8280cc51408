"""_core/lock/maintain.py: which leases a round renews when some of them get no answer."""

import asyncio
from contextlib import nullcontext

import pytest

from fencelock import ServerDenied
from fencelock._core.deadlines import validity
from fencelock._core.engine import Engine
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.maintain import LEASES_PER_CALL, Renewer
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.types import NoReply
from fencelock.options import LeaseOptions

NOW = 1000.0


class OneServer(Engine):
    """A port whose requests end as ``ends`` says, one after the other; then they succeed."""

    client_channel, label, mutex, lines = b"h", "", nullcontext(), Lines()

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
        holds.append(Hold(terms, b"%d" % number))
        holds[-1].start_lease(port, 1, NOW + 20)
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


class Together(OneServer):
    """A port of leases that are due at once, whose clock is set and whose requests are kept."""

    def __init__(self, count):
        super().__init__()
        self.clock, self.requests, told = NOW, [], LeaseOptions(ttl=30.0, renew=True)
        self.holds = []
        for number in range(count):
            keys = LockKeys("p:", f"lock-{number}")
            terms = Terms(keys=keys, options=told, client_channel=b"h", ttl=30.0)
            self.holds.append(Hold(terms, b"%d" % number))
            self.holds[-1].start_lease(self, 1, NOW + 20)
        self.renewals.add_all(self.holds, NOW)

    def now(self):
        return self.clock

    async def run(self, request, *_):
        self.requests.append(request)
        return []

    def next_round(self):
        """Renew what is due next, and return the requests."""
        self.clock, self.requests = self.renewals.next_at(), []
        asyncio.run(self.maintain())
        assert not self.renewals.under_way
        return self.requests


def test_leases_that_one_command_renewed_are_renewed_by_the_same_command():
    port = Together(LEASES_PER_CALL + 3)
    full, rest = port.next_round()
    for _ in range(2):
        again = port.next_round()
        assert [any(request is each for request in again) for each in (full, rest)] == [True, True]
    assert {each.renewals for each in port.holds} == {3}


@pytest.mark.parametrize("how", ["released", "dropped", "renewed", "moved", "observed"])
def test_a_command_that_is_kept_renews_no_lease_that_left_it(how):
    """Another lease of the batch is renewed as before; an observer hears of each deadline."""
    port, seen = Together(2), []
    port.next_round()
    one, other = port.holds
    if how == "released":
        one.retire(port)
    elif how == "dropped":
        one.drop()
    elif how == "renewed":
        Renewer(port).apply([one], [60.0], port.clock, {})
    elif how == "moved":
        port.renewals.move([one], NOW + 15)
    else:
        one.observe(seen.append)
    before = one.deadline
    (request,) = port.next_round()
    assert (b"lock-0" in request) is (how in {"dropped", "observed"})  # the dropped is looked at
    assert (one.deadline > before) is (how == "observed")
    assert seen == ([before, one.deadline] if how == "observed" else [])
    assert other.deadline == port.clock + validity(30.0)
