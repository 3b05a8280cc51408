"""The server takes no more clients: the waiters of a client do not starve its leases."""

import fencelock
from tests.servers import Server
from tests.threads.state import connections, ended, thread, until


def test_waiters_leave_a_connection_to_renew_and_release_with():
    """As found: they took the last one, and the holder's lease ended."""
    with Server(args=("--maxclients", "40")) as server, fencelock.Client(server.url) as client:
        lock, granted = client.lock("a", ttl=1.5), []
        lock.acquire()

        def wait():
            with client.lock("a", ttl=5) as lease:
                granted.append(lease.fence)

        server.command("CONFIG", "SET", "maxclients", len(connections(server)) + 4)
        waiters = [thread(wait) for _ in range(8)]
        for _ in range(3):
            end = lock.lease.deadline
            until(lambda end=end: lock.lease.lost or lock.lease.deadline > end)
            assert not lock.lease.lost
        lock.release()
        for each in waiters:
            ended(each)
        assert len(granted) == 8
