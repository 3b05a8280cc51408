"""What is given back: several locks one by one, and what may still come when a hold has ended."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fencelock import ServerDenied
from fencelock._core.engine import Engine
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.release import undo_owed
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.objects import multi
from fencelock._core.pushes import dispatch
from fencelock._core.quorum.lease import clean_up
from fencelock._core.seat import Stray
from fencelock.options import LeaseOptions

TERMS = LeaseOptions(ttl=30.0, renew=True)
PORT = type("Port", (Engine,), {"now": lambda _self: 0.0})()


def attempt(name):
    return Attempt(
        Terms(keys=LockKeys("p:", name), options=TERMS, client_channel=b"h", ttl=30.0),
        b"holder",
    )


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_lock_whose_release_is_refused_is_not_taken_for_released(monkeypatch, place):
    attempts, asked, given = [attempt(name) for name in "abc"], [], multi.Together()
    refusal = ServerDenied("no right", code="NOPERM")

    async def call(_port, _script, keys, *_):
        asked.append(keys[0])
        if keys[0] == attempts[place].keys.lock:
            raise refusal
        return 1

    monkeypatch.setattr(multi, "_by_one_script", lambda *_: False)
    monkeypatch.setattr(type(PORT), "call", call, raising=False)
    with pytest.raises(ServerDenied, match="no right"):
        asyncio.run(multi._give_back(PORT, attempts, given, 5.0))
    assert asked == [each.keys.lock for each in attempts]
    assert given.refused == {attempts[place]: refusal}
    assert list(given.answers.values()) == [1, 1]
    assert given.left(attempts) == []


class Posts(SimpleNamespace):
    """A port that notes what is posted, and behind what."""

    def __init__(self):
        super().__init__(lines=Lines(), mutex=nullcontext(), posted=[])

    def run_in_background(self, script, _keys, args, undo_connection=None):
        self.posted.append((script.name, args[3], undo_connection))


def test_what_a_silent_connection_may_still_bring_is_undone_behind_it_with_its_place_in_line():
    port, asked = Posts(), attempt("a")
    asked.owed = (Stray("first", b"c1"), Stray(None, b"c2"), Stray("third", b"c3"))
    undo_owed(port, asked)
    assert port.posted == [
        ("abandon", asked.terms.entry(asked, b"c1"), "first"),
        ("abandon", asked.terms.entry(asked, b"c3"), "third"),
    ]
    undo_owed(port, asked)
    assert len(port.posted) == 2


@pytest.mark.parametrize("owed", [(Stray(None, b"c"),), (Stray("silent", b"c"),), ()])
def test_a_late_grant_to_a_request_that_was_asked_again_and_is_over_is_given_back(owed):
    port, asked = Posts(), attempt("a")
    asked.owed = owed
    undo_owed(port, asked)
    port.posted.clear()
    granted = b"granted %b 1 1 1000" % asked.id
    dispatch(port, (b"message", b"h", granted), {}.get)
    assert port.posted == ([("abandon", b"", None)] if owed else [])


def test_what_a_node_of_a_quorum_may_still_bring_is_undone_with_the_hold():
    nodes, asked = [Posts(), Posts(), Posts()], attempt("a")
    asked.owed = (Stray("silent", b"c"),)
    hold = SimpleNamespace(parts=[None, asked, None])
    port = SimpleNamespace(nodes=nodes, membership=SimpleNamespace(claimants=()))
    clean_up(port, hold)
    entry = asked.terms.entry(asked, b"c")
    assert [node.posted for node in nodes] == [[], [("abandon", entry, "silent")], []]
