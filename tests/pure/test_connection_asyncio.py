"""_io/connection_asyncio.py: when a connection is looked at again while answers are owed."""

import asyncio
import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from fencelock._core.types import Demoted, NoReply
from fencelock._io import connection_asyncio as module
from fencelock._io.connect import refusal
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._runtime.clock import now

STALL = 500.0


@asynccontextmanager
async def connected():
    """Yield a connection, and the server's end of it."""
    loop = asyncio.get_running_loop()
    ours, server = socket.socketpair()
    with server:
        _, mux = await loop.create_connection(
            lambda: AsyncConnection(loop, lambda _: None, stall=STALL), sock=ours
        )
        yield mux, server


def test_a_quiet_connection_sends_at_once_and_what_a_turn_adds_together():
    async def run():
        mux, sent = AsyncConnection(asyncio.get_running_loop(), lambda _: None, stall=STALL), []
        mux.sound, mux._transport = True, SimpleNamespace(write=sent.append, is_closing=bool)
        asked = [mux.request(each, now() + STALL) for each in (b"1", b"2", b"3")]
        assert sent == [b"1"]
        await asyncio.sleep(0)
        assert sent == [b"1", b"23"]
        mux._watch.cancel()
        for each in asked:
            each.cancel()

    asyncio.run(run())


def test_an_answer_that_a_busy_loop_has_not_read_counts():
    """As found: of thousands of requests, those with answers beyond the first read failed."""

    async def run():
        async with connected() as (mux, server):
            time_is_up = now() + 0.05
            asked = [mux.request(b"ask", time_is_up) for _ in range(2)]
            answer = b"a" * module.READ_BYTES  # more than one read
            server.sendall(b"+%s\r\n" % answer * 2)
            while now() < time_is_up:  # another task does not give way
                pass
            assert await asyncio.gather(*asked) == [answer, answer]
            mux.close()

    asyncio.run(run())


def test_a_replicas_refusal_replaces_a_connection_and_cuts_nothing_that_is_under_way():
    """What comes next goes elsewhere; the others get answers of their own, then it is closed."""

    async def run():
        async with connected() as (mux, server):
            refused, other = (mux.request(b"ask", now() + STALL) for _ in range(2))
            server.sendall(b"-READONLY You can't write against a read only replica.\r\n")
            error = refusal(mux.error_of(await refused), mastered=True)
            assert isinstance(error, Demoted)
            assert (mux.sound, mux.open, other.done()) == (False, True, False)
            assert mux.closed.done()
            server.sendall(b"+OK\r\n")
            assert await other == b"OK"
            assert not mux.open

    asyncio.run(run())


@pytest.mark.parametrize("push", [b">2\r\n:1\r\n+x\r\n", b">0\r\n", b">1\r\n_\r\n"])
def test_a_push_that_does_not_begin_with_a_word_changes_nothing(push):
    """As found: the loop closed the connection, with a traceback."""

    async def run():
        async with connected() as (mux, server):
            asked = [mux.leave(b"x", now() + STALL), mux.request(b"ask", now() + STALL)]
            server.sendall(push + b">3\r\n+sunsubscribe\r\n+x\r\n:0\r\n+OK\r\n")
            assert (await asked[0])[0] == b"sunsubscribe"
            assert await asked[1] == b"OK"
            mux.close()

    asyncio.run(run())


def test_bytes_that_are_no_answer_are_what_the_error_says(caplog):
    """As in threads, and no line of the log for each try: it may be the port of a web server."""

    async def run():
        async with connected() as (mux, server):
            server.sendall(b"<html>")
            with pytest.raises(NoReply, match="no Redis or Valkey server"):
                await mux.request(b"ask", now() + STALL)

    asyncio.run(run())
    assert not caplog.records
