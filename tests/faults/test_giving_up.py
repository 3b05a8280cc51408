"""Giving up leaves nothing: no place in line, no grant, no unread answer, no renewal (I9).

The leases are an hour long and the tests seconds, so nothing disappears by expiring.
"""

import pytest

from fencelock import FencelockError, OutcomeUnknown
from fencelock._runtime.clock import now
from tests.faults.world import Threads, View, outcome, spawn, wait_until

pytestmark = pytest.mark.one_face

TTL = 3600.0
# A clean-up on a connection that went silent must find another way within this.
UNDONE_SECONDS = 5.0


def test_close_while_another_connects(connect, proxy, name, face):
    """It ends with an error of ours, not as if somebody had cancelled it."""
    client = connect(proxy.url)
    proxy.new_connections = "blackhole"
    waiting = spawn(outcome, client.lock(name).acquire, timeout=0.5)
    wait_until(proxy.links)
    closing = client.close if face is Threads else lambda: client.run(client.client.aclose())
    spawn(closing).result(20)
    assert isinstance(waiting.result(20)[0], FencelockError)


@pytest.mark.slow
def test_one_silent_connection_does_not_hold_up_other_clean_ups(proxy, view, name, request):
    """Two give up, one behind a connection that says nothing any more: both leave nothing."""
    client = Threads(proxy.url, server_timeout=0.5)
    request.addfinalizer(client.close)
    proxy.on("acquire", "drop_reply", then="blackhole")
    first = outcome(client.lock(name, ttl=TTL).acquire, timeout=0.2)[0]
    assert isinstance(first, OutcomeUnknown)
    second = View(view.server, f"{name}-second")
    fault = proxy.on("acquire", "drop_reply", then="rst")
    waiting = spawn(outcome, client.lock(second.name, ttl=TTL).acquire, timeout=0.3)
    fault.wait()
    proxy.new_connections = "refuse"
    waiting.result(20)
    proxy.new_connections = "pass"
    begun = now()
    second.until_free(UNDONE_SECONDS)
    view.until_free(UNDONE_SECONDS - (now() - begun))
