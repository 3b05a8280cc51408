"""What is pushed goes from node to node: it counts of the master of its slot, and of no other."""

import pytest

from fencelock._core.keys import SignalKeys
from fencelock._runtime.clock import now
from tests.faults.world import PREFIX, View, spawn, wait_until

TTL, LINGER = 60.0, 0.5
RULES = "reset on nopass ~* &* +@all -cluster +cluster|slots"


def say(node, channel, *words):
    """Publish at a node what its own script would, or one of an earlier build."""
    word = "SPUBLISH" if channel.endswith("!") else "PUBLISH"
    node.command(word, channel, " ".join(map(str, words)))


def said_by(node, told):
    """Return the word that names a node, if it is to be told."""
    return (f"@{node.command('CLUSTER', 'MYID')}",) if told else ()


def asked(node):
    return node.commandstats().get("evalsha", 0)


def prove(client, view):
    """Have the node answer a client: for a second it is known to be a master."""
    other = client.lock(f"{{{view.keys.lock.decode()}}}", ttl=TTL)
    assert other.acquire(timeout=20)
    other.release()


@pytest.mark.parametrize("told", [True, False], ids=["of another node", "of no node"])
def test_a_grant_is_asked_about(each_kind, connect, name, told):
    """As a master pushes it that was replaced; its successor has granted the lock meanwhile."""
    view = View(each_kind, name)
    master = each_kind.owner(view.keys.lock)
    other = each_kind.replica_of(master)
    holder, client = (connect(each_kind.url) for _ in range(2))
    lock, waiter = holder.lock(name, ttl=TTL), client.lock(name, ttl=TTL)
    assert lock.acquire()
    job = spawn(waiter.acquire, timeout=60)
    view.until_waiting(1)
    who, _, channel, *_ = master.command("ZRANGE", view._queue, 0, 0)[0].split(" ")
    seconds, micros = master.command("TIME")
    prove(client, view)
    before = asked(master)
    granted = ("granted", who, lock.lease.fence + 1, int(seconds) * 1_000_000 + int(micros), 60_000)
    say(other, channel, *said_by(other, told), *granted)
    wait_until(lambda: job.done() or asked(master) > before, what="it asks")
    assert not job.done()
    fence = lock.lease.fence
    lock.release()
    assert job.result(20) is True
    assert view.holder() == waiter.lease.holder
    assert waiter.lease.fence > fence
    waiter.release()


@pytest.mark.parametrize("told", [True, False], ids=["of another node", "of no node"])
def test_a_signal_is_asked_about(each_kind, connect, name, told):
    state, watch = (key.decode() for key in SignalKeys(PREFIX, name).watch)
    master = each_kind.owner(state)
    other = each_kind.replica_of(master)
    face = connect(each_kind.url)
    event = face._wrapped(face.client.event(name))
    job = spawn(event.wait, 60)
    wait_until(lambda: master.command("ZCARD", watch), what="it waits")
    channel = master.command("ZRANGE", watch, 0, 0)[0].split(" ")[-1]
    before = asked(master)
    gen = master.command("HGET", state, "gen")
    say(other, channel, *said_by(other, told), "signal", gen, "open", state)
    wait_until(lambda: job.done() or asked(master) > before, what="it asks")
    assert not job.done()
    event.set()
    assert job.result(20) is True


def test_a_revocation_is_asked_about(each_kind, connect, name):
    """It may come from any node; a lease that stands is renewed, and not lost."""
    client, view = connect(each_kind.url), View(each_kind, name)
    lock = client.lock(name, ttl=TTL)
    assert lock.acquire()
    home = client.port.client_channel.decode()
    wait_until(lambda: each_kind.command("PUBSUB", "NUMSUB", home)[1], what="it listens")
    lease, before = lock.lease, lock.lease.deadline
    say(each_kind.masters[0], home, "revoked", lease.holder, "as long ago")
    wait_until(lambda: lease.lost or lease.deadline > before, what="it is renewed")
    assert not lease.lost
    assert view.holder() == lease.holder
    lock.release()


def test_a_kept_lease_that_may_be_revoked_is_given_back_at_once(shared, connect, name, view):
    """The server may have granted to another: the next turn is none without a question."""
    client = connect(shared.url)
    lock, home = client.lock(name, ttl=TTL, linger=LINGER), client.port.client_channel.decode()
    took = []
    for _ in range(5):
        assert lock.acquire()
        kept = lock.lease.holder
        wait_until(lambda: shared.command("PUBSUB", "NUMSUB", home)[1], what="it listens")
        began = now()
        lock.release()
        say(shared.masters[0], home, "revoked", kept, "as long ago")
        wait_until(lambda: view.holder() is None, what="it is given back")
        took.append(now() - began)
    assert min(took) < LINGER


def test_no_turn_is_passed_on_of_a_lease_that_may_be_revoked(shared, connect, name, view):
    client = connect(shared.url)
    lock, other = (client.lock(name, ttl=TTL, renew=False) for _ in range(2))
    assert lock.acquire()
    holder = lock.lease.holder
    home = client.port.client_channel.decode()
    wait_until(lambda: shared.command("PUBSUB", "NUMSUB", home)[1], what="it listens")
    job = spawn(other.acquire, timeout=20)
    view.until_waiting(1)
    before = asked(shared)
    say(shared.masters[0], home, "revoked", holder, "as long ago")
    wait_until(lambda: asked(shared) > before, what="it looks")
    assert not lock.lease.lost
    lock.release()
    assert job.result(20) is True
    assert view.holder() == other.lease.holder != holder
    other.release()


@pytest.mark.parametrize("may", [True, False], ids=["", "of a user who may not say which node"])
def test_a_grant_of_the_master_costs_no_question(each_kind, connect, name, may):
    rules = f"{RULES} {'+cluster|myid' if may else ''}".split()
    for node in each_kind.nodes:
        node.command("ACL", "SETUSER", "turns", *rules)
    view = View(each_kind, name)
    master = each_kind.owner(view.keys.lock)
    clients = [connect(each_kind.url.replace("://", "://turns:x@")) for _ in range(2)]
    locks = [client.lock(name, ttl=TTL, renew=False) for client in clients]
    assert locks[0].acquire()
    costs = []
    for number in range(4):  # a proof of life, or a busy machine, may come in between
        (_, lock), (client, waiter) = [*zip(clients, locks, strict=True)][:: 1 - 2 * (number % 2)]
        job = spawn(waiter.acquire, timeout=60)
        view.until_waiting(1)
        prove(client, view)
        before, began = asked(master), now()
        lock.release()
        assert job.result(20) is True
        costs.append(asked(master) - before if now() - began < 1 else 9)
    assert min(costs) == (1 if may else 2)
    waiter.release()
