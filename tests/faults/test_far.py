"""A far server is not a dead one: whatever takes its round trips is waited for, and no longer.

The round trips go through a relay, up to a second, with leases as short as servers.md says.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio

from fencelock._core.round_trips import SILENT_SECONDS
from tests.faults.far import Far
from tests.faults.world import FACES, Tasks, View, outcome, spawn, wait_until
from tests.tls import Front
from tests.topologies.cluster import Cluster
from tests.topologies.quorum import Quorum
from tests.topologies.sentinel import CALM_MS, SERVICE, SentinelTopology
from tests.waiting import machine_seconds

pytestmark = [pytest.mark.one_face, pytest.mark.slow]

TRIPS = [0.4, 0.7, 1.0]
# A lease in round trips, as in servers.md: of one server, and where others prove each answer.
TTL_TRIPS, PROVED_TTL_TRIPS = 12.0, 30.0
LONG = 60.0


@pytest.fixture
def new_server(own_server):
    """A server that knows no script: each takes a round trip more."""
    own_server.command("SCRIPT", "FLUSH")
    return own_server


@contextlib.contextmanager
def relays(server, trips=TRIPS):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Far(server.port, trip)) for trip in trips]


def together(function, each):
    """Call a function for each at once."""
    with ThreadPoolExecutor(len(each)) as pool:
        list(pool.map(function, each))


def until_renewed(lease, more=2):
    """Return once it was renewed so many times more; raise when it is lost."""
    ends = lease.deadline + more * lease.ttl / 4
    wait_until(lambda: lease.lost or lease.deadline >= ends, LONG, "renewals")
    lease.check()


def test_a_renewed_lease_is_kept(connect, new_server, name):
    """Also when its connections are cut: the next renewal waits for another one to open."""

    def hold(far):
        lock = connect(far.url).lock(f"{name}{far.trip}", ttl=far.trip * TTL_TRIPS)
        assert lock.acquire(timeout=LONG)
        until_renewed(lock.lease)
        far.drop_all()
        until_renewed(lock.lease)
        lock.release()

    with relays(new_server) as fars:
        together(hold, fars)


def test_a_lease_over_tls_is_kept(connect, new_server, name, tmp_path):
    """Its handshake takes more round trips than a renewal may wait."""
    with Front(new_server, tmp_path) as front:
        port = int(front.url.rpartition(":")[2].partition("/")[0])
        with Far(port, TRIPS[0]) as far:
            client = connect(front.url.replace(f":{port}/", f":{far.port}/"))
            lock = client.lock(name, ttl=far.trip * TTL_TRIPS)
            assert lock.acquire(timeout=LONG)
            until_renewed(lock.lease)
            far.drop_all()
            until_renewed(lock.lease)
            lock.release()


def test_a_lease_that_is_handed_over_grows(connect, new_server, name):
    """It begins short, and its message and its first renewal take a round trip each."""

    def be_handed(far):
        own = f"{name}{far.trip}"
        holder, lock = connect(new_server.url).lock(own), connect(far.url).lock(own)
        holder.acquire()
        waiting = spawn(lock.acquire, timeout=LONG)
        View(new_server, own).until_waiting(1, LONG)
        holder.release()
        assert waiting.result(LONG)
        until_renewed(lock.lease, 1)
        lock.release()

    with relays(new_server) as fars:
        together(be_handed, fars)


def test_beyond_a_second_a_free_lock_is_acquired(connect, new_server, name):
    """Silence is judged by the round trips that were seen."""

    def take(far):
        lock = connect(far.url, server_timeout=15).lock(f"{name}{far.trip}")
        for _ in range(2):
            assert lock.acquire(timeout=LONG)
            lock.release()

    with relays(new_server, [1.2, 1.5]) as fars:
        together(take, fars)


def test_a_near_network_again_is_judged_as_one(connect, proxy, server, name):
    """After the first quick answers a connection that died costs a second, as ever."""
    with Far(proxy.port, TRIPS[-1]) as far:
        client = connect(far.url)
        lock = client.lock(name, ttl=60)
        assert lock.acquire(timeout=LONG)
        assert client.port.trips.silence > SILENT_SECONDS
        far.trip = 0.0
        lock.lease.renew()
        wait_until(lambda: client.port.trips.silence == SILENT_SECONDS, what="it is near")
        proxy.drop_all("blackhole")
        result, took = outcome(lock.release)
        assert result is None
        assert took < 2 * SILENT_SECONDS + 2 * machine_seconds()


# --- several servers ------------------------------------------------------------------------------


@contextlib.contextmanager
def far_quorum(trip):
    with Quorum(3) as nodes, contextlib.ExitStack() as stack:
        urls = [stack.enter_context(Far(node.port, trip)).url for node in nodes.nodes]
        yield lambda _face: urls


@contextlib.contextmanager
def far_sentinels(trip):
    with contextlib.ExitStack() as stack:

        def through(server):
            return stack.enter_context(Far(server.port, trip)).port

        made = SentinelTopology(replicas=1, through=through, down_after_ms=CALM_MS)
        servers = stack.enter_context(made)
        hosts = ",".join(f"127.0.0.1:{through(each)}" for each in servers.sentinels)
        yield lambda _face: f"redis+sentinel://{hosts}/{SERVICE}/0"


@contextlib.contextmanager
def far_cluster(trip):
    with Cluster(replicas=0) as cluster, contextlib.ExitStack() as stack:
        ports = {each.port: Far(each.port, trip) for each in cluster.calm().nodes}
        for each in ports.values():
            stack.enter_context(each)

        def client(face):
            kind = redis.asyncio.RedisCluster if face is Tasks else redis.RedisCluster
            first = cluster.nodes[0].port

            def there(at):
                return at[0], ports[at[1]].port if at[1] in ports else at[1]

            return kind(host="127.0.0.1", port=first, address_remap=there)

        yield client


@pytest.mark.parametrize("topology", [far_quorum, far_sentinels, far_cluster])
def test_far_servers_are_used_as_near_ones(topology, name):
    """A lock is acquired, kept and handed over, by both faces at once."""

    def work(face):
        with contextlib.ExitStack() as stack:
            made = [stack.enter_context(contextlib.closing(face(source(face)))) for _ in range(2)]
            first, second = (each.lock(f"{name}{face.name}", ttl=ttl) for each in made)
            assert first.acquire(timeout=LONG)
            until_renewed(first.lease)
            waiting = spawn(second.acquire, timeout=LONG)
            lines = made[1].port.nodes or [made[1].port]
            wait_until(lambda: any(each.lines.all_waiters() for each in lines), LONG, "it waits")
            first.release()
            assert waiting.result(LONG)
            until_renewed(second.lease, 1)
            second.release()

    trip = TRIPS[0]
    ttl = trip * PROVED_TTL_TRIPS
    with topology(trip) as source:
        together(work, FACES)
