"""_io/sentinel_*.py: what may be believed of a connection to a master, by threads and by a loop."""

import asyncio
import contextlib
import socket

import pytest

from fencelock._core.types import NoReply
from fencelock._io.sentinel_asyncio import AsyncioDialer, AsyncMasterConnection
from fencelock._io.sentinel_blocking import BlockingDialer, MasterConnection
from fencelock._io.sources.sentinel import from_url
from fencelock._runtime.clock import now
from fencelock._topology.master_monitor import MasterGuard, MasterMonitor
from fencelock._topology.sentinel import (
    SentinelReply,
)

SERVICE = from_url("redis+sentinel://a,b,c/s", asynchronous=False)
OLD, NEW = SentinelReply(1, "10.0.0.1", 6379), SentinelReply(2, "10.0.0.2", 6379)
LONG = 10.0


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
