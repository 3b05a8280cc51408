"""A connection that died without a word costs a moment, and an outage costs no place in line (I9).

The proxy's ``blackhole`` is what a NAT box does that forgot a connection: the client's end looks
sound, and nothing passes. New connections are well.
"""

import threading

import pytest

from fencelock import OutcomeUnknown, ServerUnreachable
from fencelock._runtime.clock import now
from tests.faults.world import Threads, held, outcome, spawn, wait_until
from tests.kinds import RIVALS
from tests.waiting import machine_seconds

pytestmark = pytest.mark.one_face

SILENT = 1.0  # as SILENT_SECONDS
IN_LINE = "it knows that it is in line"
OUTAGE = 4.0  # longer than the server_timeout of the clients that are to outlast it


def used(connect, url, **options):
    """Return a client whose connections were used before."""
    client = connect(url, **options)
    lock = client.lock("before")
    assert lock.acquire()
    lock.release()
    return client


@pytest.mark.parametrize("kind", ["lock", "owner", "poll", "semaphore", "multi"])
@pytest.mark.parametrize("how", [{"timeout": 60}, {"blocking": False}], ids=["waits", "tries"])
def test_a_dead_connection_is_replaced(connect, proxy, view, kind, how):
    """One second, not all of server_timeout and then OutcomeUnknown."""
    lock = RIVALS[kind](used(connect, proxy.url, server_timeout=30), view.name, ttl=60)
    proxy.drop_all("blackhole")
    result, took = outcome(lock.acquire, **how)
    assert result is True
    assert took < 2 * SILENT + 2 * machine_seconds()
    lock.release()
    wait_until(lambda: not view.server.command("EXISTS", view.keys.lock.decode()), what="free")


def test_release_and_renewal_over_a_dead_connection(connect, proxy, view):
    client = used(connect, proxy.url, server_timeout=30)
    lock = client.lock(view.name, ttl=60)
    lock.acquire()
    for ask in (lock.lease.renew, lock.release):
        proxy.drop_all("blackhole")
        result, took = outcome(ask)
        assert result is None
        assert took < 2 * SILENT + 2 * machine_seconds()
    view.until_free()


def test_a_waiter_whose_connection_died_keeps_its_place(connect, proxy, view):
    """Its look is silent; it asks anew on another connection, before others in line."""
    client = connect(proxy.url, server_timeout=30)
    first = client.lock(view.name, ttl=60)
    with held(view):
        ending = spawn(outcome, first.acquire, timeout=30)
        wait_until(client.port.lines.all_waiters, what=IN_LINE)
        entry = view.server.command("ZRANGE", view.keys.grant[2].decode(), 0, 0)
        proxy.drop_all("blackhole")
        behind = connect(view.server.url).lock(view.name, ttl=60)
        other = spawn(outcome, behind.acquire, timeout=30)
        view.until_waiting(2)
    assert ending.result(15)[0] is True
    assert entry[0].split()[0] in first.lease.holder
    first.release()
    assert other.result(20)[0] is True
    behind.release()
    view.until_free()


def test_a_server_that_was_frozen_runs_both_and_leaves_nothing(connect, own_server, own_view):
    """The second connection waits for the server, too; then the first request is undone."""
    client = used(connect, own_server.url, server_timeout=30)
    lock = client.lock(own_view.name, ttl=60)
    own_server.pause()
    asking = spawn(outcome, lock.acquire, timeout=20)
    frozen = threading.Timer(2 * SILENT, own_server.resume)
    frozen.start()
    assert asking.result(20)[0] is True
    frozen.join()
    holder = own_view.holder()
    assert holder == lock.lease.holder
    lock.release()
    own_view.until_free(5)


def away(proxy, ending):
    """Let the server be away for longer than server_timeout; waiters go on waiting."""
    proxy.new_connections = "refuse"
    proxy.drop_all()
    begun = now()
    wait_until(lambda: now() - begun > OUTAGE, what="an outage longer than server_timeout")
    assert not ending.done(), ending.result(0)
    proxy.new_connections = "pass"


@pytest.mark.slow
def test_who_stands_in_line_outlasts_an_outage(connect, proxy, view, server):
    """With time left it goes on when the server is back, in its place."""
    client = connect(proxy.url, server_timeout=OUTAGE * 0.75)
    lock = client.lock(view.name, ttl=60)
    holder = connect(server.url).lock(view.name, ttl=60)
    holder.acquire()
    ending = spawn(outcome, lock.acquire, timeout=30)
    wait_until(client.port.lines.all_waiters, what=IN_LINE)
    away(proxy, ending)
    holder.release()
    assert ending.result(15)[0] is True
    lock.release()
    view.until_free()


def test_who_stands_in_line_outlasts_a_change_of_its_password(connect, proxy, view, server):
    """It was let in before: a refusal says "not now", as to a holder that renews."""
    client, holder = connect(proxy.url), connect(server.url).lock(view.name, ttl=60)
    lock = client.lock(view.name, ttl=60)
    holder.acquire()
    ending = spawn(outcome, lock.acquire, timeout=60)
    wait_until(client.port.lines.all_waiters, what=IN_LINE)
    refused = proxy.on("hello", "error", text="WRONGPASS invalid", times=2)
    proxy.drop_all()
    wait_until(lambda: refused.times == 0, 8, "it was refused again")
    holder.release()
    assert ending.result(20)[0] is True
    lock.release()
    view.until_free()


@pytest.mark.slow
def test_who_waits_for_an_event_outlasts_an_outage(face, connect, proxy, server, name):
    waits, sets = connect(proxy.url, server_timeout=OUTAGE * 0.75), connect(server.url)
    event, setter = waits.client.event(name), sets.client.event(name)
    blocks = face is Threads
    ending = spawn(event.wait, 30) if blocks else spawn(waits.run, event.wait(30))
    wait_until(lambda: any(each.gen for each in waits.port.lines.all_waiters()), what="it waits")
    away(proxy, ending)
    spawn(setter.set) if blocks else sets.begin(setter.set())
    assert ending.result(15) is True


@pytest.mark.slow
def test_the_timeout_of_who_waits_ends_an_outage(connect, proxy, view):
    """I13, I12: it is trouble, not "held"."""
    client = connect(proxy.url, server_timeout=OUTAGE / 4)
    lock = client.lock(view.name, ttl=60)
    with held(view):
        ending = spawn(outcome, lock.acquire, timeout=OUTAGE)
        wait_until(client.port.lines.all_waiters, what=IN_LINE)
        proxy.new_connections = "refuse"
        proxy.drop_all()
        result, took = ending.result(20)
        assert isinstance(result, (OutcomeUnknown, ServerUnreachable)), result
        assert OUTAGE / 2 < took < OUTAGE + 0.1 + machine_seconds(), result
        proxy.new_connections = "pass"
        view.until_waiting(0)
