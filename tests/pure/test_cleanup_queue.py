"""_io/cleanup_queue.py: what is sent behind a request, on its own connection."""

import threading
from types import SimpleNamespace

import pytest

from fencelock._core.types import NoReply
from fencelock._io import cleanup_queue
from fencelock._io.cleanup_queue import (
    WAITING_MAX,
    WORKERS_MAX,
    CleanupQueue,
    _answered,
)
from fencelock._io.wire import ReplyError
from fencelock.scripts import RELEASE
from tests.waiting import until


class Trail(SimpleNamespace):
    """A connection on which answers are owed."""

    def __init__(self, trouble=None, answers=()):
        super().__init__(sound=True, undoing=False, closed=False, sent=[], trouble=trouble)
        self.answers = list(answers)

    @property
    def owed(self):
        return len(self.answers)

    def answer(self, _until):
        answer = self.answers.pop(0)
        if isinstance(answer, NoReply):
            raise answer
        return answer

    def close(self):
        self.closed = True

    def send(self, message):
        if self.trouble is not None:
            raise self.trouble
        self.sent.append(message)


def test_an_undo_goes_out_on_the_connection_of_its_request(monkeypatch):
    """On another one it could come first, and then the request would take what it gave back."""
    posts = CleanupQueue(lambda: None)
    monkeypatch.setattr(posts, "_see_to_it", lambda: None)
    sound, broken = Trail(), Trail(OSError("gone"))
    posts.add(RELEASE, [b"key"], [b"holder"], sound)
    posts.add(RELEASE, [b"key"], [b"holder"], broken)
    first, second = posts._next(), posts._next()
    assert (first.undo_connection, broken.sent) == (None, []), "what was not sent yet comes first"
    assert (second.undo_connection, len(sound.sent)) == (sound, 1)


class Silent(Trail):
    """A connection that owes an answer, and gives none until the end of the test."""

    def __init__(self):
        super().__init__(answers=[1])
        self.asked, self.ends = threading.Event(), threading.Event()

    def answer(self, until):
        self.asked.set()
        self.ends.wait(30)
        return super().answer(until)


class Port:
    """A port that notes what it delivers."""

    def __init__(self):
        self.delivered = []

    async def deliver(self, _script, keys, _args, _until):
        self.delivered.append(keys)

    def settles(self, _connection, _key, _asked_at):
        return True


def test_what_was_not_sent_does_not_wait_behind_answers_that_do_not_come():
    """As found: after five times Ctrl-C in a read, a release took two seconds."""
    port, silent = Port(), [Silent() for _ in range(2 * WORKERS_MAX)]
    queue = CleanupQueue(port)
    for each in silent:
        queue.add(RELEASE, [b"undone"], [b"holder"], each)
    until(lambda: sum(each.asked.is_set() for each in silent) == WAITING_MAX)
    queue.add(RELEASE, [b"released"], [b"holder"], None)
    until(lambda: port.delivered == [[b"released"]])
    assert sum(each.asked.is_set() for each in silent) == WAITING_MAX
    for each in silent:
        each.ends.set()
    until(lambda: all(each.closed for each in silent))
    until(lambda: not queue._workers)


REFUSED, NOT_NOW = ReplyError("WRONGTYPE no lock"), ReplyError("READONLY a replica")


@pytest.mark.parametrize(
    ("answers", "done"),
    [
        ([1, 1], True),
        ([NOT_NOW, 1], True),
        ([1, REFUSED], True),
        ([1, NOT_NOW], False),
        ([1, NoReply("gone", sent=True)], False),
    ],
)
def test_an_undo_that_did_not_run_is_sent_again_and_a_refused_one_is_not(answers, done):
    undo_connection = Trail(answers=answers)
    assert _answered(undo_connection, 1.0) is done
    assert undo_connection.closed


def test_an_error_that_is_none_of_a_server_ends_no_clean_up(monkeypatch):
    """I16: the others are sent, and this one again."""
    monkeypatch.setattr(cleanup_queue, "PAUSE_SECONDS", 0.01)
    port, broken = Port(), [MemoryError, SystemExit]

    class Broken(list):
        def append(self, keys):
            if keys == [b"first"] and broken:
                raise broken.pop()
            super().append(keys)

    port.delivered = sent = Broken()
    queue = CleanupQueue(port)
    for name in (b"first", b"second"):
        queue.add(RELEASE, [name], [b"holder"], None)
    until(lambda: sorted(sent) == [[b"first"], [b"second"]])
    until(lambda: not queue._workers)
