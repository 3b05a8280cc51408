"""The simulated keyspace against real servers: the same scripts, commands, replies and messages."""

import contextlib
import random
import re
import socket

import pytest

from fencelock import scripts
from tests.servers import Refused, Server, binaries
from verification.simulator.commands import Keyspace
from verification.simulator.keyspace import CommandError
from verification.simulator.scripting import Program

KEYS = [b"l", b"{l}~record", b"{l}~queue", b"{l}~alive", b"{l}~holds", b"{l}~revoked"]
LOCK, RECORD, QUEUE, ALIVE, HOLDS, REVOKED = KEYS
SIGNAL = [b"s", b"{s}~watch", b"{s}~ids", b"{s}~places"]
HOME = b"home"
LISTENING = (b"c0", b"c1", b"c2", HOME)  # c3 is a dead client's
PER_EXAMPLE = 20  # steps from an empty keyspace, so that an early difference is not for ever


class Sequence:
    """One seeded sequence of requests, as (script or None, keys, args)."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self):
        return self.random.choice(
            [self.acquire] * 6 + [self.release] * 4 + [self.abandon, self.alive] * 2
            + [self.renew, self.revoked, self.broken, self.show]
            + [self.keep, self.give_back, self.raw]
            + [self.gate, self.watch, self.barrier] * 2 + [self.redisson] * 4
        )()  # fmt: skip

    def who(self):
        number = self.random.randrange(4)
        owned = number == 3 or self.random.random() < 0.2
        holder = b"owner" if owned else b"h%d" % number
        return b"w%d" % number, holder, b"c%d" % number, b"1" if owned else b"0"

    def client_channel(self):
        return self.random.choice([HOME, b"elsewhere"])

    def entry(self):
        waiter, holder, channel, owned = self.who()
        return b" ".join((waiter, holder, channel, self.options(owned)))

    def options(self, owned):
        return b" ".join((b"90000", b"70000", owned, HOME, b"a b"))

    def acquire(self):
        waiter, holder, channel, owned = self.who()
        options = self.options(owned)
        entry = b" ".join((waiter, holder, channel, b""))
        entry = self.random.choice([entry, entry, b""])
        args = (holder, entry, 90000, 690000, options)
        return scripts.ACQUIRE, KEYS[:5], (*args, waiter) if owned == b"1" else args

    def release(self):
        waiter, holder, _, owned = self.who()
        if self.random.random() < 0.1:
            return scripts.LEAVE, KEYS, (holder, 60000)
        args = (holder, self.client_channel())
        return scripts.RELEASE, KEYS, (*args, waiter, b"") if owned == b"1" else args

    def abandon(self):
        waiter, holder, _, owned = self.who()
        entry = self.random.choice([self.entry(), b""])
        return scripts.ABANDON, KEYS[:5], (waiter, holder, owned, entry, self.client_channel())

    def alive(self):
        entries = [self.entry() for _ in range(self.random.randrange(4))]
        return scripts.HEARTBEAT, KEYS[:5], (HOME, len(entries), *entries, 0)

    def renew(self):
        _, holder, _, owned = self.who()
        keys = [LOCK, RECORD, HOLDS][: 2 + int(owned)]
        return scripts.RENEW, keys, (len(keys), holder, 80000)

    def revoked(self):
        return scripts.REVOKED, [REVOKED], ()

    def broken(self):
        return scripts.BREAK, KEYS, (b"an operator's word", 50000, self.random.choice([b"1", b"2"]))

    def show(self):
        return scripts.SHOW, KEYS[:5], (2,)

    def keep(self):
        return scripts.POLL_RENEW, KEYS[:1], (self.who()[1], 60000)

    def give_back(self):
        return scripts.POLL_RELEASE, KEYS[:1], (self.who()[1],)

    def gate(self):
        who = b"%d" % self.random.randrange(100)
        answered = [b"%d" % self.random.randrange(100)] * self.random.randrange(2)
        if self.random.random() < 0.5:
            what = self.random.choice([b"set", b"set", b"clear", b"clear", b"look", b"delete"])
            return scripts.EVENT, SIGNAL, (what, 90000, who, 5000, *answered)
        what = self.random.choice([b"count_down"] * 4 + [b"reset", b"look", b"delete"])
        return scripts.LATCH, SIGNAL, (what, 90000, who, 3, 1, 5000, *answered)

    def redisson(self):
        field, lock = b"a:%d" % self.random.randrange(3), self.random.choice([b"r"] * 6 + [LOCK])
        beside = [b"redisson_lock__channel:{%b}" % lock, b"{%b}~revoked" % lock]
        fenced = self.random.choice([[], [b"redisson_lock_token:{%b}" % lock]])
        undo = self.random.choice([(), (b"1",)])
        count = (field, self.random.choice([0, 0, 2]), b"PUBLISH", *undo)
        return self.random.choice([
            (scripts.REDISSON_ACQUIRE, [lock, *fenced], (field, 60000)),
            (scripts.REDISSON_COUNT, [lock, *beside], count),
            (scripts.REDISSON_RENEW, [lock], (1, field, 80000)),
            (scripts.REDISSON_LOOK, [lock], (HOME, 2, b"x", b"y")),
            (scripts.SHOW, [lock, *KEYS[1:5]], (2,)),
            (None, (), (b"HINCRBY", lock, field, 1)), (None, (), (b"HKEYS", lock)),
        ])  # fmt: skip

    def barrier(self):
        number = self.random.randrange(4)
        who, channel, head = b"w%d" % number, b"c%d" % number, (2, 90000, 5000)
        what = self.random.choice([b"pass", b"abort", b"reset", b"look", b"look", b"delete"])
        goes = self.random.choice([b"look", b"look", b"timeout", b"leave", b"abort"])
        full = self.random.choice([b"", b"", b"1700000000000000"])
        return self.random.choice([
            (scripts.BARRIER_ARRIVE, SIGNAL, (*head, who, channel, number % 2)),
            (scripts.BARRIER_CHECK, SIGNAL, (*head, goes, who, channel, full)),
            (scripts.BARRIER_CHANGE, SIGNAL, (*head, what, who)),
        ])  # fmt: skip

    def watch(self):
        kind, of = self.random.choice([(b"event", b""), (b"latch", b"3")])
        what = self.random.choice([b"wait", b"wait", b"leave"])
        words = [b"c0", b"", 0, b"c1", b"17", 0, b"", b"", 9]
        return scripts.EVENT_WAIT, SIGNAL, (kind, 90000, of, what, *words)

    def raw(self):
        key = self.random.choice(KEYS)
        member = self.random.choice([b"m", b"n", b"home", b"\xff\x00"])
        return None, (), self.random.choice([
            (b"DEL", LOCK), (b"DEL", key), (b"EXISTS", key), (b"TYPE", key), (b"PTTL", key),
            (b"SET", LOCK, b"foreign", b"NX", b"PX", 90000),
            (b"SET", b"s", member), (b"GET", key), (b"DEL", b"s"),
            (b"HSET", b"h", member, b"1"), (b"HSET", b"h", member), (b"HGET", b"h", member),
            (b"HDEL", b"h", member), (b"HLEN", b"h"), (b"TYPE", b"h"), (b"HGET", key, member),
            (b"ZADD", b"z", b"NX", self.random.randrange(9), member),
            (b"ZADD", b"z", b"2.5", member), (b"ZREM", b"z", member), (b"ZRANK", b"z", member),
            (b"ZRANGE", b"z", self.random.randrange(-4, 4), self.random.randrange(-4, 4)),
            (b"ZRANGE", b"z", 0, -1, b"WITHSCORES"), (b"ZPOPMIN", b"z"), (b"ZSCORE", b"z", member),
            (b"ZCARD", b"z"), (b"ZREMRANGEBYSCORE", b"z", b"-inf", self.random.randrange(9)),
            (b"SADD", b"t", member), (b"SREM", b"t", member), (b"SCARD", b"t"), (b"SCARD", key),
            (b"SMEMBERS", b"one"),
            (b"PEXPIRE", b"z", 90000), (b"PEXPIRE", b"z", 0), (b"SET", QUEUE, b"x"), (b"GET",),
            (b"SETNX", b"s", member), (b"SETNX", key, b"x"), (b"GETSET", b"s", member),
            (b"GETSET", b"z", member), (b"EXPIRE", b"s", 90), (b"EXPIRE", b"s", b"x"),
            (b"SET", b"s", member, b"EX", 90), (b"SET", b"s", member, b"NX", b"EX", 0),
        ])  # fmt: skip


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
        if self.random.random() < 0.1:
            return scripts.SHARES_LEAVE, KEYS, (self.who()[0], 60000)
        args = (self.who()[0], self.client_channel(), self.random.choice([0, 0, 1]))
        return scripts.SHARES_RELEASE, KEYS, args

    def abandon(self):
        args = (self.who()[0], self.random.choice([self.entry(), b""]), self.client_channel())
        return scripts.SHARES_ABANDON, KEYS[:5], args

    def alive(self):
        entries = [self.entry() for _ in range(self.random.randrange(4))]
        return scripts.SHARES_HEARTBEAT, KEYS[:5], (HOME, len(entries), *entries)

    def renew(self):
        return scripts.SHARES_RENEW, [LOCK, RECORD, HOLDS], (3, self.who()[0], 80000)

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


class Simulated:
    def __init__(self):
        self.heard = []
        self.space = Keyspace(publish=self.publish, listeners=self.listeners)
        self.programs = {each.name: Program(each.source, each.name) for each in scripts.ALL}

    def publish(self, channel, message):
        self.heard += [(channel, message)] * (channel in LISTENING)
        return self.listeners(channel)

    def listeners(self, channel):
        return int(channel in LISTENING)

    def run(self, script, keys, args):
        self.space.advance(0.0001)
        try:
            if script is None:
                return self.space.command(*args)
            return self.programs[script.name].run(self.space, keys, args)
        except CommandError as error:
            return ["error", error.code]


class Real:
    def __init__(self, server):
        self.server = server
        self.ear = socket.socket(socket.AF_UNIX)
        self.ear.settimeout(10)
        self.ear.connect(str(server.socket))
        self.lines = self.ear.makefile("rb")
        for channel in LISTENING:
            self.ear.sendall(b"*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%b\r\n" % (len(channel), channel))
            self.message()

    def run(self, script, keys, args):
        words = args if script is None else ("EVAL", script.source, len(keys), *keys, *args)
        try:
            return self.server.command(*words)
        except Refused as error:
            # Redis 6.2 wraps what happened in a script: "ERR Error running script …: WRONGTYPE …".
            return ["error", re.findall(r"\b(?:ERR|[A-Z]{6,})\b", str(error))[-1]]

    def heard(self, upto):
        """Return all messages until one that says ``upto``."""
        self.server.command("PUBLISH", HOME, upto)
        messages = []
        while (message := self.message())[1] != upto:
            messages.append(message)
        return messages

    def close(self):
        self.lines.close()
        self.ear.close()

    def message(self):
        count = int(self.lines.readline()[1:])
        parts = [self.part() for _ in range(count)]
        return parts[1], parts[2]

    def part(self):
        head = self.lines.readline()
        return self.lines.read(int(head[1:]) + 2)[:-2] if head[:1] == b"$" else head[1:-2]


def masked(reply):
    """Return a reply without what depends on the moment: instants, and spans by their order."""
    if isinstance(reply, (list, tuple)):
        return [masked(each) for each in reply]
    if isinstance(reply, bytes):
        reply = reply.decode(errors="surrogateescape")
    if isinstance(reply, str):
        return re.sub(r"\d{13,}", "T", reply)
    if isinstance(reply, int) and reply > 1000:
        return "T" if reply > 1e12 else round(reply / 10000)  # a run takes less than 5 s
    return reply


@pytest.fixture(scope="module", params=binaries(), ids=str)
def server(request):
    with Server(request.param) as server:
        yield server


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        (Sequence, range(1000)),
        (ShareSequence, range(500)),
        pytest.param(Sequence, range(1000, 4000), marks=pytest.mark.nightly),
        pytest.param(ShareSequence, range(500, 2000), marks=pytest.mark.nightly),
    ],
)
def test_scripts_and_commands_answer_as_on_a_real_server(server, kind, steps):
    simulated = Simulated()
    with contextlib.closing(Real(server)) as real:
        for seed in steps[::PER_EXAMPLE]:
            server.flushall()
            simulated.space.clear()
            simulated.heard.clear()
            sequence, log = kind(seed), []
            for _ in range(PER_EXAMPLE):
                request = sequence.one()
                replies = [masked(side.run(*request)) for side in (simulated, real)]
                log.append((request, replies))
                assert replies[0] == replies[1], log
            assert masked(simulated.heard) == masked(real.heard(b"end %d" % seed)), log


def test_replies_lose_what_redis_loses(server):
    source = b"return {1.9, -1.9, true, false, {ok = 'fine'}, 'x', nil, 3}"
    expected = [1, -1, 1, None, b"fine", b"x"]
    assert Program(source).run(Keyspace()) == expected
    assert masked(server.command("EVAL", source, 0)) == masked(expected)


def test_a_key_ends_when_the_clock_has_passed_its_instant():
    space = Keyspace(now_us=5_000_000)
    space.command(b"SET", b"k", b"v", b"PX", 10)
    space.advance(0.010)
    assert space.command(b"PTTL", b"k") == 0
    assert space.next_expiry_us() == 5_011_000
    space.advance(0.001)
    assert space.command(b"GET", b"k") is None
    assert space.freeze() == frozenset()


def test_a_frozen_keyspace_comes_back():
    space = Keyspace()
    space.command(b"SADD", b"s", b"a", b"b")
    space.command(b"SET", b"k", b"v", b"PX", 10)
    before = space.freeze()
    space.command(b"SREM", b"s", b"a", b"b")
    assert space.freeze() != before
    space.restore(before)
    assert space.command(b"SCARD", b"s") == 2


@pytest.mark.parametrize(
    "source", [b"x = 1", b"return y", b"return redis.call('NOPE')", b"redis.call('GET', {})"]
)
def test_a_wrong_script_fails(source):
    with pytest.raises(Exception, match=r"global|readonly|NOPE|arguments"):
        Program(source).run(Keyspace())


def test_pcall_gives_the_error_to_the_script():
    space = Keyspace()
    space.command(b"SADD", b"s", b"a")
    script = Program(b"local r = redis.pcall('GET', KEYS[1]) return {type(r), r.err}")
    kind, message = script.run(space, [b"s"])
    assert kind == b"table"
    assert message.startswith(b"WRONGTYPE")
