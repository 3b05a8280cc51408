"""What is pushed: all that one read brings is heard, and what does not parse is ignored."""

import logging
import socket

import pytest

from fencelock._core.lock.waiting import Lines
from fencelock._core.pushes import dispatch
from fencelock._io.connection_blocking import Connection

WAKE = 0.0


def push(payload):
    """One push message in wire form."""
    words = (b"message", b"home", payload)
    return b">3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in words)


@pytest.fixture
def wired():
    """Lend a connection, the server's end of it, and what the connection heard."""
    ours, theirs = socket.socketpair()
    heard = []
    connection = Connection(ours, lambda _, message: heard.append(message[2]))
    yield connection, theirs, heard
    connection.close()
    theirs.close()


def test_all_pushes_of_one_packet_are_heard(wired):
    connection, theirs, heard = wired
    theirs.sendall(b"".join(push(b"%d" % number) for number in range(5)))
    assert connection.settle()
    assert heard == [b"0", b"1", b"2", b"3", b"4"]


def test_half_a_push_is_heard_when_the_rest_comes(wired):
    connection, theirs, heard = wired
    whole = push(b"0") + push(b"1")
    theirs.sendall(whole[:-4])
    assert connection.settle()
    assert heard == [b"0"]
    theirs.sendall(whole[-4:])
    assert connection.settle()
    assert heard == [b"0", b"1"]


def test_a_push_behind_an_answer_is_heard_without_another_packet(wired):
    connection, theirs, heard = wired
    theirs.sendall(b"+OK\r\n" + push(b"0") + push(b"1"))
    assert connection.command((b"PING",), WAKE) == b"OK"
    wake, other = socket.socketpair()
    assert not connection.readable(wake.fileno(), 0)
    wake.close()
    other.close()
    assert heard == [b"0", b"1"]


def test_an_answer_that_nobody_asked_for_ends_the_connection(wired):
    connection, theirs, heard = wired
    theirs.sendall(push(b"0") + b"+OK\r\n" + push(b"1"))
    assert not connection.settle()
    assert heard == [b"0"]


class _Port:
    """As much of a port as ``dispatch`` asks for."""

    def __init__(self):
        self.lines = Lines()


MALFORMED = (
    *(b"", b" ", b"granted", b"granted ", b"granted a", b"granted a 1 2", b"granted a 1 2 3 4"),
    *(b"granted a one 2 3", b"granted a 1 2 -3", b"granted a 1 2 " + b"9" * 5000),
    *(b"signal", b"signal ", b"signal 1", b"signal 1 open", b"signal one open key"),
    *(b"inside", b"inside a", b"inside a []x", b"inside? a b", b"inside? ", b"probe a {}"),
    *(b"inside a [[1]]", b'inside a [["a","{}",-1.0,true]]', b'inside a [["a","{}",1.0,1]]'),
    *(b'inside a [["a","{}",Infinity,true]]', b"inside a " + b"[" * 5000),
    *(b"signal 1 \xff key", b"revoked", b"revoked ", b"\xff\xfe", b"anything else"),
)


@pytest.mark.parametrize("payload", MALFORMED, ids=lambda each: ascii(each)[:30])
def test_what_does_not_parse_is_ignored(payload):
    port, asked = _Port(), []
    assert dispatch(port, (b"message", b"home", payload), asked.append) is None
    assert asked in ([], [b""])


@pytest.mark.parametrize(
    "message", [(), (b"message",), (b"message", b"home"), (b"x", None)], ids=repr
)
def test_a_push_of_another_form_is_ignored(message):
    assert dispatch(_Port(), message, lambda _: None) is None


def test_what_does_not_parse_is_logged_once(caplog):
    port = _Port()
    with caplog.at_level(logging.WARNING, "fencelock"):
        for payload in MALFORMED:
            dispatch(port, (b"message", b"home", payload), lambda _: None)
    assert len(caplog.records) == 1
    assert "home" in caplog.text
