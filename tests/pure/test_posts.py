"""_ports/posts.py: what is sent behind a request, on its own connection."""

from types import SimpleNamespace

import pytest

from fencelock._core.types import Broken
from fencelock._ports.posts import Posts, _answered, _sent_behind
from fencelock._transport.wire import ReplyError
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
    trail = Trail()
    assert _sent_behind(trail, RELEASE, [b"key"], [b"holder"]) is True
    assert len(trail.sent) == 1
    assert (trail.sound, trail.undoing) == (False, True)


@pytest.mark.parametrize("trouble", [Broken("gone", sent=True), OSError("gone")])
def test_an_undo_that_cannot_go_behind_its_request_goes_another_way(trouble):
    trail = Trail(trouble)
    assert _sent_behind(trail, RELEASE, [b"key"], [b"holder"]) is False
    assert trail.sound is False


def test_an_undo_goes_out_on_the_connection_of_its_request(monkeypatch):
    """On another one it could come first, and then the request would take what it gave back."""
    posts = Posts(lambda: None)
    monkeypatch.setattr(posts, "_see_to_it", lambda: None)
    sound, broken = Trail(), Trail(OSError("gone"))
    posts.add(RELEASE, [b"key"], [b"holder"], sound)
    posts.add(RELEASE, [b"key"], [b"holder"], broken)
    first, second = posts._next(), posts._next()
    assert (first.trail, broken.sent) == (None, []), "what was not sent yet comes first"
    assert (second.trail, len(sound.sent)) == (sound, 1)


REFUSED, NOT_NOW = ReplyError("WRONGTYPE no lock"), ReplyError("READONLY a replica")


@pytest.mark.parametrize(
    ("answers", "done"),
    [
        ([1, 1], True),
        ([NOT_NOW, 1], True),
        ([1, REFUSED], True),
        ([1, NOT_NOW], False),
        ([1, Broken("gone", sent=True)], False),
    ],
)
def test_an_undo_that_did_not_run_is_sent_again_and_a_refused_one_is_not(answers, done):
    trail = Trail(answers=answers)
    assert _answered(trail, 1.0) is done
    assert trail.closed
