"""_io/connect.py: how a connection is opened, by a thread and by a task."""

import asyncio
import contextlib
import socket

import pytest

from fencelock import ServerUnreachable, ServerUnsuitable
from fencelock._core.types import NoReply
from fencelock._io import connect
from fencelock._io.connect import check_version, greet, open_socket
from fencelock._io.connection_asyncio import AsyncioSockets
from fencelock._io.connection_blocking import BlockingSockets
from fencelock._io.sources.url import Address
from fencelock._io.threads import run_inline
from fencelock._runtime.clock import now

SOON = 5.0
WAYS = {"threads": (run_inline, BlockingSockets()), "tasks": (asyncio.run, AsyncioSockets())}
both = pytest.mark.parametrize(("runs", "sockets"), WAYS.values(), ids=WAYS)


@contextlib.contextmanager
def listening():
    """Lend a port where connections are taken."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@both
def test_a_connection_sends_at_once_and_notices_a_host_that_is_gone(runs, sockets):
    with listening() as port:
        sock = runs(open_socket(sockets, Address("127.0.0.1", port), now() + SOON))
        with sock:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@both
def test_the_next_address_of_a_name_is_tried(runs, sockets, monkeypatch):
    with listening() as port, listening() as gone:
        places = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", where))
            for where in (1, port, gone)
        ]
        monkeypatch.setattr(connect, "numeric", lambda _: places)
        sock = runs(open_socket(sockets, Address("several"), now() + SOON))
        with sock:
            assert sock.getpeername()[1] == port


class Slow:
    """Sockets to addresses of which only the last one answers."""

    def __init__(self, answers):
        self._answers = answers
        self.begun = []

    def begin(self, sock, where):
        sock.connect(self._answers)
        self.begun.append(where)
        return where

    async def ended(self, dials, _seconds):
        return [(sock, None) for sock, where in dials.items() if where == self._answers]

    def stop(self, sock, _dial):
        sock.close()


def test_a_silent_address_holds_up_no_other_and_what_worked_is_tried_first(monkeypatch):
    """All are begun while none has answered; none is waited for to its end."""
    monkeypatch.setattr(connect, "worked", {})
    with listening() as port:
        good = ("127.0.0.1", port)
        places = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", each) for each in ("a", "b", good)]
        monkeypatch.setattr(connect, "numeric", lambda _: [*places])
        for wanted in (["a", "b", good], [good]):
            sockets = Slow(good)
            run_inline(open_socket(sockets, Address("several"), now() + SOON)).close()
            assert sockets.begun == wanted


@both
def test_a_port_where_no_server_listens_is_reported(runs, sockets):
    address = Address("127.0.0.1", 1)
    with pytest.raises(ServerUnreachable, match="cannot connect"):
        runs(open_socket(sockets, address, now() + SOON))


@both
def test_an_address_for_which_no_time_is_left_does_not_answer(runs, sockets):
    """As found: that the name has no address, which nobody asks again."""
    with pytest.raises(NoReply, match="does not answer"):
        runs(open_socket(sockets, Address("127.0.0.1", 1), now() - 1))


class Greeted:
    """A server's end: what it answers to each command."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    async def command(self, args, until):
        self.asked.append(args[0])
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_a_greeting_is_refused_by_an_old_server_before_anything_else_is_asked():
    server = Greeted({b"server": b"redis", b"version": b"6.0.16"})
    with pytest.raises(ServerUnsuitable):
        run_inline(greet(server.command, [(b"HELLO", b"3"), (b"SELECT", b"1")], "here", now()))
    assert server.asked == [b"HELLO"]


def test_a_greeting_without_answer_says_where():
    server = Greeted({}, NoReply("no answer in time", sent=True))
    with pytest.raises(NoReply, match="here") as raised:
        run_inline(greet(server.command, [(b"HELLO", b"3"), (b"SELECT", b"1")], "here", now()))
    assert not raised.value.sent


@pytest.mark.parametrize("hello", [[], {}, {b"server": b"valkey", b"version": b"7.2.0"}])
def test_a_server_that_is_new_enough_or_does_not_say_is_taken(hello):
    check_version(hello)
