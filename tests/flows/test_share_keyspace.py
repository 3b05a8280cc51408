"""The scripts of semaphores and reader/writer locks: simulated as on real servers."""

import contextlib

import pytest

from fencelock import scripts
from tests.flows.test_keyspace import (
    HOLDS,
    HOME,
    KEYS,
    LOCK,
    QUEUE,
    RECORD,
    Real,
    Sequence,
    Simulated,
    compare,
)
from tests.servers import Server, binaries

STEPS = 2000


class ShareSequence(Sequence):
    """The same of permits: a semaphore's and a reader/writer lock's in turns."""

    def one(self):
        return self.random.choice(
            [self.acquire] * 6 + [self.release] * 4 + [self.abandon, self.alive] * 2
            + [self.renew, self.revoked, self.broken, self.show, self.limit, self.raw]
        )()  # fmt: skip

    def who(self):
        number = self.random.randrange(4)
        return b"h%d" % number, b"c%d" % number

    def options(self, permits):
        return b" ".join((b"90000", b"70000", b"p%d" % permits, HOME, b"a b"))

    def entry(self):
        holder, channel = self.who()
        return b" ".join((holder, holder, channel, self.options(self.random.randrange(1, 4))))

    def acquire(self):
        holder, channel = self.who()
        options = self.options(self.random.randrange(1, 4))
        entry = b" ".join((holder, holder, channel, b""))
        args = (
            holder, self.random.choice([entry, entry, b""]), options,
            self.random.choice([b"semaphore"] * 9 + [b"rwlock"]),
            self.random.choice([3] * 9 + [4]), self.random.choice([b""] * 5 + [b"h0"]),
        )  # fmt: skip
        return scripts.SHARES_ACQUIRE, KEYS[:5], args

    def release(self):
        args = (self.who()[0], self.client_channel(), self.random.choice([0, 0, 1]))
        return scripts.SHARES_RELEASE, KEYS, args

    def abandon(self):
        args = (self.who()[0], self.random.choice([self.entry(), b""]), self.client_channel())
        return scripts.SHARES_ABANDON, KEYS[:5], args

    def alive(self):
        entries = [self.entry() for _ in range(self.random.randrange(4))]
        return scripts.SHARES_HEARTBEAT, KEYS[:5], (HOME, len(entries), *entries)

    def renew(self):
        return scripts.SHARES_RENEW, [LOCK, RECORD, HOLDS], (3, 1, self.who()[0], 80000)

    def broken(self):
        return (
            scripts.SHARES_BREAK,
            KEYS,
            (b"an operator's word", 50000, *map(self.random.choice, ([b"", b"p1 "], [b"1", b"2"]))),
        )

    def show(self):
        return scripts.SHARES_SHOW, KEYS[:5], (b"h0", b"h1")

    def limit(self):
        args = (b"semaphore", 3, self.random.choice([2, 3, 4]), self.client_channel(), b"id")
        return scripts.SHARES_LIMIT, KEYS[:5], args

    def raw(self):
        key = self.random.choice([LOCK, QUEUE, HOLDS, b"f"])
        member = self.random.choice([b"m", b"n", b"\xff\x00"])
        return None, (), self.random.choice([
            (b"DEL", *KEYS[:5]), (b"TYPE", key), (b"PTTL", key), (b"ZRANGEBYSCORE", LOCK, 0, 9),
            (b"HSET", b"f", member, b"1"), (b"HSET", b"f", member, b"2", b"o", b"3"),
            (b"HGET", b"f", member), (b"HDEL", b"f", member, b"o"), (b"HLEN", key), (b"TYPE", b"f"),
            (b"PUBSUB", b"NUMSUB", b"c0", b"c3"), (b"ZRANGEBYSCORE", b"z", b"-inf", 4),
            (b"ZADD", b"z", self.random.randrange(9), member), (b"HGET", QUEUE, b"x"),
        ])  # fmt: skip


@pytest.fixture(scope="module", params=binaries(), ids=str)
def server(request):
    with Server(request.param) as server:
        yield server


@pytest.mark.timeout(120)
def test_scripts_and_commands_answer_as_on_a_real_server(server):
    with contextlib.closing(Real(server)) as real:
        compare(real, Simulated(), server, ShareSequence, STEPS)
