"""``Leading``, which needs no framework: what it refuses, and how its task ends."""

import asyncio
import contextlib
import time

import pytest

import fencelock
from fencelock.contrib import asgi
from fencelock.testing import inactive

pytestmark = pytest.mark.daily


@pytest.fixture(autouse=True)
def _no_server(request):
    with contextlib.nullcontext() if "server" in request.fixturenames else inactive():
        yield


async def nothing(lease):
    del lease


def test_other_libraries_than_asyncio_are_refused_in_words():
    """As hypercorn's worker for trio."""
    client = fencelock.AsyncClient("redis://nowhere")
    for begun in (
        asgi.Leading(client, "a", nothing).__aenter__(),
        asgi.CancelOnDisconnect(nothing)({"type": "http"}, nothing, nothing),
    ):
        with pytest.raises(RuntimeError, match="needs asyncio"):
            begun.send(None)


def test_wrong_options_are_refused_before_it_stands():
    with pytest.raises(TypeError, match="AsyncClient"):
        asgi.Leading(fencelock.Client("redis://nowhere"), "a", nothing)
    with pytest.raises(TypeError, match="coroutine function"):
        asgi.Leading(fencelock.AsyncClient("redis://nowhere"), "a", None)


def test_leading_twice_is_refused():
    async def main():
        async with fencelock.AsyncClient("redis://nowhere") as client:
            leading = asgi.Leading(client, "a", nothing)
            async with leading:
                with pytest.raises(RuntimeError, match="runs already"):
                    await leading.__aenter__()

    asyncio.run(main())


def test_a_task_that_returns_is_run_once_and_goes_on_leading():
    runs, ran = [], asyncio.Event()

    async def once(lease):
        runs.append(lease.fence)
        ran.set()

    async def main():
        async with fencelock.AsyncClient("redis://nowhere") as client:
            leading = asgi.Leading(client, "a", once, pause=0.01)
            async with leading:
                await ran.wait()
                with pytest.raises(TimeoutError):  # many times its pause
                    await asyncio.wait_for(asyncio.Event().wait(), 0.1)
                assert leading.is_leader
            assert not leading.is_leader

    asyncio.run(main())
    assert len(runs) == 1


def test_a_worker_that_lost_the_leadership_stands_again_at_once(server):
    async def main():
        led = asyncio.Queue()

        async def task(lease):
            led.put_nowait(lease.fence)
            await asyncio.Event().wait()

        client = fencelock.AsyncClient(server.url)
        async with client, asgi.Leading(client, "a", task, pause=3600):
            first = await led.get()
            await client.revoke("a", reason="test")
            assert await asyncio.wait_for(led.get(), 60) > first

    asyncio.run(main())


def test_a_task_that_does_not_end_is_named_and_still_leads(caplog):
    begun, ends = asyncio.Event(), asyncio.Event()

    async def stubborn(lease):
        begun.set()
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                begun.set()

    async def main():
        async with fencelock.AsyncClient("redis://nowhere") as client:
            leading = asgi.Leading(client, "a", stubborn, timeout=0.05)
            async with leading:
                await begun.wait()
            assert leading.is_leader
            ends.set()

    asyncio.run(main())
    assert "the task of 'a' did not end within 0.05 s" in caplog.text


@pytest.mark.parametrize("ending", ["returns", "raises", "groups"])
def test_a_task_ends_as_it_likes_when_it_is_cancelled(ending, caplog):
    begun = asyncio.Event()

    async def task(lease):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ending != "returns":
                error = ValueError("at its end")
                raise (error if ending == "raises" else ExceptionGroup("two", [error])) from None

    async def main():
        async with fencelock.AsyncClient("redis://nowhere") as client:
            leading = asgi.Leading(client, "a", task, timeout=60)
            started = time.monotonic()
            async with leading:
                await begun.wait()
            assert not leading.is_leader
            assert time.monotonic() - started < 50
            async with client.lock("a", timeout=9):  # it was given back
                pass

    asyncio.run(main())
    assert ("the task of 'a' failed" in caplog.text) is (ending != "returns")


def test_a_task_that_was_cancelled_from_within_has_failed(caplog):
    runs, again = [], asyncio.Event()

    async def task(lease):
        runs.append(lease.fence)
        if len(runs) == 2:
            again.set()
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    async def main():
        client = fencelock.AsyncClient("redis://nowhere")
        async with client, asgi.Leading(client, "a", task, pause=0.01):
            await asyncio.wait_for(again.wait(), 5)

    asyncio.run(main())
    assert "the task of 'a' failed" in caplog.text
