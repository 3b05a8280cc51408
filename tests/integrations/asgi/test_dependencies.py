"""Dependencies of FastAPI that hold: it begins and ends them in whichever thread is free."""

import asyncio
import threading
from typing import Annotated, Any

import pytest

import fencelock

fastapi = pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

REQUESTS = 60
SOON = 8.0


def answers(app, paths):
    """Send requests at once, and return their answers."""

    async def all_at_once():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
            return await asyncio.gather(*map(http.get, paths))

    return asyncio.run(all_at_once())


def test_each_request_keeps_its_permit_until_its_own_end(server):
    """As found: 31 of 60 requests lost their permit to the end of another one."""
    app, threads = fastapi.FastAPI(), set()
    worked = [threading.Event() for _ in range(REQUESTS)]
    with fencelock.Client(server.url) as client:
        handle = client.semaphore("requests", REQUESTS)

        def permit():
            begun = threading.get_ident()
            with handle as lease:
                yield lease
            threads.add(begun == threading.get_ident())

        @app.get("/{number}")
        def work(number: int, lease: Annotated[Any, fastapi.Depends(permit)]):
            if number % 2:
                worked[number - 1].set()
            else:  # so they do not end in the order in which they began
                assert worked[number].wait(SOON)
            lease.check()
            return number

        found = answers(app, [f"/{number}" for number in range(REQUESTS)])
        assert [each.json() for each in found] == list(range(REQUESTS))
        assert False in threads, "none ended in another thread than it began in"
        assert handle.available() == REQUESTS
