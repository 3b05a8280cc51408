"""_core/lock/acquire.py: one heartbeat for lines in several slots of a node."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fencelock._core.keys import LockKeys, slot
from fencelock._core.lock.acquire import heartbeat
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.types import NoReply
from fencelock.options import LeaseOptions

NAMES = "abc"


class OneNode(SimpleNamespace):
    """A port whose keys lie at one node; ``answers`` by name, in the place of what scripts say."""

    def node_of(self, _key):
        return "node"

    def by_slot(self, each, key):
        return {slot(key(one)): [other for other in each if key(other) == key(one)] for one in each}

    async def run_together(self, requests, _until, _waiter):
        names = [keys[0].decode().removeprefix("p:") for _, keys, _ in requests]
        self.asked += names
        return [self.answers[name] for name in names]


def lined_up(name):
    terms = Terms(
        keys=LockKeys("p:", name),
        options=LeaseOptions(ttl=30.0, renew=True),
        client_channel=b"h",
        ttl=30.0,
    )
    return Attempt(terms, name.encode())


def looked(**answers):
    """Look for the waiter of 'b', beside two others; return all three."""
    lines, woken = Lines(), []
    waiters = {name: lined_up(name) for name in NAMES}
    for each in waiters.values():
        lines.join(each)
    port = OneNode(
        lines=lines,
        mutex=nullcontext(),
        now=lambda: 100.0,
        client_channel=b"h",
        jitter=lambda: 0.0,
        wake=woken.append,
        answers={name: in_line() for name in NAMES} | answers,
        asked=[],
    )
    try:
        asyncio.run(heartbeat(port, 105.0, waiters["b"]))
    finally:
        assert sorted(port.asked) == list(NAMES)
        assert set(woken) == {each for each in waiters.values() if each.news}
    return [name for name, each in waiters.items() if each.news]


def in_line(place=0):
    """Return what a look says of one lock with one waiter."""
    return [0, [b"other", b"1 {}", 5000, 0, [place]]]


def test_each_line_learns_from_the_answer_of_its_own_slot():
    assert looked() == []
    assert looked(c=in_line(-1)) == ["c"]
    assert looked(a=in_line(-1), b=in_line(-1)) == ["a", "b"]


def test_a_slot_without_an_answer_holds_up_no_other():
    assert looked(a=NoReply("silent", sent=True), c=in_line(-1)) == ["c"]


def test_silence_of_the_own_slot_is_raised():
    with pytest.raises(NoReply):
        looked(b=NoReply("silent", sent=True))
