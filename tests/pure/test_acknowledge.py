"""_core/lock/acknowledge.py: a request that replicas acknowledge, on a connection of its own."""

import asyncio
from math import inf
from types import SimpleNamespace

import pytest

from fencelock import NotAcknowledged, ServerDenied
from fencelock._core.lock.acknowledge import confirmed
from tests.pure.made import held

WANT = held()


def asked(*, acknowledged=1, trouble=None):
    """Ask once; return the answer, and which waiters have a connection after it."""
    connected = []

    async def connect(waiter, _until, *, listen):
        assert not listen
        connected.append(waiter)

    async def call(*_request):
        if trouble is not None:
            raise trouble
        return b"answer"

    async def acknowledge(_waiter, _until):
        return acknowledged

    port = SimpleNamespace(
        replicas=SimpleNamespace(wanted=1, timeout=0.1, acknowledge=acknowledge),
        now=lambda: 100.0,
        open=connect,
        call=call,
        close=connected.remove,
    )
    try:
        return asyncio.run(confirmed(port, WANT, ("script", (), ()), inf))
    finally:
        assert connected == [], "the connection is given back"


def test_an_acknowledged_request_gives_its_connection_back():
    assert asked() == (b"answer", None)


def test_an_unacknowledged_request_gives_its_connection_back():
    reply, missing = asked(acknowledged=0)
    assert reply == b"answer"
    assert isinstance(missing, NotAcknowledged)


def test_a_refused_request_gives_its_connection_back():
    with pytest.raises(ServerDenied):
        asked(trouble=ServerDenied("no right", code="NOPERM"))
