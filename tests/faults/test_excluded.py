"""What no lock on one server can promise, shown: two holders at once, or a holder that was paused.

Each test is a schedule of docs/explanation/guarantees.md. It fails when the fault does no harm, for
then the page is wrong; and it holds to what remains: the later holder has the greater fence, a
resource that looks at it refuses the earlier one, and who lost its lease is told.
"""

import pytest

from fencelock import LeaseLost
from tests.faults.wall_clock import clocked  # noqa: F401 - pytest finds the fixture here
from tests.faults.world import View, outcome, wait_until
from tests.waiting import machine_seconds

pytestmark = pytest.mark.either_face

TTL = 60.0
SHORT = 1.5


class Resource:
    """A store that refuses whoever comes with an older fence than the newest it has seen."""

    def __init__(self):
        self.fence, self.written = 0, []

    def write(self, what, fence):
        if fence >= self.fence:
            self.fence = fence
            self.written.append(what)


def forgets(server, _key):
    server.kill()
    server.start()


def flushes(server, _key):
    server.flushall()


def evicts(server, key):
    server.command("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    server.command("CONFIG", "SET", "maxmemory", 1)
    wait_until(lambda: not server.command("EXISTS", key))
    server.command("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.parametrize("fault", [forgets, flushes, evicts], ids=lambda fault: fault.__name__)
def test_a_server_that_forgets_has_two_holders(connect, own_server, name, fault):
    # It is renewed by hand: else it may be told before the other one is granted.
    one, other = (
        connect(own_server.url).lock(name, ttl=TTL, renew=renew) for renew in (False, True)
    )
    assert one.acquire()
    fault(own_server, View(own_server, name).keys.lock)
    assert other.acquire()
    assert not one.lease.lost  # both hold, as far as each can know
    assert one.lease.fence < other.lease.fence
    resource = Resource()
    resource.write("new", other.lease.fence)
    resource.write("old", one.lease.fence)
    assert resource.written == ["new"]
    assert isinstance(outcome(one.lease.renew)[0], LeaseLost)
    assert not other.lease.lost


def test_a_clock_that_jumps_ahead_has_two_holders(connect, clocked, name):  # noqa: F811 - the fixture
    server, jump = clocked
    one, other = (connect(server.url).lock(name, ttl=TTL, renew=renew) for renew in (False, True))
    assert one.acquire()
    jump(3600)
    assert other.acquire()
    assert not one.lease.lost
    assert one.lease.fence < other.lease.fence
    assert isinstance(outcome(one.lease.renew)[0], LeaseLost)
    jump(-3600)


@pytest.mark.usefixtures("patient")
def test_a_clock_that_is_set_back_blocks_longer_than_the_ttl(connect, clocked, name):  # noqa: F811 - the fixture
    server, jump = clocked
    one = connect(server.url).lock(name, ttl=SHORT, renew=False)
    assert one.acquire()
    jump(-60)
    wait_until(lambda: one.lease.lost, SHORT + 1 + machine_seconds())
    assert not connect(server.url).lock(name).acquire(timeout=0.1)
    assert View(server, name).remaining() > SHORT
    jump(60)


@pytest.mark.slow
def test_a_holder_that_was_paused_writes_late_and_only_the_fence_stops_it(start, connect, server):
    """It is stopped between its look at the lease and its write: no lock can see that."""
    child, resource = start(server.url), Resource()
    child.lock("paused", "a", ttl=4)
    fence = child.acquire("a")["fence"]
    assert not child.tell("lost", "a")["lost"]  # its look
    child.pause()
    other = connect(server.url).lock("paused", ttl=TTL)
    assert other.acquire(timeout=20)
    resource.write("new", other.lease.fence)
    child.resume()
    resource.write("old", fence)  # its write
    assert fence < other.lease.fence
    assert resource.written == ["new"]
