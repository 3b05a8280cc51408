"""_transport/sentinel_dial.py: a round that cannot be asked, and an answer of an old master."""

import socket
from types import SimpleNamespace

import pytest

from fencelock._core.types import Broken
from fencelock._transport import sentinel_dial
from fencelock._transport.sentinel import Known, Word
from fencelock._transport.sentinel_dial import Round, WatchedConnection
from fencelock._transport.sentinel_source import from_url
from fencelock.clock import now
from fencelock.mutex import mutex

SOURCE = from_url("redis+sentinel://a,b,c/s", asynchronous=False)
SOON = 10.0


@pytest.mark.parametrize("trouble", [None, RuntimeError("can't start new thread")])
def test_a_round_that_no_thread_can_ask_is_over_at_once(monkeypatch, trouble):
    monkeypatch.setattr(sentinel_dial, "started", lambda _: trouble)
    current = Round(SOURCE, Known(SOURCE), mutex())
    current._ends = current.began + SOON
    current.ask()
    assert current.over is (trouble is not None)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_connection_to_a_master_that_was_replaced_is_used_for_nothing_more(replaced):
    known = Known(SOURCE)
    known.learn([Word(1, "10.0.0.1", 6379)], now())
    known.end_round(now() + SOON, [Word(1, "10.0.0.1", 6379)] * 3)
    ours, theirs = socket.socketpair()
    watch = SimpleNamespace(known=known)
    connection = WatchedConnection(ours, lambda *_: None, watch, known.term - replaced)
    connection.greeting = False
    if replaced:
        with pytest.raises(Broken):
            connection.prove(now(), now() + SOON)
    else:
        connection.prove(now(), now() + SOON)
    assert connection.sound is not replaced
    connection.close()
    theirs.close()
