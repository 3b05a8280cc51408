"""_ports/posts.py: what is sent behind a request, on its own connection."""

from types import SimpleNamespace

import pytest

from fencelock._core.port import Broken
from fencelock._ports.posts import Posts, _sent_behind
from fencelock.scripts import RELEASE


class Trail(SimpleNamespace):
    """A connection on which an answer is owed."""

    def __init__(self, trouble=None):
        super().__init__(sound=True, undoing=False, sent=[], trouble=trouble)

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
