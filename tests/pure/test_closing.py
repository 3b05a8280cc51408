"""closing.py: what ``ashutdown`` awaits, and what it answers."""

import asyncio
from concurrent.futures import Future

import pytest

from fencelock import closing


def done(result):
    future = Future()
    future.set_result(result)
    return future


@pytest.mark.parametrize(
    ("here", "elsewhere", "all_given"),
    [
        ([], [], True),
        ([True], [], True),
        ([False], [], False),
        ([], [True], True),
        ([], [False], False),
        ([True, False], [True], False),
        ([True], [True, True], True),
    ],
)
def test_it_awaits_the_clients_of_this_loop_and_all_others(monkeypatch, here, elsewhere, all_given):
    shut = []

    async def shuts(port, _seconds):
        await asyncio.sleep(0)
        shut.append(port)
        return port

    monkeypatch.setattr(closing, "_open_ports", lambda _loop: here)
    monkeypatch.setattr(closing, "_begin", lambda _seconds, but: [done(each) for each in elsewhere])
    monkeypatch.setattr(closing, "_shut", shuts)
    assert asyncio.run(closing.ashutdown()) is all_given
    assert shut == here
