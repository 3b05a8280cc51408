"""Requests whose handlers run in threads: cancelled while they work, and more of them than threads.

The referee is a list: each handler writes when it begins and ends, whatever the library knows.
"""

import asyncio
import threading
from typing import Annotated, Any

import pytest

import fencelock
from fencelock.contrib.asgi import CancelOnDisconnect, locked
from tests.waiting import until

fastapi = pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")
from starlette.concurrency import run_in_threadpool  # noqa: E402 - it comes with FastAPI

SOON = 20.0
THREADS = 40  # of anyio's pool


class Referee:
    """Counts who is inside, by the name of the lock."""

    def __init__(self):
        self._mutex = threading.Lock()
        self.inside = {}
        self.most = {}
        self.served = 0
        self.began = threading.Event()
        self.go = threading.Event()

    def work(self, name="order"):
        with self._mutex:
            self.inside[name] = self.inside.get(name, 0) + 1
            self.most[name] = max(self.most.get(name, 0), self.inside[name])
        self.began.set()
        assert self.go.wait(SOON)
        with self._mutex:
            self.inside[name] -= 1
            self.served += 1


@pytest.fixture
def referee():
    made = Referee()
    yield made
    made.go.set()  # no thread is left behind


def handlers(app, client, referee):
    """Give the application a handler for each way in which a handler's work gets into a thread."""
    held = Annotated[Any, fastapi.Depends(locked(client, "order:{n}", timeout=SOON))]

    @app.get("/def/{n}")
    def in_def(n: int, lease: held):
        referee.work()

    @app.get("/pool/{n}")
    async def in_pool(n: int, lease: held):
        await run_in_threadpool(referee.work)

    @app.get("/to_thread/{n}")
    async def in_thread(n: int, lease: held):
        await asyncio.to_thread(referee.work)

    @app.get("/ours/{n}")
    async def in_ours(n: int, lease: held):
        await fencelock.to_thread(referee.work)


class TimesOut:
    """A middleware of users: it cancels what takes too long."""

    def __init__(self, app, referee):
        self._app, self._referee = app, referee
        self._first = True

    async def __call__(self, scope, receive, send):
        work = asyncio.ensure_future(self._app(scope, receive, send))
        if self._first:
            self._first = False
            await asyncio.to_thread(self._referee.began.wait, SOON)
            work.cancel()
        await work


async def request(app, path, leaves=None):
    """Ask an application, as a server does; the client leaves once ``leaves`` is set."""
    said = []
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        if messages:
            return messages.pop()
        await asyncio.to_thread((leaves or threading.Event()).wait, SOON)
        return {"type": "http.disconnect"}

    async def send(message):
        said.append(message)

    words = {"path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http"}
    scope = {
        **words,
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "query_string": b"",
        "headers": [],
        "client": ("here", 1),
        "server": ("here", 80),
    }
    await app(scope, receive, send)
    return said


@pytest.mark.parametrize("cancels", ["its client leaves", "a time-out of users"])
@pytest.mark.parametrize("path", ["/def/7", "/pool/7", "/to_thread/7", "/ours/7"])
def test_a_cancelled_request_keeps_its_lock_until_its_thread_has_ended(
    server, referee, path, cancels
):
    looks = fencelock.Client(server.url)

    def waits_or_is_in():
        return looks.status("order:7").waiting or referee.most["order"] > 1

    async def play():
        async with (
            fencelock.AsyncClient(server.url) as client,
            fencelock.AsyncClient(server.url) as other,
        ):
            app, worker = fastapi.FastAPI(), fastapi.FastAPI()
            handlers(app, client, referee)
            handlers(worker, other, referee)
            leaves = referee.began if cancels == "its client leaves" else None
            app = CancelOnDisconnect(app) if leaves else TimesOut(app, referee)
            first = asyncio.create_task(request(app, path, leaves))
            await asyncio.to_thread(referee.began.wait, SOON)
            second = asyncio.create_task(request(worker, path))
            await asyncio.to_thread(until, waits_or_is_in, "the second one waits, or is inside")
            referee.go.set()
            await asyncio.gather(first, second, return_exceptions=True)

    with looks:
        asyncio.run(play())
    assert referee.most == {"order": 1}
    assert referee.served == 2


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_more_requests_than_threads_are_all_served(server, referee, face):
    """Two names; each handler needs a thread, and so does each wait of a blocking client."""
    kind = fencelock.Client if face == "blocking" else fencelock.AsyncClient
    client, app = kind(server.url), fastapi.FastAPI()
    referee.go.set()

    @app.get("/{name}")
    def work(
        name: str,
        lease: Annotated[Any, fastapi.Depends(locked(client, "job:{name}", timeout=SOON))],
    ):
        lease.check()
        referee.work(name)

    async def play():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
            asked = [http.get(f"/{'ab'[each % 2]}") for each in range(3 * THREADS)]
            found = await asyncio.wait_for(asyncio.gather(*asked), SOON)
        if face == "asyncio":
            await client.aclose()
        return {each.status_code for each in found}

    assert asyncio.run(play()) == {200}
    if face == "blocking":
        client.close()
    assert referee.served == 3 * THREADS
    assert referee.most == {"a": 1, "b": 1}


def test_def_dependencies_that_wait_leave_threads_to_the_handlers(server, referee):
    """As found: with 40 threads and 4 permits, 29 of 200 requests were answered."""
    app = fastapi.FastAPI()
    referee.go.set()
    with fencelock.Client(server.url) as client:
        slots = client.semaphore("reports", 4)

        def slot():
            with slots as lease:
                yield lease

        @app.get("/report")
        def report(lease: Annotated[Any, fastapi.Depends(slot)]):
            referee.work()

        async def play():
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
                asked = [http.get("/report") for _ in range(3 * THREADS)]
                await asyncio.wait_for(asyncio.gather(*asked), SOON)

        asyncio.run(play())
        assert referee.served == 3 * THREADS
        assert referee.most["order"] <= 4
