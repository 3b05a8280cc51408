"""A slot moves to another node: nothing is lost, nobody waits for ever, nobody holds twice."""

import threading

import pytest

from tests.cluster.turns import Turns
from tests.faults.world import View, in_line, spawn, until_served, wait_until

TTL = 6.0


def elsewhere(cluster, key):
    """Return a master that does not serve the key."""
    owner = cluster.owner(key)
    return next(node for node in cluster.masters if node is not owner)


@pytest.mark.slow
def test_while_a_lock_is_held_and_waited_for(each_kind, connect, name):
    """Holders renew at the new owner; waiters are in line again there.

    They keep their order where the server says that a slot has gone; Redis 6.2 does not, so who has
    not found out by itself yet is passed over and comes again.
    """
    view = View(each_kind, name)
    holder, *waiters = [connect(each_kind.url).lock(name, ttl=TTL) for _ in range(3)]
    assert holder.acquire()
    jobs = in_line(waiters, view, timeout=30)
    each_kind.move_slot(view.keys.lock, elsewhere(each_kind, view.keys.lock))
    until_renewed(holder, 2)
    view.until_waiting(2)
    fence = holder.lease.fence
    holder.release()
    served, fences = until_served(waiters, jobs, view)
    assert served == waiters or not each_kind.binary.is_valkey
    assert fences[0] > fence


def until_renewed(lock, times):
    """Wait until a lease was renewed so often."""
    for _ in range(times):
        before = lock.lease.deadline
        wait_until(lambda before=before: lock.lease.deadline > before, what="renewed")
    assert not lock.lease.lost


@pytest.mark.slow
def test_a_lease_is_renewed_while_its_slot_is_under_way(shared, connect, name, view):
    """ASK: the keys are at the new node, the slot still is the old one's."""
    lock = connect(shared.url).lock(name, ttl=5)
    assert lock.acquire()
    with shared.migrating(view.keys.lock, elsewhere(shared, view.keys.lock)) as move:
        until_renewed(lock, 1)
        move()
        until_renewed(lock, 3)
    until_renewed(lock, 2)
    lock.release()
    view.until_free()


def test_a_lock_that_cannot_be_asked_for_while_its_slot_is_under_way(shared, connect, name, view):
    """TRYAGAIN: who acquires or releases then has to wait for the slot, and does."""
    holder, other = (connect(shared.url).lock(name, ttl=20) for _ in range(2))
    assert holder.acquire()
    with shared.migrating(view.keys.lock, elsewhere(shared, view.keys.lock)) as move:
        move()
        jobs = [spawn(other.acquire, timeout=20), spawn(holder.release)]
    for job in jobs:
        job.result(20)
    assert view.holder() == other.lease.holder
    other.release()
    view.until_free()


def test_a_waiter_goes_on_where_sharded_channels_are_refused(shared, connect, name, view):
    """It listens to another channel at the node to which its slot moved."""
    old = shared.owner(view.keys.lock)
    new = elsewhere(shared, view.keys.lock)
    rights = ["reset", "on", ">x", "~*", "&*", "+@all"]
    for node in shared.nodes:
        node.command("ACL", "SETUSER", "mover", *rights)
    new.command("ACL", "SETUSER", "mover", "-ssubscribe")
    url = shared.url.replace("://", "://mover:x@")
    holder, waiter = connect(shared.url).lock(name, ttl=20), connect(url).lock(name, ttl=20)
    assert holder.acquire()
    job = spawn(waiter.acquire, timeout=15)
    view.until_waiting(1)
    shared.move_slot(view.keys.lock, new)
    heard = "channels of the waiter at the new node"
    wait_until(lambda: job.done() or any("+" in each for each in channels(new)), 10, heard)
    holder.release()
    assert job.result(10)
    waiter.release()
    shared.move_slot(view.keys.lock, old)


def channels(node):
    """Return the channels of no slot that are heard at a node."""
    return node.command("PUBSUB", "CHANNELS")


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True], ids=["sharded", "not sharded"])
def test_many_turns_while_the_slot_moves_to_and_fro(each_kind, connect, name, plain):
    """No two hold at once, and no fence is used twice."""
    turns = Turns(each_kind, name)
    view = View(each_kind, name)
    clients = [connect(each_kind.url) for _ in range(4)]
    if plain:
        for client in clients:
            client.port._sharded = False
    turns.begin(clients)
    for _ in range(6):
        turns.until_more(20)
        each_kind.move_slot(view.keys.lock, elsewhere(each_kind, view.keys.lock))
    turns.until_more(20)
    assert turns.end() == []
    view.until_free()


@pytest.mark.usefixtures("patient")
def test_who_gives_up_while_the_slot_moves_leaves_nothing(shared, connect, name, view):
    holder, other = (connect(shared.url).lock(name, ttl=20) for _ in range(2))
    assert holder.acquire()
    job = spawn(other.acquire, timeout=0.5)
    view.until_waiting(1)
    moved = threading.Event()
    mover = spawn(shared.move_slot, view.keys.lock, elsewhere(shared, view.keys.lock))
    assert job.result(20) is False
    mover.result(20)
    moved.set()
    wait_until(lambda: view.waiting() == 0, what="nobody in line")
    holder.release()
    view.until_free()
