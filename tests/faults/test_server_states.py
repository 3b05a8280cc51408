"""A server that is busy, loading, or whose clock jumps: timeouts hold, and nobody is misled."""

import contextlib

import pytest

from fencelock import Client, OutcomeUnknown, ServerError, ServerUnreachable
from fencelock._io import process_ports
from fencelock._runtime.clock import now
from tests.faults.conftest import load
from tests.faults.proxy import Proxy
from tests.faults.wall_clock import server_with_a_clock, why_not
from tests.faults.world import View, allowed_seconds, outcome, spawn, wait_until
from tests.replication import follow, replicated
from tests.servers import Refused, Server, binaries
from tests.waiting import machine_seconds

pytestmark = pytest.mark.either_face

TIMEOUT = 1.0
PATIENCE = 50.0  # s: how long loading may take on a busy machine


TROUBLE = (OutcomeUnknown, ServerError)


KINDS = [binaries()[0], *(pytest.param(one, marks=pytest.mark.slow) for one in binaries()[1:])]


@pytest.fixture(params=KINDS, ids=str)
def any_server(request):
    """A server of each kind: what they may do while busy or loading differs."""
    with Server(request.param, persistent=True) as server:
        load(server)
        yield server


@contextlib.contextmanager
def busy(server):
    """Keep the server busy with a script; it answers BUSY from the beginning."""
    server.command("CONFIG", "SET", "lua-time-limit", "1")
    running = spawn(server.command, "EVAL", "while true do end", 0)
    wait_until(lambda: _refuses(server, "BUSY"))
    try:
        yield
    finally:
        server.command("SCRIPT", "KILL")
        with contextlib.suppress(Refused):
            running.result(20)


def _refuses(server, code):
    try:
        server.command("GET", "x")
    except Refused as error:
        return str(error).startswith(code)
    except OSError:
        return False
    return False


@pytest.mark.slow
@pytest.mark.parametrize("used", [False, True], ids=["before connecting", "after connecting"])
def test_a_busy_server(connect, any_server, name, used):
    view, client = View(any_server, name), connect(any_server.url, server_timeout=TIMEOUT)
    lock = client.lock(name, ttl=60)
    if used:
        lock.acquire()
        lock.release()
    with busy(any_server):
        for attempt in (
            lambda: lock.acquire(timeout=TIMEOUT),
            lambda: lock.acquire(blocking=False),
        ):
            result, took = outcome(attempt)
            assert isinstance(result, ServerUnreachable)
            assert result.code == "BUSY"
            assert took < TIMEOUT + allowed_seconds()
    view.until_free()


def test_a_server_that_is_busy_for_a_moment(connect, any_server, name):
    """Whoever lines up then is granted by handoff like any other, not by its next look."""
    view = View(any_server, name)
    holding = connect(any_server.url).lock(name, ttl=60)
    with Proxy(any_server) as proxy:
        lock = connect(proxy.url).lock(name, ttl=60)
        holding.acquire()
        with busy(any_server):
            ending = spawn(outcome, lock.acquire, timeout=9)
            wait_until(lambda: proxy.seen["subscribe"] > 1, what="BUSY, and another try")
        view.until_waiting(1)
        released = now()
        holding.release()
        assert ending.result(20)[0] is True
        assert now() - released < machine_seconds(), "the grant did not reach its channel"
        lock.release()
    assert view.free()


@pytest.mark.slow
def test_a_loading_server(connect, any_server, name):
    """Loading is trouble while it lasts, and passes by itself."""
    # It sleeps for each key and listens after each thousand: few, since a busy machine wakes late.
    fill = "for i = 1, 4000 do redis.call('SET', 'k' .. i, 'x') end"
    any_server.command("EVAL", fill, 0)
    lock = connect(any_server.url, server_timeout=PATIENCE).lock(name, ttl=60)
    assert lock.acquire()
    lock.release()
    any_server.stop()
    any_server._options += ["--key-load-delay", "700"]
    starting = spawn(any_server.start)
    wait_until(lambda: _refuses(any_server, "LOADING"))
    result, took = outcome(lock.acquire, timeout=TIMEOUT)
    assert isinstance(result, TROUBLE)
    assert took < TIMEOUT + allowed_seconds()
    assert lock.acquire(timeout=PATIENCE)
    lock.release()
    starting.result(PATIENCE)
    View(any_server, name).until_free()


@pytest.fixture
def clock(tmp_path):
    if why_not():
        pytest.skip(why_not())
    with server_with_a_clock(tmp_path) as (server, jump):
        load(server)
        yield server, jump


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3600, -3600])
@pytest.mark.usefixtures("patient")
def test_timeouts_hold_when_the_servers_clock_jumps(connect, clock, name, seconds):
    server, jump = clock
    view = View(server, name)
    holding, lock = (connect(server.url).lock(name, ttl=60) for _ in range(2))
    holding.acquire()
    ending = spawn(outcome, lock.acquire, timeout=0.6)
    view.until_waiting(1)
    jump(seconds)
    result, took = ending.result(20)
    assert took < 0.6 + allowed_seconds()
    if seconds < 0:
        assert result is False
        holding.release()
    elif (
        result is True
    ):  # a lease ends by the server's clock: it may be ours now, and nobody else's
        assert view.holder() == lock.lease.holder
        lock.release()
    view.until_free()


@pytest.mark.slow
def test_a_handed_lease_is_not_stretched_by_a_jump(connect, clock, name):
    """The clock jumps between lining up and the grant: the deadline is never beyond the lease."""
    server, jump = clock
    view = View(server, name)
    holding = connect(server.url).lock(name, ttl=60)
    lock = connect(server.url).lock(name, ttl=10, renew=False)
    for seconds in (3600, -3600):
        holding.acquire()
        ending = spawn(outcome, lock.acquire, timeout=9)
        view.until_waiting(1)
        jump(seconds)
        outcome(holding.release)
        assert ending.result(20)[0] is True
        assert lock.lease.remaining() <= view.remaining()
        outcome(lock.release)
        view.until_free()


def test_a_master_that_was_replaced_passes_no_grant_on(connect, name):
    """What its successor publishes is replicated to it, and clients are still connected there."""
    with replicated(1) as (old, new):
        stays = connect(old.url, server_timeout=1.0).lock(name)
        assert connect(old.url).lock(name).acquire()
        waits = spawn(outcome, stays.acquire, timeout=8)
        View(old, name).until_waiting(1)
        old.command("WAIT", 1, 5000)
        new.command("REPLICAOF", "NO", "ONE")
        follow(old, new.port)
        lock = connect(new.url).lock(name)
        asks = spawn(lock.acquire, timeout=30)
        View(new, name).until_waiting(2)
        with Client(new.url) as operator:
            operator.revoke(name, reason="its host is gone")
        assert asks.result(20) is True
        new.command("WAIT", 1, 5000)
        old.command("CLIENT", "KILL", "TYPE", "pubsub")  # it hears all that came, and asks
        assert waits.result(20)[0] is not True
        assert View(new, name).holder() == lock.lease.holder


# --- eviction -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "told"), [("allkeys-lru", 1), ("noeviction", 0)])
def test_a_server_that_may_evict_locks_is_told_of_once(monkeypatch, caplog, policy, told):
    caplog.set_level("WARNING", "fencelock")
    monkeypatch.setattr(process_ports, "LOOK_AFTER_SECONDS", 0.0)
    limits = ("--maxmemory", "100mb", "--maxmemory-policy", policy)
    with (
        Server(args=limits) as server,
        Client(server.url) as client,
        client.lock("a", ttl=1) as lease,
    ):
        first = lease.expires_at()
        wait_until(lambda: lease.expires_at() > first + 1.5)  # it was renewed some times
    assert caplog.text.count("evicts keys when its memory is full") == told
