"""_io/cleanup_queue.py: what is sent behind a request, on its own connection."""

from types import SimpleNamespace

import pytest

from fencelock._core.types import NoReply
from fencelock._io.cleanup_queue import CleanupQueue, _answered, _sent_behind
from fencelock._io.wire import ReplyError
from fencelock.scripts import RELEASE


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
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.closed = True

    def send(self, message):
        if self.trouble is not None:
            raise self.trouble
        self.sent.append(message)


def test_a_connection_with_an_undo_behind_its_request_is_for_nothing_else():
    undo_connection = Trail()
    assert _sent_behind(undo_connection, RELEASE, [b"key"], [b"holder"]) is True
    assert len(undo_connection.sent) == 1
    assert (undo_connection.sound, undo_connection.undoing) == (False, True)


@pytest.mark.parametrize("trouble", [NoReply("gone", sent=True), OSError("gone")])
def test_an_undo_that_cannot_go_behind_its_request_goes_another_way(trouble):
    undo_connection = Trail(trouble)
    assert _sent_behind(undo_connection, RELEASE, [b"key"], [b"holder"]) is False
    assert undo_connection.sound is False


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
