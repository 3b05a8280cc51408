"""Very many leases over all slots: renewed by node, none lost, one silent node or not."""

import asyncio
import inspect

import pytest

from fencelock import AsyncClient, OutcomeUnknown
from fencelock._core.keys import LockKeys
from fencelock._runtime.clock import now
from fencelock._topology import cluster
from tests.faults.world import PREFIX, Threads, View, spawn, wait_until

TTL = 9.0
LEASES = 1000


def until_all_renewed(locks, seconds, what="all renewed"):
    """Return once each of them was renewed."""
    ends = [(lock, lock.lease.deadline) for lock in locks]
    wait_until(lambda: all(lock.lease.deadline > end for lock, end in ends), seconds, what)


def sent(cluster, before):
    after = cluster.commandstats()
    return sum(after.get(word, 0) - before.get(word, 0) for word in ("evalsha", "eval"))


@pytest.mark.slow
def test_a_thousand_leases_over_all_slots(shared, connect, face):
    """None is lost; a renewal of each costs a script of its slot, all of a node in one go."""
    client = connect(shared.url)
    locks = [client.lock(f"many {number}", ttl=TTL) for number in range(LEASES)]
    assert all(lock.acquire() for lock in locks)
    before, began = shared.commandstats(), now()
    until_all_renewed(locks, TTL * 2)
    assert not any(lock.lease.lost for lock in locks)
    # Each is renewed every third of its ttl, some 10 % earlier, by a script of its own at most.
    assert sent(shared, before) <= LEASES * (1 + (now() - began) / (TTL / 3 * 0.85))
    if face is Threads:
        with client.port.mutex:
            assert client.port.renewals.holds + len(client.port.renewals.under_way) == LEASES
    for lock in locks:
        lock.release()


@pytest.mark.slow
def test_very_many_leases_share_commands_by_slot(shared, connect, monkeypatch):
    """With more leases than slots, all of a slot are renewed with one command."""
    monkeypatch.setattr(cluster, "SLOTS", 8)  # as if there were no more
    client = connect(shared.url)
    locks = [client.lock(f"{{{number % 8}}} {number}", ttl=TTL) for number in range(400)]
    assert all(lock.acquire() for lock in locks)

    def renewed_twice():
        for _ in range(2):
            until_all_renewed(locks, TTL)

    renewed_twice()
    before, began = shared.commandstats(), now()
    renewed_twice()
    assert sent(shared, before) <= 8 * (1 + (now() - began) / (TTL * 0.3))
    for lock in locks:
        lock.release()


@pytest.mark.parametrize("times", [1, 5])
def test_renewals_that_are_cancelled_before_they_begin_are_begun_anew(shared, times):
    """A program may cancel all tasks but its own."""

    async def cancel_and_hold():
        async with AsyncClient(shared.url) as client:
            locks = [client.lock(f"cancelled {number}", ttl=TTL / 3) for number in range(30)]
            assert all([await lock.acquire() for lock in locks])
            left = times
            while left > 0:
                await asyncio.sleep(0)
                for task in asyncio.all_tasks():
                    if inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CREATED:
                        task.cancel()
                        left -= 1
            first = [lock.lease.deadline for lock in locks]
            while not all(
                lock.lease.deadline > old for lock, old in zip(locks, first, strict=True)
            ):
                assert not any(lock.lease.lost for lock in locks)
                await asyncio.sleep(0)

    asyncio.run(cancel_and_hold())


def nobody_takes_a_place(own):
    """Let a silent node stay a master."""
    for node in own.nodes:
        node.command("CONFIG", "SET", "cluster-node-timeout", 60_000)
        node.command("CONFIG", "SET", "cluster-require-full-coverage", "no")


@pytest.mark.slow
def test_a_silent_node_holds_up_no_other(own, connect):
    """Leases at the other nodes are renewed all the time, and none of them is lost."""
    nobody_takes_a_place(own)
    client = connect(own.url)
    told = []
    locks = {
        name: client.lock(name, ttl=6, on_lost=told.append)
        for name in (f"many {number}" for number in range(60))
    }
    assert all(lock.acquire() for lock in locks.values())
    silent = own.masters[0]
    there = {
        name for name in locks if own.owner(LockKeys(PREFIX, name).lock, own.nodes[1]) is silent
    }
    silent.pause()
    wait_until(lambda: len(told) == len(there), 12, "those of the silent node are told")
    for _ in range(3):
        others = [locks[name] for name in locks.keys() - there]
        until_all_renewed(others, 5, "the others are renewed")
    assert {lease.name for lease in told} == there
    silent.resume()


def spread(own):
    """Return the keys of locks by their names, the first one's node, and the names elsewhere."""
    nobody_takes_a_place(own)
    keys = {name: LockKeys(PREFIX, name).lock for name in map(str, range(20))}
    owners = {name: own.owner(key, own.nodes[0]) for name, key in keys.items()}
    keys = dict(sorted(keys.items(), key=lambda each: each[1]))  # the order in which it is taken
    first = owners[next(iter(keys))]
    elsewhere = {name: owner for name, owner in owners.items() if owner is not first}
    assert len(set(map(id, elsewhere.values()))) > 1
    return keys, first, elsewhere


@pytest.mark.slow
@pytest.mark.either_face
def test_a_silent_node_holds_up_no_other_renewal_of_a_multi(own, connect):
    """What lies elsewhere is renewed while the call still waits for the silent node."""
    keys, silent, elsewhere = spread(own)
    client = connect(own.url, server_timeout=9)
    multi = client.multi(list(keys), ttl=100)
    assert multi.acquire()
    lease = multi.lease
    silent.pause()
    renewed = spawn(lease.renew, 200)
    wait_until(
        lambda: all(
            180_000 < owner.command("PTTL", keys[name]) <= 200_000
            for name, owner in elsewhere.items()
        ),
        6,
        "what lies elsewhere is renewed",
    )
    assert not renewed.done()
    assert isinstance(renewed.exception(30), OutcomeUnknown)
    assert lease.remaining() <= 100  # that of the silent node
    silent.resume()
    lease.renew(300)
    assert 285 < lease.remaining() <= 300
    multi.release()


SLOTS_WAITED_IN = 30
ROOM = 3
# Threads that use connections to one node at the same time: the waiter, the holder, the one that
# renews, the one that sees to posts; and the connection that a waiter leaves for the others.
SEATS = 5


def handed_over_in_each_slot(shared, client, turn=""):
    """Have locks of many slots handed over, one after the other."""
    for number in range(SLOTS_WAITED_IN):
        name = f"slot {number}"
        holder, waiter = client.lock(name, ttl=20), client.lock(name, ttl=20)
        assert holder.acquire()
        job = spawn(waiter.acquire, timeout=20)
        View(shared, name).until_waiting(1)
        holder.release()
        assert job.result(20) is True, turn
        waiter.release()


def test_channels_of_slots_that_are_waited_in_no_more_are_left(shared, connect, face, monkeypatch):
    """I10: a connection keeps few channels of slots in which none of its waiters is left.

    A client of threads may have several connections to a node, and any of them may be the next
    waiter's.
    """
    monkeypatch.setattr(cluster, "CHANNELS_MAX", ROOM)
    client = connect(shared.url, cohort=None)
    for turn in range(2):  # also at channels that were left before
        handed_over_in_each_slot(shared, client, f"turn {turn}")
    wait_until(
        lambda: all(max(channels(node)) <= ROOM + 1 for node in shared.masters),
        5,
        f"each connection hears at most {ROOM + 1} channels",
    )
    assert all(len([each for each in channels(node) if each]) <= SEATS for node in shared.masters)


def test_a_user_who_may_not_leave_channels_waits_all_the_same(shared, connect, face, monkeypatch):
    """The refusal is an answer like any other: the next ones still belong to their requests."""
    monkeypatch.setattr(cluster, "CHANNELS_MAX", 1)
    for node in shared.nodes:
        rules = ("reset", "on", ">x", "~*", "&*", "+@all", "-sunsubscribe")
        node.command("ACL", "SETUSER", "stayer", *rules)
    client = connect(shared.url.replace("://", "://stayer:x@"), cohort=None)
    handed_over_in_each_slot(shared, client)


def channels(node):
    """Return how many sharded channels each connection to a node hears."""
    lines = node.command("CLIENT", "LIST").splitlines()
    facts = [dict(word.split("=", 1) for word in line.split()) for line in lines]
    return [int(each["ssub"]) for each in facts]
