"""_io/connection_blocking.py: what one call costs the kernel."""

import socket

import pytest

from fencelock import ServerUnsuitable
from fencelock._io.connection_blocking import Connection
from fencelock._runtime.clock import now

SOON = 10.0


class Counting(socket.socket):
    """A socket that counts the options that are set; it is a plain one else."""

    options = 0

    def setsockopt(self, *how):
        self.options += 1
        return super().setsockopt(*how)


Counting.__module__ = "socket"


def test_the_timeout_of_the_kernel_is_set_once():
    near, theirs = socket.socketpair()
    ours = Counting(fileno=near.detach())
    connection = Connection(ours, lambda *_: None)
    for _ in range(3):
        theirs.sendall(b"+OK\r\n")
        assert connection.command((b"PING",), now() + SOON) == b"OK"
    assert ours.options == 1
    connection.close()
    theirs.close()


def used(pushed=lambda *_: None):
    """Return a connection that was used before, and the server's socket; a request is under way."""
    near, theirs = socket.socketpair()
    ours = Counting(fileno=near.detach())
    connection = Connection(ours, lambda _, message: pushed(message))
    theirs.sendall(b"+OK\r\n")
    connection.command((b"PING",), now() + SOON)
    connection.send(b"asked")
    return connection, theirs


def test_pushes_before_an_answer_are_heard_and_it_is_not_left_behind_them():
    """What was read already wakes no poll."""
    heard = []
    connection, theirs = used(heard.append)
    push = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%b\r\n"
    theirs.sendall(push % (1, b"a") + push % (1, b"b") + b":1\r\n")
    assert connection.prompt() == 1
    assert [message[2] for message in heard] == [b"a", b"b"]
    theirs.close()
    connection.close()


def test_a_call_hears_pushes_before_its_answer_and_a_refusal_is_an_answer():
    heard = []
    connection, theirs = used(heard.append)
    theirs.sendall(b":1\r\n")
    assert connection.answer(now() + SOON) == 1
    theirs.sendall(b">2\r\n$4\r\nnews\r\n$1\r\na\r\n-WRONGTYPE no lock\r\n")
    with pytest.raises(ServerUnsuitable):
        connection.command((b"PING",), now() + SOON)
    assert heard == [[b"news", b"a"]]
    assert (connection.owed, connection.sound) == (0, True)
    theirs.close()
    connection.close()
