"""_topology/master_monitor.py: rounds of questions, and what may be believed of a connection."""

import asyncio
import contextlib
import socket
import weakref
from functools import partial
from math import inf

import pytest

from fencelock._core.types import NoReply
from fencelock._io.sentinel_asyncio import AsyncioDialer, AsyncMasterConnection
from fencelock._io.sentinel_blocking import BlockingDialer, MasterConnection
from fencelock._io.sources.sentinel import from_url
from fencelock._io.threads import run_inline
from fencelock._runtime.clock import now
from fencelock._topology.master_monitor import MasterGuard, MasterMonitor, Round, to_sentinels
from fencelock._topology.sentinel import (
    FRESH_SECONDS,
    GRACE_SECONDS,
    REPLACING_SECONDS,
    SENTINEL_SECONDS,
    SLOW_SECONDS,
    SUSPECT_SECONDS,
    MasterState,
    SentinelReply,
    proof_since,
)
from fencelock.errors import ServerUnreachable, ServerUnsuitable

SERVICE = from_url("redis+sentinel://a,b,c/s", asynchronous=False)
OLD, NEW = SentinelReply(1, "10.0.0.1", 6379), SentinelReply(2, "10.0.0.2", 6379)
QUICK, SLOW, LATE = 0.001, SENTINEL_SECONDS - 0.01, SENTINEL_SECONDS + 1.0
SILENT = (inf, None)
# What Sentinels find of the master when a round counts for so long.
FLAGS = {
    FRESH_SECONDS: b"master",
    SUSPECT_SECONDS: b"master,s_down",
    REPLACING_SECONDS: b"master,o_down",
}
LONG = 10.0


class Flag:
    """A latch whose waiters let time pass until it opens."""

    def __init__(self, io):
        self.io, self.is_open = io, False

    def open(self):
        self.is_open = True

    async def wait_until(self, until):
        while not self.is_open and self.io.step(until):
            pass
        return self.is_open


class Conversation:
    """A connection to one Sentinel."""

    def __init__(self, reply):
        self.reply = reply

    def close(self):
        pass


class Sentinels:
    """A ``MasterIo`` with a clock of its own; each Sentinel answers after so many seconds.

    ``answers``: seconds, and a reply or an error, of each.
    """

    def __init__(self, *answers, threads=True):
        self.answers = answers
        self.clock = 100.0
        self.asked = 0
        self.threads = threads
        self.saying = answers
        self.events = []

    def now(self):
        return self.clock

    def mutex(self):
        return contextlib.nullcontext()

    def latch(self):
        return Flag(self)

    def spawn(self, flow, name):
        assert name == "fencelock-sentinel"
        delay, _ = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        self.events.append((self.clock + delay, self.asked, flow, self.answers))
        return self.threads

    async def dial(self, source, until, pushed, guard=None):
        answer = self.saying[SERVICE.sentinels.index(source)][1]
        if isinstance(answer, Exception):
            raise answer
        return Conversation(answer)

    async def commands(self, connection, several, until):
        return [await self.command(connection, each, until) for each in several]

    async def command(self, connection, args, until):
        said = connection.reply
        if args[1] != b"MASTER":
            return [said.host.encode(), b"%d" % said.port]
        flags = FLAGS[said.fresh_for]
        return {b"config-epoch": b"%d" % said.epoch, b"flags": flags}

    def step(self, until):
        """Go on to the next answer; at ``until`` return False."""
        due = min(self.events, default=(inf,))
        if due[0] > until:
            self.clock = max(self.clock, until)
            return False
        self.events.remove(due)
        self.clock, self.saying = max(self.clock, due[0]), due[3]
        run_inline(due[2]())
        return True

    def pass_to(self, until):
        while self.step(until):
            pass


def monitored(*answers, **more):
    """Return Sentinels that answer so, and what follows their master."""
    io = Sentinels(*answers, **more)
    return io, MasterMonitor(SERVICE, io)


# --- a round of questions -------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [True, False])
def test_a_round_that_no_thread_can_ask_is_over_at_once(threads):
    io = Sentinels(SILENT, SILENT, SILENT, threads=threads)
    current = Round(SERVICE, MasterState(SERVICE), io, to_sentinels(SERVICE))
    current.ask()
    assert current.is_over is not threads


def test_callers_that_need_a_round_at_once_share_it():
    io, monitor = monitored(*[(QUICK, OLD)] * 3)
    for _ in range(3):
        run_inline(monitor.refresh(100.0, 100.0 + LONG))
    assert (io.asked, monitor.state.asked_at) == (3, 100.0)
    run_inline(monitor.refresh(io.clock, io.clock + LONG))
    assert io.asked == 6


def test_one_that_needs_a_later_round_waits_for_the_end_of_this_one():
    io, monitor = monitored(*[(0.3, OLD)] * 3)
    run_inline(monitor.refresh(100.0, 100.1))
    run_inline(monitor.refresh(100.05, 100.0 + LONG))
    assert io.asked == 6
    assert monitor.state.asked_at == pytest.approx(100.3)


def test_once_most_have_answered_the_others_have_their_grace():
    io, monitor = monitored((QUICK, OLD), (QUICK, OLD), SILENT)
    run_inline(monitor.refresh(100.0, 100.0 + LONG))
    assert io.clock == pytest.approx(100.0 + QUICK + GRACE_SECONDS)
    assert monitor.state.silent == {2}


def test_a_round_ends_although_its_callers_have_left():
    """A call with little time waits for a part of it only. The next one need not ask anew."""
    io, monitor = monitored((QUICK, OLD), (QUICK, OLD), SILENT)
    run_inline(monitor.refresh(100.0, 100.0 + GRACE_SECONDS / 2))
    assert monitor.state.asked_at < 100.0
    io.pass_to(100.0 + SENTINEL_SECONDS)
    run_inline(monitor.refresh(100.0, 100.0 + LONG))
    assert (io.asked, monitor.state.asked_at) == (3, 100.0)


def test_a_round_without_any_reply_is_over_when_all_questions_are():
    """Sentinels that hang up have answered for this round, though they are not heard of."""
    io, monitor = monitored(*[(QUICK, NoReply("hung up", sent=True))] * 3)
    run_inline(monitor.refresh(100.0, 100.0 + LONG))
    assert io.clock == pytest.approx(100.0 + QUICK)
    assert monitor.state.asked_at == 100.0


def test_an_answer_that_comes_after_its_round_counts():
    io, monitor = monitored(
        (QUICK, OLD), (QUICK, OLD), (LATE, NEW._replace(fresh_for=SUSPECT_SECONDS))
    )
    run_inline(monitor.refresh(100.0, 100.0 + LONG))
    assert monitor.state.reply == OLD
    io.pass_to(100.0 + LATE)
    assert monitor.state.reply == NEW._replace(fresh_for=SUSPECT_SECONDS)
    assert not monitor.state.silent
    answered_at = 100.0 + SUSPECT_SECONDS + QUICK
    assert proof_since(answered_at, answered_at, monitor.state.fresh_for) > 100.0


def test_a_sentinel_that_was_silent_before_is_not_waited_for():
    io, monitor = monitored((QUICK, OLD), (QUICK, OLD), SILENT)
    run_inline(monitor.refresh(100.0, 100.0 + LONG))
    began = io.clock
    run_inline(monitor.refresh(began, began + LONG))
    assert io.clock == pytest.approx(began + QUICK)


def test_what_sentinels_refuse_is_reported():
    io, monitor = monitored((QUICK, ServerUnsuitable("no Sentinel")), *[SILENT] * 2)
    with pytest.raises(ServerUnreachable, match="no Sentinel"):
        run_inline(monitor.connect(100.0 + LONG, None))
    assert io.clock == pytest.approx(100.0 + SENTINEL_SECONDS)


# --- what counts ----------------------------------------------------------------------------------


def guarded(*answers, heard=OLD):
    """Return Sentinels, their monitor after a round that said ``heard``, and a guard of then."""
    io, monitor = monitored(*answers)
    monitor.state.learn([heard], io.clock)
    monitor.state.end_round(io.clock, [heard] * 3)
    guard = MasterGuard(monitor, monitor.state.generation)
    guard.greeting = False
    return io, monitor, guard


def test_an_answer_of_a_master_that_was_replaced_does_not_count():
    io, _, guard = guarded(*[(QUICK, NEW)] * 3)
    asked_at = io.clock + FRESH_SECONDS
    io.clock = asked_at + QUICK
    assert not guard.counts(asked_at)
    with pytest.raises(NoReply) as raised:
        run_inline(guard.prove(asked_at, asked_at + LONG))
    assert raised.value.sent
    assert guard.is_replaced


def test_a_slow_answer_is_not_proved_by_a_round_that_was_under_way():
    io, monitor, guard = guarded(*[(0.2, OLD)] * 3)
    asked_at = io.clock
    io.clock += SLOW_SECONDS + QUICK
    run_inline(monitor.refresh(io.clock, io.clock))  # begins a round, and leaves
    began, io.clock = io.clock, io.clock + 0.1
    assert not guard.counts(asked_at)
    answered_at = io.clock
    run_inline(guard.prove(asked_at, io.clock + LONG))
    assert monitor.state.asked_at >= answered_at > began


def test_silent_sentinels_leave_a_call_half_of_its_time():
    io, _, guard = guarded(*[SILENT] * 3)
    io.clock += FRESH_SECONDS + QUICK
    began = io.clock
    with pytest.raises(NoReply):
        run_inline(guard.prove(io.clock, io.clock + 0.4))
    assert io.clock == pytest.approx(began + 0.2)


@pytest.mark.parametrize("silent", [False, True])
def test_an_answer_is_not_believed_for_want_of_time(silent):
    """Only where no Sentinel answered in the last round, either."""
    io, monitor, guard = guarded(*[(SLOW, NEW)] * 3)
    if silent:
        monitor.state.end_round(io.clock, [None] * 3)
    io.clock += FRESH_SECONDS + QUICK
    with contextlib.nullcontext() if silent else pytest.raises(NoReply):
        run_inline(guard.prove(io.clock, io.clock + 0.3))


def test_a_call_without_time_does_not_wait_for_a_sentinel_that_has_just_gone():
    io, _, guard = guarded((QUICK, OLD), (QUICK, OLD), SILENT)
    io.clock += FRESH_SECONDS + QUICK
    run_inline(guard.prove(io.clock, io.clock))
    assert io.clock < 101.0 + GRACE_SECONDS


def test_an_answer_is_not_proved_by_a_round_that_finds_a_failover_under_way():
    """It began before the answer: that would do if it had found nothing."""
    replacing = OLD._replace(fresh_for=REPLACING_SECONDS)
    io, monitor, guard = guarded(*[(0.2, replacing)] * 3)
    io.clock += FRESH_SECONDS + QUICK
    run_inline(monitor.refresh(io.clock, io.clock))  # begins a round, and leaves
    io.clock += QUICK
    answered_at = io.clock
    run_inline(guard.prove(answered_at, answered_at + LONG))
    assert monitor.state.asked_at >= answered_at


def test_a_push_waits_for_sentinels_that_are_slow():
    io, _, guard = guarded(*[(SLOW, NEW)] * 3)
    io.clock += FRESH_SECONDS + QUICK
    heard = []
    proving = guard.take([b"granted"], heard.append, inf)
    with pytest.raises(NoReply):
        run_inline(proving())
    assert not heard


@pytest.mark.refcounts
def test_pushes_that_do_not_count_are_not_kept():
    """They know their connection, which would live on with its socket."""
    io, _, guard = guarded(*[(QUICK, NEW)] * 3)
    io.clock += FRESH_SECONDS + QUICK
    connection = Conversation(None)
    kept = weakref.ref(connection)
    proving = guard.take([b"1"], partial(print, connection), inf)
    assert guard.take([b"2"], partial(print, connection), inf) is None
    del connection
    with pytest.raises(NoReply):
        run_inline(proving())
    assert kept() is None


def test_pushes_are_delivered_in_order_behind_the_one_that_waits():
    io, monitor, guard = guarded(*[(0.2, OLD)] * 3)
    heard = []
    assert guard.take([b"1"], heard.append, inf) is None
    io.clock += FRESH_SECONDS + QUICK
    proving = guard.take([b"2"], heard.append, inf)
    monitor.state.end_round(io.clock, [OLD] * 3)
    assert guard.take([b"3"], heard.append, inf) is None
    assert heard == [[b"1"]]
    run_inline(proving())
    assert heard == [[b"1"], [b"2"], [b"3"]]


def test_a_push_that_came_later_needs_a_later_proof():
    """One question for the first of them is too old for the last while something is wrong."""
    ill = OLD._replace(fresh_for=SUSPECT_SECONDS)
    io, _, guard = guarded(*[(0.2, ill)] * 3, heard=ill)
    io.clock += SUSPECT_SECONDS + QUICK
    heard = []
    proving = guard.take([b"1"], heard.append, inf)
    io.events.append((io.clock + 0.19, 0, lambda: _later(io, guard, heard), io.answers))
    with pytest.raises(NoReply):
        run_inline(proving())
    assert heard == [[b"1"]]


async def _later(io, guard, heard):
    """Hear another push, when the Sentinels name another master by now."""
    assert guard.take([b"2"], heard.append, inf) is None
    io.answers = [(QUICK, NEW)] * 3


# --- the connections of threads and tasks ---------------------------------------------------------


def connected(guard):
    """Return a thread's connection and its server's end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    return MasterConnection(ours, lambda *_: None, guard=guard), theirs


def real_guard():
    """Return the guard of a connection to the master of the moment, by the real clock."""
    monitor = MasterMonitor(SERVICE, BlockingDialer())
    monitor.state.learn([OLD], now())
    monitor.state.end_round(now() + LONG, [OLD] * 3)
    guard = MasterGuard(monitor, monitor.state.generation)
    guard.greeting = False
    return guard, monitor.state


def test_an_idle_connection_to_a_master_that_was_replaced_is_not_used_again():
    guard, state = real_guard()
    connection, theirs = connected(guard)
    with theirs, contextlib.closing(connection):
        assert connection.settle()
        state.learn([NEW], now())
        assert not connection.settle()
        assert not connection.sound


def test_a_threads_connection_to_a_master_that_was_replaced_is_asked_nothing():
    guard, state = real_guard()
    connection, theirs = connected(guard)
    state.learn([NEW], now())
    with theirs, contextlib.closing(connection):
        with pytest.raises(NoReply) as raised:
            connection.command((b"PING",), now() + LONG)
        assert not raised.value.sent
        assert not connection.sound
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@pytest.mark.parametrize("answer", [b":1\r\n", b"-WRONGTYPE x\r\n", b"-READONLY x\r\n"])
@pytest.mark.parametrize("replaced", [False, True])
def test_an_answer_of_a_replaced_master_ends_its_connection(answer, replaced):
    guard, state = real_guard()
    connection, theirs = connected(guard)
    with theirs, contextlib.closing(connection):
        connection.send(b"x")
        theirs.sendall(answer)
        state.learn([NEW if replaced else OLD], now())
        counts = not (replaced or b"READONLY" in answer)
        with contextlib.nullcontext() if counts else pytest.raises(NoReply):
            connection.answer(now() + LONG)
        assert connection.owed == 0
        assert connection.sound is counts


def test_a_loops_connection_to_a_master_that_was_replaced_is_asked_nothing():
    async def scene():
        guard, state = real_guard()
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        theirs.setblocking(False)
        mux = AsyncMasterConnection(
            loop, lambda _: None, LONG, guard=guard, io=AsyncioDialer(stall=LONG)
        )
        await loop.create_unix_connection(lambda: mux, sock=ours)
        state.learn([NEW], now())
        with theirs, pytest.raises(NoReply) as raised:
            await mux.command((b"PING",), now() + LONG)
        assert not raised.value.sent
        assert not mux.sound
        mux.close()
        await asyncio.sleep(0)

    asyncio.run(scene())


def test_a_clean_up_behind_a_silent_connection_counts_only_if_its_master_is_one():
    """The old master's answer says nothing about the new one's keys."""

    async def scene():
        guard, state = real_guard()
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        io = AsyncioDialer(stall=LONG)
        mux = AsyncMasterConnection(loop, lambda _: None, LONG, guard=guard, io=io)
        await loop.create_unix_connection(lambda: mux, sock=ours)
        with theirs:
            asked = mux.request(b"x", now() + LONG)
            mux.retire()
            cleaned = mux.behind(b"y", now() + LONG)
            state.learn([NEW], now())
            theirs.sendall(b":1\r\n:1\r\n")
            for each in (asked, cleaned):
                with pytest.raises(NoReply):
                    await each
        mux.close()
        await io.end()
        await asyncio.sleep(0)

    asyncio.run(scene())
