"""Locks in Redisson's layout: releases are announced where the slot is, if servers can do that."""

import pytest

from fencelock._core.keys import slot
from tests.faults.world import spawn, wait_until

JAVA = "6a1f0b1e-3a3e-4a55-9d0f-6d0a0a0a0a0a:51"


class Java:
    """A thread of a Java program, as the node of the lock sees it."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.channel = f"redisson_lock__channel:{{{name}}}"
        self.sharded = cluster.binary.release >= (7,)

    def command(self, *words):
        return self.cluster.owner(self.name).command(*words)

    def lock(self):
        assert self.command("EXISTS", self.name) == 0
        self.command("HSET", self.name, JAVA, 1)
        self.command("PEXPIRE", self.name, 60_000)

    def unlock(self):
        self.command("DEL", self.name)
        self.command("SPUBLISH" if self.sharded else "PUBLISH", self.channel, "0")

    def waiters(self):
        how = "SHARDNUMSUB" if self.sharded else "NUMSUB"
        counts = [each.command("PUBSUB", how, self.channel)[1] for each in self.cluster.masters]
        return sum(counts)

    def scripts(self):
        stats = self.cluster.commandstats()
        return stats.get("evalsha", 0) + stats.get("eval", 0)


def turn(lock):
    assert lock.acquire(timeout=30)
    return lock.release()


def test_a_waiter_wakes_by_the_message_of_its_shard(each_kind, connect, name):
    """From Java, and from another client of ours: it does not poll, and leaves the channel."""
    java = Java(each_kind, name)
    one, two = connect(each_kind.url).redisson(name), connect(each_kind.url).redisson(name)
    turn(one)
    java.lock()
    before = java.scripts()
    job = spawn(turn, one)
    wait_until(lambda: java.waiters() == 1, what="it listens")
    java.unlock()
    assert job.result(10) == 0
    assert java.scripts() - before <= 4
    assert java.waiters() == 0
    assert two.acquire()
    before, job = java.scripts(), spawn(turn, one)
    wait_until(lambda: java.waiters() == 1, what="it listens")
    assert two.release() == 0
    assert job.result(10) == 0
    assert java.scripts() - before <= 5
    assert java.waiters() == 0


def test_a_waiter_follows_its_slot(shared, connect, name):
    """The server ends its subscription; it subscribes at the other node, and wakes there."""
    java, lock = Java(shared, name), connect(shared.url).redisson(name)
    java.lock()
    job = spawn(turn, lock)
    wait_until(lambda: java.waiters() == 1, what="it listens")
    new = next(each for each in shared.masters if each is not shared.owner(name))
    shared.move_slot(name, new)
    channel = java.channel
    wait_until(lambda: new.command("PUBSUB", "SHARDNUMSUB", channel)[1] == 1, what="it followed")
    java.unlock()
    assert job.result(10) == 0
    assert java.waiters() == 0


def test_a_name_whose_channel_is_elsewhere_is_refused(shared, connect):
    """Redisson acquires such a lock in a Cluster, and cannot release it."""
    assert slot(b"a{b") != slot(b"redisson_lock__channel:a{b")
    with pytest.raises(ValueError, match="braces"):
        connect(shared.url).redisson("a{b").acquire()
